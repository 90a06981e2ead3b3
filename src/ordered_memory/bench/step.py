"""What of a training step is not the layer: batching, embedding, head, loss, clipping and the optimiser."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from ordered_memory.bench.measure import best_of
from ordered_memory.classifier import Classifier
from ordered_memory.config import TrainingConfig
from ordered_memory.tasks.listops import WindowConfig, window
from ordered_memory.training.batching import Dataset, epoch_batches
from ordered_memory.training.optimisation import make_optimiser, update

STANDING = 1e-12
"""A rate at which the weights stay what they are, however often a step is taken."""


@dataclass(frozen=True)
class StepTimes:
    """Seconds of the same training steps on so many threads."""

    threads: int
    step: float
    """From the examples to the new weights."""
    layer: float
    """Forward and backward of the layer alone, on the same embedded rows."""

    @property
    def rest(self) -> float:
        """The share of a step that is not the layer."""
        return max(0.0, 1 - self.layer / self.step)


def step_times(checkpoint: str, threads: int, batches: int = 8, runs: int = 3) -> StepTimes:
    """Training steps of a trained model on real expressions, as the loop takes them, and the layer's part of each."""
    torch.set_num_threads(threads)
    model = Classifier.from_pretrained(checkpoint).train()
    config = replace(TrainingConfig(), learning_rate=STANDING)
    optimiser = make_optimiser(config, model)
    operators = tuple(model.card["data"]["operators"])
    drawn = window(WindowConfig(operators=operators, size=batches * config.batch_size, min_length=5, max_length=50))
    dataset = Dataset.encode(drawn, model)
    whole = alone = 0.0
    for indices in epoch_batches(dataset.lengths, config.batch_size, seed=0, epoch=0):
        batch = dataset.batch(indices, model)
        embedded = model.embedding(batch.tokens).detach().requires_grad_()

        def step(indices: NDArray[np.int64] = indices) -> None:
            update(model, optimiser, dataset.batch(indices, model), config.clip)

        def layer(embedded: torch.Tensor = embedded, lengths: torch.Tensor = batch.lengths) -> None:
            model.zero_grad()
            model.encoder(embedded, lengths).vector.sum().backward()

        times = best_of(runs, step, layer)
        whole, alone = whole + times[0], alone + times[1]
    return StepTimes(threads, whole, alone)
