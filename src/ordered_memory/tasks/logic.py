"""Logical inference (Bowman et al., 2015): which of seven relations holds between two statements, from the words alone.

The data is that of the released repository, in a folder of files, or is drawn anew from the published distribution.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import DATA_VARIABLE, Example, Split, find_folder, read_lines
from ordered_memory.tasks.listops_generator import require_at_least
from ordered_memory.tasks.logic_generator import MOST_OPERATIONS, draw_pairs, split_bins
from ordered_memory.tasks.propositions import (
    ALL_WORLDS,
    BRACKETS,
    RELATIONS,
    VOCABULARY,
    WORDS,
    Worlds,
    count_operations,
    relate,
    tree_of_tokens,
    tree_of_words,
    worlds_of,
)
from ordered_memory.trees import Tree
from ordered_memory.vocabulary import Vocabulary, split_words

Files = dict[str, dict[int, list[Example]]]
"""train and test, and in each the examples by number of operations."""
Cut = Literal["full", "A", "B", "C"]
Reading = Literal["longer", "all", "held-out"]
READINGS: tuple[Reading, ...] = ("longer", "all", "held-out")

PATTERNS: dict[Cut, str] = {
    "A": r"\( and \( not a \) \)",
    "B": r"\( and \( not ",
    "C": r"\( (and|or) \( not ",
}
"""What a split of systematic generalisation never shows in training, in either statement."""

WORD_VOCABULARY = Vocabulary(WORDS, ignored=BRACKETS)

_RELATIONS = {relation: relation for relation in RELATIONS}
_SAME = {token: token for token in VOCABULARY.tokens}  # one string object for each token, however many are read


@dataclass(frozen=True)
class LogicConfig:
    """The data of a run of logical inference; the defaults are the published setting."""

    split: Cut = "full"
    """All training pairs, or A, B, C: without those in which a statement has ( and ( not a ) ), ( and ( not ..., or
    either operator before ( not ...; they are what the model is tested on."""
    test_reading: Reading = "longer"
    """Which pairs with such a statement are the test set of A, B and C: test pairs of more operations than in training,
    all test pairs, or those held out of the training pairs. The others are measured too."""
    max_operations: int = 6
    """Pairs of more operations are not trained on."""
    brackets: bool = True
    """Whether brackets are tokens. Without them the words are alone, and gold trees are over the words."""
    source: Literal["auto", "files", "generated"] = "auto"
    """Read the released files, or draw pairs anew; auto: files where there is a folder, and config.json says which."""
    folder: str | None = None
    """The folder of the released files, train0 to test12; if not named, the folder logic in $ORDERED_MEMORY_DATA."""
    pairs: int = 500_000
    """How many pairs to draw where there are no files; about half are different, and kept."""
    seed: int = 0
    """Seed of the drawn pairs."""

    def __post_init__(self) -> None:
        require_at_least(0, seed=self.seed)
        require_at_least(1, pairs=self.pairs)
        if not 0 <= self.max_operations <= MOST_OPERATIONS:
            raise InputError(f"max_operations is {self.max_operations}, and must be from 0 to {MOST_OPERATIONS}")
        if self.source == "generated" and self.folder is not None:
            raise InputError("source is generated, yet a folder is named: leave out one of them")

    def settled(self) -> "LogicConfig":
        """With a source that is no longer `auto`, so that the config tells what was used."""
        settled = self
        if self.source == "auto":
            there = self.folder or os.environ.get(DATA_VARIABLE)
            settled = replace(self, source="files" if there else "generated")
        if settled.source == "files" and self.pairs != LogicConfig.pairs:
            where = self.folder or f"{os.environ.get(DATA_VARIABLE)} ({DATA_VARIABLE})"
            told = f"pairs is {self.pairs}, which is how many to draw, and they are read from {where}"
            raise InputError(f"{told}: leave it out, or draw them by --source generated")
        return settled

    def data_folder(self) -> Path:
        """Where the files are; a folder that is not there is told."""
        otherwise = f", or set {DATA_VARIABLE}"
        return find_folder(self.folder, "logic", otherwise, "om data logic --download fetches the files")


class Logic:
    """The task: pairs of statements, in train, validation and test examples."""

    name: ClassVar[str] = "logic"
    config_type: ClassVar[type] = LogicConfig
    sentences: ClassVar[int] = 2

    def __init__(self, config: LogicConfig | None = None, files: Files | None = None) -> None:
        self.config = (config or LogicConfig()).settled()
        self._files = files

    @property
    def vocabulary(self) -> Vocabulary:
        return VOCABULARY if self.config.brackets else WORD_VOCABULARY

    @property
    def labels(self) -> tuple[str, ...]:
        return RELATIONS

    @property
    def not_words(self) -> tuple[str, ...]:
        return BRACKETS if self.config.brackets else ()

    def splits(self) -> dict[Split, list[Example]]:
        """Of the training pairs that may be shown every tenth is a validation example, counted across the files."""
        kept, held_out = self._training_pairs()
        return {
            "train": [example for number, example in enumerate(kept, 1) if number % 10],
            "validation": kept[9::10],
            "test": self._test_sets(held_out)[self.config.test_reading if self.config.split != "full" else "every"],
        }

    def extra_tests(self) -> dict[str, list[Example]]:
        """The other readings of a split's test set, and every test pair, matching or not."""
        if self.config.split == "full":
            return {}
        sets = self._test_sets(self._training_pairs()[1])
        del sets[self.config.test_reading]
        return {name: examples for name, examples in sets.items() if examples}

    def _training_pairs(self) -> tuple[list[Example], list[Example]]:
        """Those that may be shown, and those that the split holds out."""
        files = self.files()["train"]
        everything = [example for number in range(self.config.max_operations + 1) for example in files[number]]
        matches = matcher(self.config.split)
        kept: list[Example] = []
        held_out: list[Example] = []
        for example in everything:
            (held_out if matches(example) else kept).append(example)
        return kept, held_out

    def _test_sets(self, held_out: list[Example]) -> dict[str, list[Example]]:
        files = self.files()["test"]
        matches = matcher(self.config.split)
        matching = {number: [example for example in files[number] if matches(example)] for number in files}
        trained = self.config.max_operations
        return {
            "longer": [example for number in matching if number > trained for example in matching[number]],
            "all": [example for examples in matching.values() for example in examples],
            "held-out": held_out,
            "every": [example for examples in files.values() for example in examples],
        }

    def files(self) -> Files:
        """Train and test examples by number of operations, as the released files have them. They are read once."""
        if self._files is None:
            reader = Reader(self.config.brackets)
            if self.config.source == "files":
                self._files = _read_folder(self.config.data_folder(), reader, self.config.max_operations)
            else:
                self._files = _draw(self.config, reader)
        return self._files

    def bucket(self, example: Example) -> str:
        """The operations of the statement that has more; 12 stands for 12 and more."""
        return str(min(MOST_OPERATIONS, operations(example)))

    def sentence(self, text: str) -> tuple[tuple[str, ...], Tree | None]:
        """The tokens of a statement with its brackets, and its gold tree."""
        statement = Reader(self.config.brackets).statement(text)
        return statement.tokens, statement.tree

    def read(self, path: Path) -> list[Example]:
        """Examples from a file of lines `relation TAB left TAB right`."""
        return Reader(self.config.brackets).read(path)


def operations(example: Example) -> int:
    """Of the statement that has more."""
    return max(map(count_operations, example.sentences))


def matcher(split: Cut) -> Callable[[Example], bool]:
    """Whether either statement of a pair has what the split holds out. Without brackets, the words' tree tells."""
    if split == "full":
        return lambda _: False
    pattern = re.compile(PATTERNS[split])
    return lambda example: any(pattern.search(text) for text in statements(example))


def statements(example: Example) -> Iterator[str]:
    """The statements of a pair as the files write them, with their brackets, whether or not those are tokens."""
    for place, tokens in enumerate(example.sentences):
        if len(tokens) > 1 and BRACKETS[0] not in tokens and example.trees:
            yield example.trees[place].to_brackets()
        else:
            yield " ".join(tokens)


class _Statement(NamedTuple):
    tokens: tuple[str, ...]
    tree: Tree
    worlds: int


class Reader:
    """Makes examples from text. Statements come again and again, and each is parsed once."""

    def __init__(self, brackets: bool = True) -> None:
        self.brackets = brackets
        self._known: dict[str, _Statement] = {}

    def statement(self, text: str) -> _Statement:
        """Parsed, or refused."""
        known = self._known.get(text)
        if known is None:
            pieces = split_words(text)
            worlds = worlds_of(pieces)
            same = tuple(map(_SAME.__getitem__, pieces))
            tree = tree_of_tokens(same) if self.brackets else tree_of_words(same)
            known = self._known[text] = _Statement(tree.tokens, tree, worlds)
        return known

    def example(self, line: str) -> Example:
        """From a line `relation TAB left TAB right`. Whether the relation holds is not looked at."""
        columns = line.rstrip("\r").split("\t")
        if len(columns) != 3:
            raise InputError(
                f"a line has 3 columns, a relation and two statements with tabs between, not {len(columns)}"
            )
        if columns[0] not in _RELATIONS:
            raise InputError(f"the relation is {columns[0]!r}, and must be one of {' '.join(RELATIONS)}")
        parsed = []
        for side, text in zip(("left", "right"), columns[1:], strict=True):
            try:
                parsed.append(self.statement(text))
            except InputError as error:
                raise InputError(f"the {side} statement: {error}") from None
        left, right = parsed
        return Example((left.tokens, right.tokens), _RELATIONS[columns[0]], (left.tree, right.tree))

    def read(self, path: Path) -> list[Example]:
        """The examples of a file; a line that is not of the format, or whose relation does not hold, is told."""
        worlds: list[tuple[int, int]] = []

        def parse(line: str) -> Example:
            example = self.example(line)
            _, left, right = line.rstrip("\r").split("\t")
            worlds.append((self._known[left].worlds, self._known[right].worlds))
            return example

        examples = read_lines(path, parse)
        _check_relations(path, examples, np.array(worlds, dtype=np.uint64))
        return examples


def _check_relations(path: Path, examples: Sequence[Example], worlds: Worlds) -> None:
    """Refuse a file in which a relation does not hold, by its first such line."""
    settled = (worlds == 0) | (worlds == np.uint64(ALL_WORLDS))
    for line, side in np.argwhere(settled)[:1]:
        which, when = ("left", "right")[side], "never" if worlds[line, side] == 0 else "always"
        raise InputError(f"{path}:{line + 1}: the {which} statement is {when} true, so that no one relation holds")
    true = relate(*worlds.T)
    given = np.array([RELATIONS.index(example.label) for example in examples])
    for line in np.flatnonzero(true != given)[:1]:
        label, answer = examples[line].label, RELATIONS[true[line]]
        raise InputError(f"{path}:{line + 1}: the relation is {label}, but by truth tables it is {answer}")


def _read_folder(folder: Path, reader: Reader, max_operations: int) -> Files:
    """All test files, and those of the training files that are trained on."""
    files: Files = {"train": {}, "test": {}}
    for part, most in (("train", max_operations), ("test", MOST_OPERATIONS)):
        for number in range(most + 1):
            files[part][number] = reader.read(folder / f"{part}{number}")
    return files


def _draw(config: LogicConfig, reader: Reader) -> Files:
    parts = split_bins(draw_pairs(config.pairs, config.seed))
    return {
        part: {
            number: [reader.example(line) for line in pairs.lines()]
            for number, pairs in bins.items()
            if part == "test" or number <= config.max_operations
        }
        for part, bins in parts.items()
    }
