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
        batches += _sorted_batches(pool, lengths, batch_size)
    return [batches[number] for number in generator.permutation(len(batches))]


def _sorted_batches(pool: NDArray[np.int64], lengths: NDArray[np.int64], batch_size: int) -> list[NDArray[np.int64]]:
    """The examples of a pool, cut into batches from the shortest to the longest."""
    pool = pool[np.argsort(lengths[pool], kind="stable")]
    return np.split(pool, range(batch_size, len(pool), batch_size))


def of_like_length(
    batches: list[NDArray[np.int64]], lengths: NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    """The same examples at about the same time, but rows of like length together.

    For models that pad. Each pool of batches is sorted by length, cut anew and shuffled; the pools keep their order.
    """
    generator = np.random.Generator(np.random.PCG64([seed, epoch, POOL]))
    found = []
    for first in range(0, len(batches), POOL):
        parts = _sorted_batches(np.concatenate(batches[first : first + POOL]), lengths, batch_size)
        found += [parts[number] for number in generator.permutation(len(parts))]
    return found


def balanced_batches(
    batches: list[NDArray[np.int64]], labels: NDArray[np.int64], seed: int, epoch: int, balanced: int
) -> list[NDArray[np.int64]]:
    """The batches of an epoch, in the first `balanced` of which each label is as likely as any other, rare ones too."""
    generator = np.random.Generator(np.random.PCG64([seed, epoch, len(batches)]))
    kinds = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    drawn = [drawn_evenly(kinds, len(batch), generator) for batch in batches[:balanced]]
    return drawn + batches[balanced:]


def drawn_evenly(groups: Sequence[NDArray[np.int64]], size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """So many members, each group being as likely as any other, however small it is."""
    kinds, places = generator.integers(len(groups), size=size), generator.random(size)
    chosen = (groups[kind][int(place * len(groups[kind]))] for kind, place in zip(kinds, places, strict=True))
    return np.fromiter(chosen, dtype=np.int64, count=size)


def mixed_batches(
    lengths: NDArray[np.int64],
    batch_size: int,
    seed: int,
    epoch: int,
    short_share: float,
    short_length: int,
    short_epochs: float = 0.0,
    behind: float | None = None,
) -> list[NDArray[np.int64]]:
    """As many batches as an epoch has, a share of each drawn anew from the short examples, the rest from all of them.

    The short ones, of at most `short_length` tokens, are drawn evenly over their lengths: the shortest are few, and a
    model learns the most from them at first. Their share falls to zero over `short_epochs`, if that is not 0; it is
    that of each batch's place, or the same for all if it is told how many epochs are `behind`. Beside them no example
    comes twice in an epoch, and as many are left out as the short ones take the place of.
    """
    by_length = [np.flatnonzero(lengths == length) for length in np.unique(lengths[lengths <= short_length])]
    if not by_length:
        raise InputError(f"short_length is {short_length}, and no training example is that short")
    if short_epochs and (epoch if behind is None else behind) >= short_epochs:
        return epoch_batches(lengths, batch_size, seed, epoch)
    generator = np.random.Generator(np.random.PCG64([seed, epoch]))
    order = generator.permutation(len(lengths))
    batches, first = [], 0
    for place in range(0, len(lengths), batch_size):
        epochs = epoch + place / len(lengths) if behind is None else behind
        faded = epochs / short_epochs if short_epochs else 0.0
        size = min(batch_size, len(lengths) - place)
        drawn = min(size - 1, round(short_share * max(0.0, 1 - faded) * size))
        short = drawn_evenly(by_length, drawn, generator)
        batches.append(np.concatenate((order[first : first + size - drawn], short)))
        first += size - drawn
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
