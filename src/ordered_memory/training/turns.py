"""Who learns in a step, and along which trees: pointer and cell can take turns until they have found each other.

A soft step shows the pointer what would change if it pointed elsewhere. The cell that learned from it too would fit the
blur. So it learns along whole trees: before the pointer has any, along random ones, and then along those that are drawn
by the pointer's weights. Along the likeliest ones alone it would learn their mistakes by heart, and the pointer would
never hear of them.
"""

from collections.abc import Sequence
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

    trees: Literal["soft", "hard", "sampled", "random", "written"]
    learns: Literal["all", "pointer", "rest"]


TOGETHER = Turn("soft", "all")
POINTER, CELL = Turn("soft", "pointer"), Turn("hard", "rest")
RANDOM, RANDOM_POINTER = Turn("random", "rest"), Turn("random", "pointer")
WRITTEN_CELL, WRITTEN = Turn("written", "rest"), Turn("written", "all")
IMITATES = (RANDOM_POINTER, WRITTEN)
"""Those in which the pointer learns from trees that it is shown."""


def next_turn(config: TrainingConfig, hard_share: float, step: int) -> Turn:
    """The turn of a step. It takes as many steps to find trees, however many examples there are."""
    for steps, turns in (
        (config.random_steps, (RANDOM,)),
        (config.start_steps, (RANDOM_POINTER,)),
        (config.pointer_steps, (POINTER,)),
        (config.turns_steps, (POINTER, Turn(config.turns_pointer, "rest"), RANDOM)),
    ):
        if step < steps:
            return turns[step % len(turns)]
        step -= steps
    hard = hard_share > 0 and float(torch.rand(())) < hard_share
    if config.write_every:
        return WRITTEN_CELL if hard else WRITTEN
    if config.turns_steps:
        return CELL if hard else POINTER
    return Turn("hard", "all") if hard else TOGETHER


def seed_of_new_model(config: TrainingConfig) -> int:
    """Of the weights from which a new model learns along the trees that another one, of the run's own seed, found."""
    return int(np.random.PCG64([config.seed, 1, 2]).random_raw()) >> 1  # a positive number of 64 bits


def seeks_trees(config: TrainingConfig, step: int) -> bool:
    """Whether the step is of those in which pointer and cell look for each other."""
    return step < config.seeking_steps


def writes_trees(config: TrainingConfig, step: int) -> bool:
    """Whether the trees of all examples are written down before this step."""
    since = step - config.seeking_steps
    if not config.write_every or since < 0 or since % config.write_every:
        return False
    if config.renew:  # by the model that sought them: those of a new one are at first its mistakes
        return since == 0
    intervals = since // config.write_every + 1
    return intervals & (intervals - 1) == 0  # after one, and then after two more, four more, ...


def seeking_size(config: TrainingConfig) -> int:
    """Examples in a step that seeks trees."""
    return min(config.seeking_batch_size or config.batch_size, config.batch_size)


def examples_read(config: TrainingConfig, steps: int) -> int:
    """How many the first steps have read, if every batch was full."""
    less = config.batch_size - seeking_size(config)
    return steps * config.batch_size - min(steps, config.seeking_steps) * less


def needs_pointer(config: TrainingConfig) -> str | None:
    """The first setting, of those that are in use, that asks for a model with a pointer."""
    phases = ("random_steps", "start_steps", "pointer_steps", "turns_steps")
    settings = {name: getattr(config, name) > 0 for name in phases}
    settings["pointer_rate"] = config.pointer_rate != 1
    return next((name for name, used in settings.items() if used), None)


def short_examples(
    lengths: NDArray[np.int64], labels: NDArray[np.int64], config: TrainingConfig
) -> list[NDArray[np.int64]]:
    """Those that steps with random trees draw from, by label."""
    short = lengths <= config.short_length
    kinds = [np.flatnonzero(short & (labels == label)) for label in np.unique(labels[short])]
    if not kinds:
        raise InputError(f"short_length is {config.short_length}, and no training example is that short")
    return kinds


def draw_short(kinds: Sequence[NDArray[np.int64]], config: TrainingConfig, step: int) -> NDArray[np.int64]:
    """A batch of them, each label as likely as any other. It depends on seed and step only."""
    return drawn_evenly(kinds, seeking_size(config), np.random.Generator(np.random.PCG64([config.seed, step, 0])))


def with_random_trees(batch: Batch, config: TrainingConfig, step: int, lean: float) -> Batch:
    """The batch with a tree for each row; it depends on seed and step only."""
    generator = np.random.Generator(np.random.PCG64([config.seed, step, 1]))
    rows = ([""] * length for length in batch.lengths.tolist())
    return batch._replace(trees=[random_tree(row, generator, lean).spans for row in rows])
