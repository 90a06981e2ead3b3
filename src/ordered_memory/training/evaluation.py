"""Accuracy and F1 of a model on examples, in all and by bucket."""

import dataclasses
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ordered_memory.classifier import Classifier
from ordered_memory.errors import InputError
from ordered_memory.scoring import by_bucket, count_spans, total
from ordered_memory.tasks import Example
from ordered_memory.training.batching import Dataset, evaluation_batches
from ordered_memory.trees import TRIVIAL, Spans, kept_spans, without_tokens


@dataclass(frozen=True)
class Bucket:
    """Figures of the examples of one bucket, or of all. F1 is None where there are no trees to compare."""

    n: int
    accuracy: float
    f1: float | None
    f1_without_root: float | None
    f1_words: float | None
    """Of the trees without tokens that only show structure, such as brackets; None where there are none."""


@dataclass(frozen=True)
class Evaluation(Bucket):
    """Figures of a model on a set of examples; accuracy and F1 are fractions of 1."""

    loss: float
    seconds: float
    buckets: dict[str, Bucket]
    predictions: tuple[str, ...] = dataclasses.field(repr=False)
    spans: tuple[tuple[Spans, ...], ...] | None = dataclasses.field(repr=False)
    """The induced trees of each example's sentences."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, without what each single example gave."""
        buckets = {name: dataclasses.asdict(bucket) for name, bucket in self.buckets.items()}
        figures = {field.name: getattr(self, field.name) for field in dataclasses.fields(Bucket)}
        return {**figures, "loss": self.loss, "seconds": round(self.seconds, 3), "buckets": buckets}


@torch.inference_mode()
def evaluate(
    model: Classifier,
    examples: Sequence[Example],
    bucket: Callable[[Example], str],
    progress: Callable[[int], None] = lambda _: None,
    dataset: Dataset | None = None,
    not_words: Collection[str] = (),
    **options: Any,
) -> Evaluation:
    """Runs the model on every example; `progress` is told how many are done. Options go to the encoder's `parse`.

    F1 is told once more for the trees without the tokens in `not_words`.
    """
    if not examples:
        raise InputError("there are no examples to evaluate on")
    started = time.perf_counter()
    training, dataset = model.training, dataset or Dataset.encode(examples, model)
    model.eval()
    answers = np.zeros(len(dataset), dtype=np.int64)
    spans: list[tuple[Spans, ...] | None] = [None] * len(dataset)
    loss = 0.0
    for indices in evaluation_batches(dataset.lengths):
        batch = dataset.batch(indices, model)
        parsed = model.parse(batch, **options)
        loss += float(torch.nn.functional.cross_entropy(parsed.logits, batch.labels, reduction="sum"))
        answers[indices] = parsed.logits.argmax(-1).cpu().numpy()
        if parsed.spans is not None:
            for place, index in enumerate(indices):
                spans[index] = tuple(parsed.spans[place :: len(indices)])
        progress(len(indices))
    model.train(training)

    found = [row for row in spans if row is not None]
    right = answers == dataset.labels
    figures = _figures(examples, right, found if len(found) == len(examples) else None, bucket, not_words)
    everything = figures.pop("")
    return Evaluation(
        **dataclasses.asdict(everything),
        loss=loss / len(dataset),
        seconds=time.perf_counter() - started,
        buckets=figures,
        predictions=tuple(model.labels[answer] for answer in answers),
        spans=tuple(found) if len(found) == len(examples) else None,
    )


def f1_of(examples: Sequence[Example], spans: list[tuple[Spans, ...]], not_words: Collection[str] = ()) -> float | None:
    """Of the trees of some examples' sentences, over their words; None where there are no gold ones."""
    with_root, _, of_words = _tree_counts(examples, spans, [""] * len(examples), not_words)
    counts = of_words or with_root
    return _figure(counts[""].f1) if counts else None


def trivial_f1(
    examples: Sequence[Example], seed: int = 0, not_words: Collection[str] = ()
) -> dict[str, tuple[float, float]]:
    """F1 of trees that look at nothing, with and without the root's span: the floor that a parser stands on.

    Both trees are over the tokens that are not in `not_words`.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    trees = [tree for example in examples for tree in example.trees or ()]
    if not_words:
        trees = [without_tokens(tree, not_words) for tree in trees]
    gold, sentences = [tree.spans for tree in trees], [tree.tokens for tree in trees]
    if not gold:
        return {}
    floors = {}
    for name, make in TRIVIAL.items():
        guesses = [make(tokens, generator).spans for tokens in sentences]
        lengths = [len(tokens) for tokens in sentences]
        with_root, without = (total(count_spans(gold, guesses, lengths, root)).f1 for root in (True, False))
        floors[name] = (with_root, without)
    return floors


def _figures(
    examples: Sequence[Example],
    right: Any,
    spans: list[tuple[Spans, ...]] | None,
    bucket: Callable[[Example], str],
    not_words: Collection[str],
) -> dict[str, Bucket]:
    """Figures by bucket, shortest first, and of all under the empty name."""
    names = [bucket(example) for example in examples]
    place: dict[str, int] = {}
    for example, name in zip(examples, names, strict=True):
        length = max(map(len, example.sentences))
        place[name] = min(place.get(name, length), length)
    order = sorted(place, key=place.__getitem__)
    counts = [{}, {}, {}] if spans is None else _tree_counts(examples, spans, names, not_words)
    figures = {}
    for name in ["", *order]:
        chosen = np.array([name in ("", other) for other in names])
        scores = (_figure(part[name].f1) if name in part else None for part in counts)
        figures[name] = Bucket(int(chosen.sum()), float(right[chosen].mean()), *scores)
    return figures


def _tree_counts(
    examples: Sequence[Example], spans: list[tuple[Spans, ...]], names: list[str], not_words: Collection[str]
) -> list[dict[str, Any]]:
    """EVALB's counts by bucket and in all: with the root's span, without it, and over words; each sentence counts."""
    gold: list[Spans] = []
    found: list[Spans] = []
    tokens: list[tuple[str, ...]] = []
    chosen: list[str] = []
    for example, guesses, name in zip(examples, spans, names, strict=True):
        for tree, guess in zip(example.trees or (), guesses if example.trees else (), strict=True):
            gold.append(tree.spans)
            found.append(guess)
            tokens.append(tree.tokens)
            chosen.append(name)
    if not gold:
        return [{}, {}, {}]
    lengths = list(map(len, tokens))
    tables = [count_spans(gold, found, lengths, root) for root in (True, False)]
    if not_words:
        words = [np.array([token not in not_words for token in row]) for row in tokens]
        gold, found = ([kept_spans(*row) for row in zip(trees, words, strict=True)] for trees in (gold, found))
        tables.append(count_spans(gold, found, [int(row.sum()) for row in words]))
    counts = [by_bucket(rows, chosen) | {"": total(rows)} for rows in tables]
    return counts if not_words else [*counts, {}]


def _figure(value: float) -> float | None:
    return None if math.isnan(value) else value
