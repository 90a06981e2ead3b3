"""Examples as arrays of ids, and the batches of an epoch: rows of like length together, in an order the seed fixes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.errors import InputError
from ordered_memory.tasks import Example
from ordered_memory.trees import Spans

POOL = 64
"""Batches whose examples are sorted by length together: enough for little padding, few enough to stay random."""


@dataclass(frozen=True)
class Dataset:
    """Examples, encoded."""

    rows: list[tuple[NDArray[np.int64], ...]]
    """Token ids of each example's sentences."""
    labels: NDArray[np.int64]
    lengths: NDArray[np.int64]
    """Tokens of each example, of all its sentences."""
    trees: list[tuple[Spans, ...]] | None = None
    """Gold trees of each example's sentences, where the model reads them."""

    @classmethod
    def encode(cls, examples: Sequence[Example], model: Classifier) -> "Dataset":
        """Ids of every token and label; an example that the model cannot read is told by its number."""
        rows, labels = [], []
        trees: list[tuple[Spans, ...]] | None = [] if model.encoder.trees == "gold" else None
        numbers = {label: number for number, label in enumerate(model.labels)}
        for place, example in enumerate(examples, 1):
            if len(example.sentences) != model.sentences:
                raise InputError(
                    f"example {place}: {len(example.sentences)} sentences, and the model reads {model.sentences}"
                )
            if not all(example.sentences):
                raise InputError(f"example {place}: the sequence is empty")
            try:
                ids = (model.vocabulary.encode(sentence) for sentence in example.sentences)
                rows.append(tuple(np.array(row, dtype=np.int64) for row in ids))
            except InputError as error:
                raise InputError(f"example {place}: {error}") from None
            if trees is not None:
                if example.trees is None:
                    raise InputError(f"example {place}: it has no gold tree, and {model.model_name} reads gold trees")
                trees.append(tuple(tree.spans for tree in example.trees))
            if example.label not in numbers:
                known = ", ".join(model.labels)
                raise InputError(f"example {place}: label {example.label!r} is not one of the model's: {known}")
            labels.append(numbers[example.label])
        lengths = [sum(map(len, sentences)) for sentences in rows]
        return cls(rows, np.array(labels, dtype=np.int64), np.array(lengths, dtype=np.int64), trees)

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Sequence[int] | NDArray[np.int64], model: Classifier) -> Batch:
        """Those examples, padded, on the model's device."""
        sentences = range(model.sentences)
        rows = [self.rows[index][sentence] for sentence in sentences for index in indices]
        trees = None
        if self.trees is not None:
            trees = [self.trees[index][sentence] for sentence in sentences for index in indices]
        return model.collate(rows, self.labels[np.asarray(indices)], trees)


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


def mixed_batches(
    lengths: NDArray[np.int64], batch_size: int, seed: int, epoch: int, short_share: float, short_length: int
) -> list[NDArray[np.int64]]:
    """Indices of each batch of an epoch in which a share of every batch is drawn anew from the short examples.

    The rest of the batches goes through all examples once, in random order. The short ones, of at most `short_length`
    tokens, are drawn evenly over their lengths: the shortest are few, and a model learns the most from them at first.
    """
    generator = np.random.Generator(np.random.PCG64([seed, epoch]))
    by_length = [np.flatnonzero(lengths == length) for length in np.unique(lengths[lengths <= short_length])]
    if not by_length:
        raise InputError(f"short_length is {short_length}, and no training example is that short")
    drawn = min(batch_size - 1, round(short_share * batch_size))
    order = generator.permutation(len(lengths))
    batches = []
    for own in np.split(order, range(batch_size - drawn, len(order), batch_size - drawn)):
        kinds = generator.integers(len(by_length), size=drawn)
        places = generator.random(drawn)
        short = [by_length[kind][int(place * len(by_length[kind]))] for kind, place in zip(kinds, places, strict=True)]
        batches.append(np.concatenate((own, np.array(short, dtype=np.int64))))
    return batches


def evaluation_batches(lengths: NDArray[np.int64], tokens: int = 32_768, most: int = 512) -> list[NDArray[np.int64]]:
    """All examples, sorted by length, in batches of about so many tokens: short rows many at a time, long ones few."""
    order = np.argsort(lengths, kind="stable")
    batches, first = [], 0
    for place in range(1, len(order) + 1):
        full = place == len(order) or (place + 1 - first) * lengths[order[place]] > tokens or place - first >= most
        if full:
            batches.append(order[first:place])
            first = place
    return batches
