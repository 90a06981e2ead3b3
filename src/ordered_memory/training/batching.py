"""Examples as arrays of ids, and the batches of an epoch: rows of like length together, in an order the seed fixes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.errors import InputError
from ordered_memory.tasks import Example

POOL = 64
"""Batches whose examples are sorted by length together: enough for little padding, few enough to stay random."""


@dataclass(frozen=True)
class Dataset:
    """Examples, encoded."""

    rows: list[NDArray[np.int64]]
    labels: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def encode(cls, examples: Sequence[Example], model: Classifier) -> "Dataset":
        """Ids of every token and label; an example that the model cannot read is told by its number."""
        rows, labels = [], []
        numbers = {label: number for number, label in enumerate(model.labels)}
        for place, example in enumerate(examples, 1):
            if not example.sentences[0]:
                raise InputError(f"example {place}: the sequence is empty")
            try:
                rows.append(np.array(model.vocabulary.encode(example.sentences[0]), dtype=np.int64))
            except InputError as error:
                raise InputError(f"example {place}: {error}") from None
            if example.label not in numbers:
                known = ", ".join(model.labels)
                raise InputError(f"example {place}: label {example.label!r} is not one of the model's: {known}")
            labels.append(numbers[example.label])
        return cls(rows, np.array(labels, dtype=np.int64), np.array([len(row) for row in rows], dtype=np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Sequence[int] | NDArray[np.int64], model: Classifier) -> Batch:
        """Those examples, padded, on the model's device."""
        return model.collate([self.rows[index] for index in indices], self.labels[np.asarray(indices)])


def epoch_batches(lengths: NDArray[np.int64], batch_size: int, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Indices of each batch of an epoch: shuffled, sorted by length within pools, cut, and the batches shuffled.

    It depends on its arguments only, so a resumed run need only know how far it was.
    """
    generator = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = generator.permutation(len(lengths))
    batches = []
    for pool in np.split(order, range(POOL * batch_size, len(order), POOL * batch_size)):
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches += np.split(pool, range(batch_size, len(pool), batch_size))
    return [batches[number] for number in generator.permutation(len(batches))]


def evaluation_batches(lengths: NDArray[np.int64], tokens: int = 8192, most: int = 512) -> list[NDArray[np.int64]]:
    """All examples, sorted by length, in batches of about so many tokens: short rows many at a time, long ones few."""
    order = np.argsort(lengths, kind="stable")
    batches, first = [], 0
    for place in range(1, len(order) + 1):
        full = place == len(order) or (place + 1 - first) * lengths[order[place]] > tokens or place - first >= most
        if full:
            batches.append(order[first:place])
            first = place
    return batches
