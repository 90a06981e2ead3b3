"""A user's own data: labelled texts, or pairs of them, from files. `file_formats` tells how they are written."""

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordered_memory import atomic
from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import SPLITS, Example, Split, length_bucket
from ordered_memory.tasks.file_formats import format_of, read_rows
from ordered_memory.tasks.listops_generator import require_at_least
from ordered_memory.trees import Tree, binarise
from ordered_memory.vocabulary import Vocabulary, split_words

UNKNOWN = "<unk>"
"""What stands for a word that training never shows, or too seldom."""
MOST_LABELS = 1_000
"""With more labels than this, the labels are hardly labels."""
BRACKETS = ("(", ")")
HELD_OUT: tuple[Split, ...] = ("validation", "test")
"""The splits that are held out of the training file where they have no file of their own."""


@dataclass(frozen=True)
class FileRecord:
    """What a file was when a run began."""

    path: str
    """Where it lies."""
    size: int
    """Bytes in it."""
    sha256: str
    """Its checksum."""

    @classmethod
    def of(cls, path: str) -> "FileRecord":
        with atomic.explained(Path(path), "read"), Path(path).open("rb") as file:
            return cls(path, os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())

    def __str__(self) -> str:
        return f"{self.path} ({self.size:,} bytes, SHA-256 {self.sha256[:12]})"


@dataclass(frozen=True)
class FilesConfig:
    """Your own files. These flags may be written without data in front of them, as in --train FILE."""

    train: str | None = None
    """The training file. Its ending tells the format: .tsv or .txt for label TAB text, .csv or .jsonl for label and
    text by name; a pair has two texts."""
    validation: str | None = None
    """The file that picks the checkpoint; if not named, a share of the training file is held out."""
    test: str | None = None
    """The file that the picked checkpoint is measured on; if not named, a share of the training file is held out."""
    validation_share: float = 0.1
    """Share of the training file to validate on, where no file is named for it."""
    test_share: float = 0.1
    """Share of the training file to test on, where no file is named for it."""
    split_seed: int = 0
    """Seed of what is held out."""
    gold_trees: bool = False
    """Texts show their gold trees in brackets that stand alone, ( ( the cat ) sat ). They are no tokens then."""
    lower_case: bool = False
    """Make all texts lower case."""
    min_count: int = 2
    """Words that come less often than this in training are unknown ones."""
    max_length: int | None = None
    """Training examples with a text of more tokens are left out."""
    records: tuple[FileRecord, ...] = ()
    """What the files were when the run began, as the run wrote it down; if they are others now, they are refused."""

    def __post_init__(self) -> None:
        require_at_least(0, split_seed=self.split_seed)
        require_at_least(1, min_count=self.min_count)
        if self.max_length is not None:
            require_at_least(1, max_length=self.max_length)
        for name in ("validation_share", "test_share"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}, and must be more than 0 and less than 1")
        held_out = sum(self.share(split) or 0 for split in HELD_OUT)
        if held_out >= 1:
            raise InputError(f"validation_share and test_share are {held_out:g} together: nothing is left to train on")

    def path(self, split: Split) -> str | None:
        """The file of a split, if one is named."""
        return {"train": self.train, "validation": self.validation, "test": self.test}[split]

    def share(self, split: Split) -> float | None:
        """What is held out of the training file for a split; None if it has a file of its own."""
        if split == "train" or self.path(split) is not None:
            return None
        return self.validation_share if split == "validation" else self.test_share

    def settled(self) -> "FilesConfig":
        """With whole paths, and records of the files; one that is not as it was recorded is refused."""
        if self.train is None:
            raise InputError("there is no training file: name one by --train FILE")
        paths = {split: os.path.abspath(path) for split in SPLITS if (path := self.path(split)) is not None}
        for split, path in paths.items():
            if twin := next((other for other in paths if other != split and paths[other] == path), None):
                raise InputError(f"--{twin} and --{split} are the same file, {path}: nothing would be left unseen")
            format_of(Path(path))
        former = {record.path: record for record in self.records}
        records = tuple(map(FileRecord.of, paths.values()))
        for record in records:
            if (was := former.get(record.path, record)) != record:
                raise InputError(
                    f"{record.path}: the file has changed since the run began: it had {was.size:,} bytes and SHA-256 "
                    f"{was.sha256[:12]}, and has {record.size:,} and {record.sha256[:12]}: put it back, or begin anew"
                )
        validation, test = paths.get("validation"), paths.get("test")
        return replace(self, train=paths["train"], validation=validation, test=test, records=records)


class Known(NamedTuple):
    """What a model is made from, and all that reading more examples takes: the files may be gone by then."""

    vocabulary: Vocabulary
    labels: tuple[str, ...]
    sentences: int


class Sourced(NamedTuple):
    """An example, and where it stands."""

    path: Path
    line: int
    example: Example


class Files:
    """The task: the examples of the config's files, which are read when they are asked for, and once."""

    name: ClassVar[str] = "files"
    config_type: ClassVar[type] = FilesConfig

    def __init__(self, config: FilesConfig | None = None, known: Known | None = None) -> None:
        """`known` is what a trained model knows of its data; without it the files tell."""
        self._config, self._given = config or FilesConfig(), known

    @cached_property
    def config(self) -> FilesConfig:
        return self._config.settled()

    @cached_property
    def _data(self) -> tuple[dict[Split, list[Sourced]], int]:
        """The splits, and how many training examples were too long for them."""
        return _read_splits(self.config)

    @cached_property
    def _known(self) -> Known:
        if self._given:
            return self._given
        train = self._data[0]["train"]
        counts, least = _count_words(train), self.config.min_count
        kept = sorted(word for word, count in counts.items() if count >= least and word != UNKNOWN)
        if not kept:
            raise InputError(f"{train[0].path}: no word comes {least} times: name a smaller --min-count")
        labels = {sourced.example.label for sourced in train}
        vocabulary = Vocabulary((UNKNOWN, *kept), unknown=UNKNOWN)
        return Known(vocabulary, tuple(sorted(labels)), len(train[0].example.sentences))

    @property
    def vocabulary(self) -> Vocabulary:
        """The words of the training examples, in the order of the alphabet."""
        return self._known.vocabulary

    @property
    def labels(self) -> tuple[str, ...]:
        return self._known.labels

    @property
    def sentences(self) -> int:
        return self._known.sentences

    @property
    def not_words(self) -> tuple[str, ...]:
        return ()

    def splits(self) -> dict[Split, list[Example]]:
        """The files' examples; what has no file is held out of the training file."""
        data, _ = self._data
        for split in HELD_OUT:
            _check_labels(data[split], self.labels)
        return {split: [sourced.example for sourced in data[split]] for split in SPLITS}

    def extra_tests(self) -> dict[str, list[Example]]:
        return {}

    def bucket(self, example: Example) -> str:
        """By the length of the longer text; see `length_bucket`."""
        return length_bucket(max(map(len, example.sentences)))

    def sentence(self, text: str) -> tuple[tuple[str, ...], Tree | None]:
        """The tokens of a text, and the tree that it shows. Where trees are asked for, it may also be bare words."""
        words = split_words(text)
        bare = len(words) > 1 and not any(bracket in words for bracket in BRACKETS)
        return _parse(text, self._config.gold_trees and not bare, self._config.lower_case)

    def read(self, path: Path) -> list[Example]:
        """Examples from a file of any of the formats; their labels must be those of training."""
        found = read_examples(path, self._config, self.sentences)
        _check_labels(found, self.labels)
        return [sourced.example for sourced in found]

    def remarks(self) -> list[str]:
        """What one should know of the data before a model is trained on it, a line for each."""
        config, (data, left_out), lines = self.config, self._data, []
        if shares := {split: share for split in HELD_OUT if (share := config.share(split))}:
            parts = (f"{len(data[split]):,} for {split} (--{split}-share {share:g})" for split, share in shares.items())
            lines.append(f"held out of {config.train}: {', '.join(parts)}")
        if left_out:
            lines.append(f"{left_out:,} training examples of more than {config.max_length} tokens are left out")
        words = _count_words(data["train"])
        if rare := len(words.keys() - set(self.vocabulary.tokens)):
            lines.append(
                f"{len(words) - rare:,} words are known; {rare:,} that come less than {config.min_count} times in "
                f"training are read as {UNKNOWN} (--min-count)"
            )
        seen = {sourced.example.sentences for sourced in data["train"]}
        twice = {split: sum(sourced.example.sentences in seen for sourced in data[split]) for split in HELD_OUT}
        if any(twice.values()):
            parts = (f"{count:,} of {len(data[split]):,} {split} examples" for split, count in twice.items() if count)
            lines.append(f"warning: {' and '.join(parts)} have the same text as a training example")
        return lines


def read_examples(path: Path, config: FilesConfig, sentences: int | None = None) -> list[Sourced]:
    """The examples of a file. A text that cannot be read is told by file, line and column."""
    columns, same = format_of(path).columns, dict[str, str]()
    found = []
    for row in read_rows(path, sentences):
        parsed = []
        for column, text in zip(columns, row.texts, strict=False):
            try:
                parsed.append(_parse(text, config.gold_trees, config.lower_case, same))
            except InputError as error:
                raise InputError(f"{path}:{row.line}: {column}: {error}") from None
        trees = tuple(tree for _, tree in parsed if tree is not None)
        example = Example(tuple(tokens for tokens, _ in parsed), same.setdefault(row.label, row.label), trees or None)
        found.append(Sourced(path, row.line, example))
    return found


def _parse(
    text: str, gold_trees: bool, lower_case: bool, same: dict[str, str] | None = None
) -> tuple[tuple[str, ...], Tree | None]:
    """The tokens of a text, and the tree in its brackets if that is asked for; `same` keeps one string for each token.

    A node of more than two parts is taken from the left, as ListOps does.
    """
    words = split_words(text.lower() if lower_case else text)
    if not words:
        raise InputError("the text is empty: there is no token to read")
    if same is not None:
        words = [same.setdefault(word, word) for word in words]
    if not gold_trees:
        return tuple(words), None
    try:
        tree = Tree.from_brackets(" ".join(words))
    except InputError as error:
        raise InputError(f"{error} (--gold-trees: a text is one tree, with spaces around each bracket)") from None
    tokens = tuple(word for word in words if word not in BRACKETS)
    return tokens, Tree(tokens, (tree if tree.is_binary else binarise(tree, "left")).spans)


def _read_splits(config: FilesConfig) -> tuple[dict[Split, list[Sourced]], int]:
    """The splits, and how many training examples were too long for them."""
    train = read_examples(Path(str(config.train)), config)
    _check_number_of_labels(train)
    total, sentences = len(train), len(train[0].example.sentences)
    generator = np.random.Generator(np.random.PCG64(config.split_seed))
    splits: dict[Split, list[Sourced]] = {}
    for split in HELD_OUT:
        if path := config.path(split):
            splits[split] = read_examples(Path(path), config, sentences)
        else:
            count = max(1, round(total * (config.share(split) or 0)))
            chosen = hold_out([sourced.example.label for sourced in train], count, generator)
            if chosen is None:
                raise InputError(f"{config.train}: too few examples to hold out {count} of them: name a --{split} file")
            splits[split] = [sourced for sourced, out in zip(train, chosen, strict=True) if out]
            train = [sourced for sourced, out in zip(train, chosen, strict=True) if not out]
    most = config.max_length or max(max(map(len, sourced.example.sentences)) for sourced in train)
    splits["train"] = [sourced for sourced in train if max(map(len, sourced.example.sentences)) <= most]
    if not splits["train"]:
        raise InputError(f"{config.train}: all training examples are longer than --max-length {most}")
    return splits, len(train) - len(splits["train"])


def hold_out(labels: Sequence[str], count: int, generator: np.random.Generator) -> NDArray[np.bool_] | None:
    """Which examples are held out: of each label its share, but never all. None if there are too few of them."""
    order = sorted(generator.permutation(len(labels)).tolist(), key=labels.__getitem__)
    free = [place for before, place in pairwise(order) if labels[before] == labels[place]]  # not a label's first
    if count > len(free):
        return None
    chosen = np.zeros(len(labels), dtype=np.bool_)
    begin = int(generator.integers(len(free)))
    for number in range(count):
        chosen[free[(number * len(free) + begin) // count]] = True  # evenly through the labels
    return chosen


def _count_words(examples: Sequence[Sourced]) -> Counter[str]:
    return Counter(token for sourced in examples for tokens in sourced.example.sentences for token in tokens)


def _check_number_of_labels(train: Sequence[Sourced]) -> None:
    """Refuse labels that cannot be meant."""
    labels, path = {sourced.example.label for sourced in train}, train[0].path
    if len(labels) == 1:
        raise InputError(
            f"{path}: all examples have the label {min(labels)!r}, and there must be two labels at least: "
            "the columns may be swapped"
        )
    if len(labels) > MOST_LABELS or len(labels) > max(20, len(train) // 2):
        raise InputError(
            f"{path}: {len(labels):,} different labels in {len(train):,} examples: the columns may be swapped"
        )


def _check_labels(examples: Sequence[Sourced], labels: tuple[str, ...]) -> None:
    """Refuse a label that training does not have."""
    known = set(labels)
    for path, line, example in examples:
        if example.label not in known:
            some = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
            raise InputError(f"{path}:{line}: the label {example.label!r} is not one of training's: {some}")
