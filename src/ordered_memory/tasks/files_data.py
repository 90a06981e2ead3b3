"""What a user's own files hold, checked: examples with their places, what is held out of them, and the words."""

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordered_memory import atomic
from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import SPLITS, Example, Split
from ordered_memory.tasks.file_formats import format_of, read_rows
from ordered_memory.tasks.listops_generator import require_at_least
from ordered_memory.trees import Tree, binarise
from ordered_memory.vocabulary import split_words

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
    """Your own files."""

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
                raise InputError(f"--{split} and --{twin} are the same file, {path}: nothing would be left unseen")
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


class Sourced(NamedTuple):
    """An example, and where it stands."""

    path: Path
    line: int
    example: Example


class Data(NamedTuple):
    """What the files hold."""

    splits: dict[Split, list[Sourced]]
    words: Counter[str]
    """How often each comes in training."""
    left_out: int
    """Training examples that are too long."""


def read_examples(path: Path, config: FilesConfig, sentences: int | None = None) -> list[Sourced]:
    """The examples of a file. A text that cannot be read is told by file, line and column."""
    columns, same = format_of(path).columns, dict[str, str]()
    found = []
    for row in read_rows(path, sentences):
        parsed = []
        for column, text in zip(columns, row.texts, strict=False):
            try:
                parsed.append(parse_text(text, config.gold_trees, config.lower_case, same))
            except InputError as error:
                raise InputError(f"{path}:{row.line}: {column}: {error}") from None
        trees = tuple(tree for _, tree in parsed if tree is not None)
        example = Example(tuple(tokens for tokens, _ in parsed), same.setdefault(row.label, row.label), trees or None)
        found.append(Sourced(path, row.line, example))
    return found


def parse_text(
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


def read_data(config: FilesConfig) -> Data:
    """Read the files, hold out of the training file what has none, and check that a model can be made from it."""
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
    for split in HELD_OUT:
        check_labels(splits[split], labels_of(splits["train"]))
    words = Counter(token for _, _, example in splits["train"] for tokens in example.sentences for token in tokens)
    if max(words.values()) < config.min_count:
        raise InputError(f"{config.train}: no word comes {config.min_count} times: name a smaller --min-count")
    return Data(splits, words, len(train) - len(splits["train"]))


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


def labels_of(examples: Sequence[Sourced]) -> tuple[str, ...]:
    return tuple(sorted({sourced.example.label for sourced in examples}))


def _check_number_of_labels(train: Sequence[Sourced]) -> None:
    """Refuse labels that cannot be meant."""
    labels, path = labels_of(train), train[0].path
    if len(labels) == 1:
        raise InputError(
            f"{path}: all examples have the label {labels[0]!r}, and there must be two labels at least: "
            "the columns may be swapped"
        )
    if len(labels) > MOST_LABELS or len(labels) > max(20, len(train) // 2):
        raise InputError(
            f"{path}: {len(labels):,} different labels in {len(train):,} examples: the columns may be swapped"
        )


def check_labels(examples: Sequence[Sourced], labels: tuple[str, ...]) -> None:
    """Refuse a label that training does not have."""
    known = set(labels)
    for path, line, example in examples:
        if example.label not in known:
            some = ", ".join(labels[:20]) + (", ..." if len(labels) > 20 else "")
            raise InputError(f"{path}:{line}: the label {example.label!r} is not one of training's: {some}")
