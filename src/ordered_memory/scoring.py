"""How well one tree agrees with another: the unlabelled counts of EVALB, added up, then precision, recall and F1.

As in EVALB, every internal node is a bracket (a word's own tag is not), repeated brackets of a unary chain count as
often as they stand there, and figures of a corpus come from the sums over its sentences, not from a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordered_memory.errors import InputError
from ordered_memory.trees import Tree

SpanLists: TypeAlias = Sequence[ArrayLike] | NDArray[Any]  # spans (K, 2) of each sentence, or all in one padded array


@dataclass(frozen=True)
class Counts:
    """Counts of one sentence or of many: they add, and `sum` adds them.

    Figures are fractions between 0 and 1. Where there is nothing to divide by they are nan, not a score: sentences of
    one word have no brackets, and say nothing about a parser. (EVALB prints 0.00 there; the sums are the same.)
    """

    sentences: int = 0
    matched: int = 0
    """Brackets found in both trees."""
    gold: int = 0
    predicted: int = 0
    exact: int = 0
    """Sentences whose brackets all agree; a sentence without any is one, as in EVALB."""
    crossing: int = 0
    """Predicted brackets that cross a gold one."""

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        return Counts(
            self.sentences + other.sentences,
            self.matched + other.matched,
            self.gold + other.gold,
            self.predicted + other.predicted,
            self.exact + other.exact,
            self.crossing + other.crossing,
        )

    def __radd__(self, other: int) -> Counts:
        return self if other == 0 else NotImplemented  # `sum` starts from 0

    @property
    def precision(self) -> float:
        """Predicted brackets that are right."""
        return _ratio(self.matched, self.predicted)

    @property
    def recall(self) -> float:
        """Gold brackets that were found."""
        return _ratio(self.matched, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _ratio(2 * self.matched, self.gold + self.predicted)

    @property
    def complete(self) -> float:
        """Sentences whose brackets all agree."""
        return _ratio(self.exact, self.sentences)


def count(gold: Tree, predicted: Tree, root: bool = True) -> Counts:
    """Compare two trees over the same tokens; `root=False` leaves out brackets around the whole sentence."""
    if len(gold) != len(predicted):
        raise InputError(f"the gold tree has {len(gold)} tokens and the predicted tree {len(predicted)}")
    for position, (wanted, found) in enumerate(zip(gold.tokens, predicted.tokens, strict=True), 1):
        if wanted != found:
            raise InputError(f"token {position} is {wanted!r} in the gold tree and {found!r} in the predicted tree")
    return total(count_spans([gold.spans], [predicted.spans], [len(gold)], root))


def count_spans(gold: SpanLists, predicted: SpanLists, lengths: ArrayLike, root: bool = True) -> NDArray[np.int64]:
    """Compare many sentences at once: one row of counts for each, in the order of the fields of `Counts`.

    gold and predicted hold one (K, 2) array of spans for each sentence; empty spans, as (0, 0), are padding, so what
    `induce_spans` returns can be given as it is. `total` and `by_bucket` add rows up.
    """
    sizes = np.asarray(lengths, dtype=np.int64).reshape(-1)
    if not len(gold) == len(predicted) == len(sizes):
        raise InputError(
            f"{len(gold)} gold sentences, {len(predicted)} predicted and {len(sizes)} lengths: not the same"
        )
    rows = np.zeros((len(sizes), 6), dtype=np.int64)
    # About a million tokens at a time bound the memory in use.
    block = np.cumsum(sizes) // 1_000_000
    edges = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(sizes)]
    for first, last in pairwise(edges):
        some = slice(first, last)
        rows[some] = _count_block(gold[some], predicted[some], sizes[some], first, root)
    return rows


def total(rows: NDArray[np.int64]) -> Counts:
    """The sum of rows of `count_spans`."""
    return Counts(*rows.reshape(-1, 6).sum(axis=0).tolist())


def by_bucket(rows: NDArray[np.int64], buckets: Sequence[str]) -> dict[str, Counts]:
    """The sum of rows of `count_spans` for each bucket, first seen first; `buckets` names the bucket of each row."""
    if len(buckets) != len(rows):
        raise InputError(f"{len(buckets)} buckets for {len(rows)} sentences: each sentence needs one")
    numbers = {name: number for number, name in enumerate(dict.fromkeys(buckets))}
    sums = np.zeros((len(numbers), 6), dtype=np.int64)
    np.add.at(sums, [numbers[name] for name in buckets], rows)
    return {name: total(sums[number]) for name, number in numbers.items()}


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else math.nan


def _count_block(
    gold: SpanLists, predicted: SpanLists, sizes: NDArray[np.int64], first: int, root: bool
) -> NDArray[np.int64]:
    # All sentences stand on one line, a gap after each, so that no span of one can meet a span of another.
    begins = np.cumsum(sizes + 1) - (sizes + 1)
    stride = int((sizes + 1).sum()) + 1
    count_of = len(sizes)
    gold_row, gold_start, gold_end = _lay_out(gold, sizes, begins, first, root, "gold")
    row, start, end = _lay_out(predicted, sizes, begins, first, root, "predicted")

    gold_keys, gold_times = np.unique(gold_start * stride + gold_end, return_counts=True)
    keys, where, times = np.unique(start * stride + end, return_index=True, return_counts=True)
    _, in_gold, in_predicted = np.intersect1d(gold_keys, keys, assume_unique=True, return_indices=True)
    shared = np.minimum(gold_times[in_gold], times[in_predicted])
    shared_row = row[where[in_predicted]]

    matched = np.bincount(shared_row, weights=shared, minlength=count_of).astype(np.int64)
    golds, predictions = np.bincount(gold_row, minlength=count_of), np.bincount(row, minlength=count_of)
    crossing = np.bincount(row[_crosses(start, end, gold_start, gold_end, stride)], minlength=count_of)
    exact = (matched == golds) & (matched == predictions)
    return np.stack([np.ones(count_of, np.int64), matched, golds, predictions, exact, crossing], axis=1)


def _lay_out(
    spans: SpanLists, sizes: NDArray[np.int64], begins: NDArray[np.int64], first: int, root: bool, name: str
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The sentence, start and end of every span that counts, starts and ends moved to the sentence's own place."""
    arrays = [np.asarray(each).reshape(-1, 2) for each in spans]
    row = np.repeat(np.arange(len(arrays)), [len(each) for each in arrays])
    start, end = np.concatenate([np.zeros((0, 2), np.int64), *arrays], dtype=np.int64).T
    bad = (start < 0) | (end < start) | (end > sizes[row])
    for index in np.flatnonzero(bad)[:1]:
        raise InputError(
            f"sentence {first + row[index] + 1}: {name} span ({start[index]}, {end[index]}) does not lie inside "
            f"{sizes[row[index]]} tokens"
        )
    counts = start < end
    if not root:
        counts &= end - start < sizes[row]
    row, start, end = row[counts], start[counts], end[counts]
    return row, start + begins[row], end + begins[row]


def _crosses(
    start: NDArray[np.int64],
    end: NDArray[np.int64],
    gold_start: NDArray[np.int64],
    gold_end: NDArray[np.int64],
    size: int,
) -> NDArray[np.bool_]:
    """Whether each span crosses any gold span: one that starts strictly inside and ends outside, or the reverse.

    Both are questions about a stretch of positions (how far right do gold spans reach from there, how far left),
    answered from a table of maxima over stretches of 1, 2, 4, ... positions, of which one row is alive at a time.
    """
    reach = np.zeros(size, dtype=np.int64)
    np.maximum.at(reach, gold_start, gold_end)
    back = np.zeros(size, dtype=np.int64)  # as a distance from the line's end, so that both tables hold maxima
    np.maximum.at(back, gold_end, size - gold_start)
    inside = end - start - 1  # positions strictly inside
    level = np.frexp(inside)[1] - 1  # floor(log2(inside))
    crossing = np.zeros(len(start), dtype=np.bool_)
    for power in range(int(level.max(initial=-1)) + 1):
        asked = np.flatnonzero(level == power)
        low, high = start[asked] + 1, end[asked] - 2**power
        crossing[asked] = (np.maximum(reach[low], reach[high]) > end[asked]) | (
            np.maximum(back[low], back[high]) > size - start[asked]
        )
        reach, back = (np.maximum(table[: -(2**power)], table[2**power :]) for table in (reach, back))
    return crossing
