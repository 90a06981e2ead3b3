"""Every compared system at ListOps size, on the same real expressions, as these grow longer: `om bench --systems`.

What is quoted is the ratio to the LSTM, which is timed in turn with each system. Memory comes first, in a process of
each system's own, which goes on to longer expressions only while a step stays within bounds.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch

from ordered_memory.bench.measure import best_of, in_fresh_process, most_memory
from ordered_memory.classifier import Batch, Classifier
from ordered_memory.errors import InputError
from ordered_memory.models import TITLES
from ordered_memory.presets import preset
from ordered_memory.tasks.examples import Example
from ordered_memory.tasks.listops import ListOps, WindowConfig, window
from ordered_memory.training.batching import Dataset
from ordered_memory.training.loop import make_classifier

LENGTHS = (25, 50, 100, 200, 400, 800, 1600)
ROWS = 16
SIZE = 128
"""Of the states of every system."""
SLOW = 3.0
"""Seconds of a training step above which a system is not measured on longer expressions: of the step's own thread, so
that a busy machine stops none early."""
LARGE = 2**30
"""The same in bytes that a step adds: some systems need four times as much for twice the length."""
LSTM = "lstm"


@dataclass(frozen=True)
class System:
    """A model of the ListOps preset with random weights, or Ordered Memory with a checkpoint's."""

    model: str
    checkpoint: str | None = None

    @property
    def name(self) -> str:
        if self.model != "ordered-memory":
            return TITLES[self.model]
        return f"{TITLES[self.model]}, {'random' if self.checkpoint is None else 'trained'}"

    def classifier(self) -> Classifier:
        if self.checkpoint is not None:
            return Classifier.from_pretrained(self.checkpoint)
        torch.manual_seed(0)
        experiment = preset("listops", "listops", self.model)
        encoder = replace(experiment.encoder, hidden_size=SIZE)  # of all alike, whatever size learns best
        return make_classifier(replace(experiment, encoder=encoder), ListOps())


@dataclass(frozen=True)
class Size:
    """Figures for expressions of about so many tokens."""

    length: int
    tokens: int
    """Of the whole batch, padding not counted."""
    training: float
    """Seconds of a training step: forward, loss, and backward of each of its losses."""
    inference: float
    """Seconds from tokens to logits."""
    memory: int
    """Bytes that a training step adds at most."""
    training_ratio: float
    """To the LSTM's seconds, taken in turn."""
    inference_ratio: float


@dataclass(frozen=True)
class Growth:
    """A system at every length that it got to."""

    system: System
    sizes: list[Size] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        weights = "random" if self.system.checkpoint is None else "trained"
        sizes = [asdict(size) for size in self.sizes]
        return {"name": self.system.name, "model": self.system.model, "weights": weights, "sizes": sizes}


def systems(checkpoint: str | None, only: str = "") -> list[System]:
    """Those whose model's name or title contains `only`; the trained Ordered Memory first, if there is a checkpoint."""
    if checkpoint is not None:
        _check(checkpoint)
    every = [System("ordered-memory", checkpoint)] if checkpoint is not None else []
    every += [System(model) for model in TITLES]
    chosen = [system for system in every if only in system.model or only in system.name]
    if not chosen:
        raise InputError(f"--only {only}: no system has that in its name; there are {', '.join(TITLES)}")
    return chosen


def _check(checkpoint: str) -> None:
    """Refuse a checkpoint that cannot stand beside the others."""
    model = Classifier.from_pretrained(checkpoint)
    if (model.task, model.model_name) != ("listops", "ordered-memory"):
        raise InputError(f"--checkpoint {checkpoint}: not an Ordered Memory trained on ListOps, but {model.model_name}")
    if model.encoder_config.hidden_size != SIZE:
        raise InputError(
            f"--checkpoint {checkpoint}: its hidden size is {model.encoder_config.hidden_size}, and the systems are "
            f"compared at {SIZE}; --checkpoint None leaves the trained one out"
        )


@functools.cache
def expressions(length: int, rows: int) -> list[Example]:
    """Expressions of the published distribution, within a twentieth of that length."""
    slack = max(1, length // 20)
    return window(WindowConfig(size=rows, min_length=length - slack, max_length=length + slack))


def batch_of(model: Classifier, length: int, rows: int) -> Batch:
    """The same expressions for every model, with their gold trees where it reads them."""
    return Dataset.encode(expressions(length, rows), model).batch(range(rows), model)


def training_step(model: Classifier, batch: Batch) -> Callable[[], None]:
    """Forward, loss and backward, of each of the losses of a step; the optimiser is none of a system's work."""

    def run() -> None:
        model.train()
        for loss in model.losses(batch):
            model.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]

    return run


def inference(model: Classifier, batch: Batch) -> Callable[[], None]:
    """From tokens to logits."""

    def run() -> None:
        model.eval()
        with torch.inference_mode():
            model(batch)

    return run


def measure(system: System, lengths: Sequence[int] = LENGTHS, rows: int = ROWS, runs: int = 5) -> Growth:
    """A system at growing lengths, as far as its steps stay within bounds."""
    growth = Growth(system)
    model, lstm = system.classifier(), System(LSTM).classifier()
    for length, memory in memories(system, lengths, rows):
        batch, other = batch_of(model, length, rows), batch_of(lstm, length, rows)
        training = [training_step(model, batch), training_step(lstm, other)]
        reading = [inference(model, batch), inference(lstm, other)]
        if system.model == LSTM:  # it is its own measure
            del training[1:], reading[1:]
        trained, read = best_of(runs, *training, seconds=SLOW), best_of(runs, *reading, seconds=SLOW)
        growth.sizes.append(
            Size(
                length=length,
                tokens=int(batch.lengths.sum()),
                training=trained[0],
                inference=read[0],
                memory=memory,
                training_ratio=trained[0] / trained[-1],
                inference_ratio=read[0] / read[-1],
            )
        )
    return growth


def memories(system: System, lengths: Sequence[int], rows: int) -> list[tuple[int, int]]:
    """Each length that the system gets to, with the bytes that a training step adds to a fresh process at most."""
    return in_fresh_process(_grow, system, tuple(lengths), rows, torch.get_num_threads())


def _grow(system: System, lengths: Sequence[int], rows: int, threads: int, sender: Any) -> None:
    """In a process of its own: one training step of each length, from the shortest up.

    What an allocator keeps of a shorter step a longer one uses again, so the peak since the beginning is the longer's.
    """
    torch.set_num_threads(threads)
    model = system.classifier()
    batches = [batch_of(model, length, rows) for length in lengths]
    training_step(model, batch_of(model, 5, 2))()  # loads what is loaded on first use
    before = most_memory()
    for length, batch in zip(lengths, batches, strict=True):
        start = time.thread_time()
        training_step(model, batch)()
        seconds, memory = time.thread_time() - start, most_memory() - before
        sender.send((length, memory))
        if seconds > SLOW or memory > LARGE:
            return
