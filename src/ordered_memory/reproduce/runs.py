"""Finished runs as reports see them: their figures as the run wrote them, and what their models make of examples."""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from ordered_memory.classifier import Classifier, Prediction
from ordered_memory.config import Experiment
from ordered_memory.errors import InputError
from ordered_memory.models import TITLES
from ordered_memory.tasks import TASKS, Example
from ordered_memory.training.batching import Dataset
from ordered_memory.training.run_directory import RESULT, RunDirectory
from ordered_memory.trees import Tree, without_tokens

NOTHING = "\N{EN DASH}"
"""What a table shows where there is no figure."""
EASY_TO_DRAW = (8, 16)
"""Fewest and most tokens of the examples that reports prefer to draw."""


@dataclass(frozen=True)
class FinishedRun:
    """A run directory with a result. Every figure of a report comes from `result` and `metrics`."""

    path: Path
    name: str
    """For readers; unlike the name of every other run in the report."""
    experiment: Experiment
    result: dict[str, Any]
    metrics: list[dict[str, Any]]
    finished: datetime

    @cached_property
    def model(self) -> Classifier:
        """The checkpoint that validation picked."""
        return Classifier.from_pretrained(self.path)

    @property
    def seconds(self) -> float:
        """Time in training."""
        return float(self.result["position"]["seconds"])

    @property
    def has_trees(self) -> bool:
        """Whether its trees are measured: it induces some, and there are gold ones."""
        return self.result["test"]["f1"] is not None

    @property
    def induces_trees(self) -> bool:
        return self.model.encoder.trees == "latent"

    @cached_property
    def not_words(self) -> tuple[str, ...]:
        """Tokens that only show structure; trees are drawn without them."""
        return TASKS[self.experiment.task](self.experiment.data).not_words


def load_runs(paths: Sequence[Path]) -> list[FinishedRun]:
    """The runs, in this order. They must be finished and share their data: else their figures do not compare."""
    if not paths:
        raise InputError("a report needs at least one run directory")
    places = [path.resolve() for path in paths]
    for number, path in enumerate(paths):
        if places[number] in places[:number]:
            raise InputError(f"{path}: it is named twice")
    directories = [RunDirectory.open(path) for path in paths]
    for directory in directories:
        if not (directory.path / RESULT).is_file():
            directory.experiment()  # what is no run at all says so here
            raise InputError(f"{directory.path}: the run is not finished: go on with it by --resume")
    experiments = [directory.experiment() for directory in directories]
    for path, experiment in zip(paths, experiments, strict=True):
        if differs := _difference(experiments[0], experiment):
            raise InputError(f"{path}: its data is not that of {paths[0]} ({differs}): make a report for each")
    return [
        FinishedRun(
            path=directory.path,
            name=name,
            experiment=experiment,
            result=directory.result(),
            metrics=directory.metrics(),
            finished=datetime.fromtimestamp((directory.path / RESULT).stat().st_mtime, UTC),
        )
        for directory, experiment, name in zip(directories, experiments, _names(paths, experiments), strict=True)
    ]


def _difference(one: Experiment, other: Experiment) -> str:
    """What is not the same in the data of two runs; nothing if they share it."""
    if one.task != other.task:
        return f"{other.task}, not {one.task}"
    its, wanted = (dataclasses.asdict(run.data) for run in (other, one))
    return ", ".join(f"{name} is {its[name]}, not {wanted[name]}" for name in its if its[name] != wanted[name])


def _names(paths: Sequence[Path], experiments: Sequence[Experiment]) -> list[str]:
    """The model's name, with the folder's where two runs have the same model, or its whole path if need be."""
    names = [TITLES[experiment.model] for experiment in experiments]
    for more in ([path.name for path in paths], [str(path) for path in paths]):
        times = Counter(names)
        longer = [f"{name.split(' (')[0]} ({extra})" for name, extra in zip(names, more, strict=True)]
        names = [long if times[name] > 1 else name for name, long in zip(names, longer, strict=True)]
    return names


@dataclass(frozen=True)
class Row:
    """A line of the main table; None where a figure does not exist."""

    name: str
    accuracy: float | None = None
    f1: float | None = None
    f1_without_root: float | None = None
    f1_words: float | None = None
    parameters: int | None = None
    seconds: float | None = None
    is_floor: bool = False
    """No model: what answering without looking is worth."""


def table(runs: Sequence[FinishedRun]) -> list[Row]:
    """The runs, then the floors: the commonest label, and trees that look at nothing. All on the test set."""
    rows = []
    for run in runs:
        test = run.result["test"]
        figures = (test["accuracy"], test["f1"], test["f1_without_root"], test.get("f1_words"))
        rows.append(Row(run.name, *figures, parameters=run.result["parameters"], seconds=run.seconds))
    floors = runs[0].result
    rows.append(Row("Majority class", accuracy=floors["majority"], is_floor=True))
    words = floors.get("trivial_f1_words", {})
    for name, (f1, f1_without_root) in floors["trivial_f1"].items():
        if math.isfinite(f1):
            floor = (f1, f1_without_root, words.get(name, [None])[0])
            rows.append(Row(f"{name.capitalize()} trees", None, *floor, is_floor=True))
    return rows


@dataclass(frozen=True)
class TreePair:
    """The gold tree of a sentence, and the induced one; None where there is none."""

    gold: Tree | None
    induced: Tree | None

    @cached_property
    def missed(self) -> list[tuple[int, int]]:
        """Spans of the gold tree that the induced one lacks, in preorder."""
        return _only_in_first(self.gold, self.induced)

    @cached_property
    def invented(self) -> list[tuple[int, int]]:
        """Spans of the induced tree that the gold one lacks, in preorder."""
        return _only_in_first(self.induced, self.gold)


@dataclass(frozen=True)
class Sample:
    """An example, and what one model makes of it."""

    example: Example
    prediction: Prediction
    not_words: tuple[str, ...] = ()
    """Tokens that are left out of its trees."""

    @property
    def is_right(self) -> bool:
        return self.prediction.label == self.example.label

    @property
    def certainty(self) -> float:
        """The probability that the model gives its own answer."""
        return self.prediction.probabilities[self.prediction.label]

    @cached_property
    def trees(self) -> tuple[TreePair, ...]:
        """Of each sentence, over its words."""
        gold = self.example.trees or [None] * len(self.prediction.sentences)
        induced = [sentence.tree for sentence in self.prediction.sentences]
        return tuple(TreePair(*map(self._over_words, pair)) for pair in zip(gold, induced, strict=True))

    def _over_words(self, tree: Tree | None) -> Tree | None:
        return without_tokens(tree, self.not_words) if tree is not None and self.not_words else tree

    @property
    def differs(self) -> bool:
        """Whether a sentence has an induced tree that is not the gold one."""
        return any(pair.invented for pair in self.trees)

    @property
    def gold(self) -> Tree | None:
        """Of the first sentence."""
        return self.trees[0].gold

    @property
    def missed(self) -> list[tuple[int, int]]:
        """In the first sentence."""
        return self.trees[0].missed

    @property
    def invented(self) -> list[tuple[int, int]]:
        """In the first sentence."""
        return self.trees[0].invented


def _only_in_first(first: Tree | None, second: Tree | None) -> list[tuple[int, int]]:
    if first is None or second is None:
        return []
    others = set(map(tuple, second.spans.tolist()))
    return [span for span in map(tuple, first.spans.tolist()) if span not in others]


def percent(value: float | None, digits: int = 2) -> str:
    """97.25%, or a dash where there is no figure."""
    return NOTHING if value is None else f"{100 * value:.{digits}f}%"


def held_out(run: FinishedRun) -> list[Example]:
    """The test set on which the run was measured, in its order."""
    return TASKS[run.experiment.task](run.experiment.data).splits()["test"]


def easy_to_draw(examples: Sequence[Example]) -> list[Example]:
    """Those of a length that is drawn well, in their order; or those of at most 40 tokens if there are none."""
    fewest, most = EASY_TO_DRAW
    lengths = [max(map(len, example.sentences)) for example in examples]
    chosen = [example for example, length in zip(examples, lengths, strict=True) if fewest <= length <= most]
    return chosen or [example for example, length in zip(examples, lengths, strict=True) if length <= 40]


def samples(run: FinishedRun, examples: Sequence[Example]) -> list[Sample]:
    """What the run's model makes of each example."""
    return list(_samples(run, examples))


def _samples(run: FinishedRun, examples: Iterable[Example]) -> Iterator[Sample]:
    for example in examples:
        yield Sample(example, run.model.predict(*example.sentences, trees=example.trees), run.not_words)


def disagreements(run: FinishedRun, examples: Sequence[Example], count: int) -> list[Sample]:
    """The first samples whose induced tree is not the gold one."""
    return list(islice((sample for sample in _samples(run, examples) if sample.differs), count))


def mistakes(run: FinishedRun, examples: Sequence[Example], count: int) -> list[Sample]:
    """The first examples that the model gets wrong."""
    return list(_samples(run, islice(_wrong(run.model, examples), count)))


@torch.inference_mode()
def _wrong(model: Classifier, examples: Sequence[Example], block: int = 128) -> Iterator[Example]:
    """Looks block by block, so that a long test set is read only as far as asked."""
    for first in range(0, len(examples), block):
        some = examples[first : first + block]
        batch = Dataset.encode(some, model).batch(range(len(some)), model)
        answers = model.eval()(batch).logits.argmax(-1).tolist()
        yield from (
            example for example, answer in zip(some, answers, strict=True) if model.labels[answer] != example.label
        )
