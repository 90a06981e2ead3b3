"""Who learns in a step, and along which trees: pointer and cell can learn apart until they have found each other.

A soft step shows the pointer what would change if it pointed elsewhere. The cell that learned from it too would fit the
blur. So it learns along whole trees: before the pointer has any, along random ones, then along those that the pointer
has found, and then both learn from trees that are drawn.
"""

from collections.abc import Sequence
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ordered_memory.classifier import Batch
from ordered_memory.config import TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.training.batching import drawn_evenly
from ordered_memory.trees import random_tree


class Turn(NamedTuple):
    """What a step is."""

    trees: Literal["soft", "hard", "random", "written", "drawn"]
    learns: Literal["all", "pointer", "rest"]


TOGETHER = Turn("soft", "all")
POINTER = Turn("soft", "pointer")
RANDOM, RANDOM_POINTER = Turn("random", "rest"), Turn("random", "pointer")
WRITTEN_CELL, WRITTEN = Turn("written", "rest"), Turn("written", "all")
DRAWN = Turn("drawn", "all")
IMITATES = (RANDOM_POINTER, WRITTEN)
"""Those in which the pointer learns from trees that it is shown."""


PhaseName = Literal["random", "start", "pointer", "copy", "drawn", "last"]


class Phase(NamedTuple):
    """Steps of one kind. All but the last seek trees."""

    name: PhaseName
    begin: int
    end: int | None  # of the last: none
    turns: tuple[Turn, ...]  # of "last" two, drawn by the encoder's share of hard steps; else one
    renewed: int = 0  # it begins with a new model, along trees that the one before it wrote: the how-manieth

    def share(self, step: int) -> float:
        """How much of it is done before a step."""
        assert self.end is not None
        return (step - self.begin) / (self.end - self.begin)


@cache
def phases(config: TrainingConfig) -> tuple[Phase, ...]:
    """Of a run, in their order. It takes as many steps to find trees, however many examples there are."""
    found: list[Phase] = []

    def add(name: PhaseName, steps: int, *turns: Turn, new: int = 0) -> None:
        begin = found[-1].end or 0 if found else 0
        if steps:
            found.append(Phase(name, begin, begin + steps, turns, new))

    add("random", config.random_steps, RANDOM)
    add("start", config.start_steps, RANDOM_POINTER)
    add("pointer", config.pointer_steps, POINTER)
    for number in range(1, config.drawn_rounds + 1):
        add("copy", config.copy_steps, WRITTEN, new=number)
        add("drawn", config.drawn_steps, DRAWN)
    last = (WRITTEN_CELL, WRITTEN) if config.written else (Turn("hard", "all"), TOGETHER)
    return (*found, Phase("last", config.seeking_steps, None, last, config.drawn_rounds + 1 if config.written else 0))


def phase_of(config: TrainingConfig, step: int) -> Phase:
    """The phase that a step is of."""
    return next(phase for phase in phases(config) if phase.end is None or step < phase.end)


def next_turn(config: TrainingConfig, hard_share: float, step: int) -> Turn:
    """The turn of a step."""
    phase = phase_of(config, step)
    if phase.name == "last":
        hard, other = phase.turns
        return hard if hard_share > 0 and float(torch.rand(())) < hard_share else other
    return phase.turns[0]


def seed_of_new_model(config: TrainingConfig, number: int) -> int:
    """Of the weights from which a new model learns along the trees that another one, of the run's own seed, found."""
    return int(np.random.PCG64([config.seed, number, 2]).random_raw()) >> 1  # a positive number of 64 bits


def seeks_trees(config: TrainingConfig, step: int) -> bool:
    """Whether the step is of those in which pointer and cell look for each other."""
    return step < config.seeking_steps


def size_of_step(config: TrainingConfig, phase: Phase) -> int:
    """Examples in a step of a phase, if it is full."""
    if phase.name in ("copy", "last"):
        return config.batch_size
    seeking = config.seeking_batch_size or config.batch_size
    return min(config.drawn_batch_size or seeking if phase.name == "drawn" else seeking, config.batch_size)


def examples_read(config: TrainingConfig, steps: int) -> int:
    """How many the first steps have read, if every batch was full."""
    done = ((min(steps, phase.end or steps) - phase.begin, phase) for phase in phases(config))
    return sum(count * size_of_step(config, phase) for count, phase in done if count > 0)


def needs_pointer(config: TrainingConfig) -> str | None:
    """The first setting, of those that are in use, that asks for a model with a pointer."""
    names = ("random_steps", "start_steps", "pointer_steps", "copy_steps", "drawn_steps", "written")
    settings = {name: bool(getattr(config, name)) for name in names}
    settings["pointer_rate"] = config.pointer_rate != 1
    return next((name for name, used in settings.items() if used), None)


def short_examples(
    lengths: NDArray[np.int64], labels: NDArray[np.int64], config: TrainingConfig
) -> list[NDArray[np.int64]]:
    """Those that steps with random trees draw from, by label."""
    short = by_label(labels, np.flatnonzero(lengths <= config.short_length))
    if not short:
        raise InputError(f"short_length is {config.short_length}, and no training example is that short")
    return short


def by_label(labels: NDArray[np.int64], examples: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The examples of each label, apart."""
    chosen = labels[examples]
    return [examples[chosen == label] for label in np.unique(chosen)]


def draw(kinds: Sequence[NDArray[np.int64]], config: TrainingConfig, step: int) -> NDArray[np.int64]:
    """A batch of them, each label as likely as any other. It depends on seed and step only."""
    generator = np.random.Generator(np.random.PCG64([config.seed, step, 0]))
    return drawn_evenly(kinds, size_of_step(config, phase_of(config, step)), generator)


def with_random_trees(batch: Batch, config: TrainingConfig, step: int, lean: float) -> Batch:
    """The batch with a tree for each row; it depends on seed and step only."""
    generator = np.random.Generator(np.random.PCG64([config.seed, step, 1]))
    rows = ([""] * length for length in batch.lengths.tolist())
    return batch._replace(trees=[random_tree(row, generator, lean).spans for row in rows])
