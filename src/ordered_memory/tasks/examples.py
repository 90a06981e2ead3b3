"""What every task has in common: examples, and how a task offers them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from ordered_memory.errors import InputError
from ordered_memory.trees import Tree
from ordered_memory.vocabulary import Vocabulary

Row = TypeVar("Row")
Split = Literal["train", "validation", "test"]
DATA_VARIABLE = "ORDERED_MEMORY_DATA"
"""The environment variable that names the folder of data; each task's files lie in the folder of its name there."""
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Example:
    """One sentence, or two for a pair, with its label and, where there are any, its gold trees."""

    sentences: tuple[tuple[str, ...], ...]
    label: str
    trees: tuple[Tree, ...] | None = None
    """One gold tree for each sentence."""


class Task(Protocol):
    """A task made from its config: `TASKS[name](config)`. Making one that must read files may read them."""

    name: ClassVar[str]
    config_type: ClassVar[type]
    """The frozen dataclass of plain values that the task is made from; its defaults are the published setting."""

    def __init__(self, config: Any = None) -> None: ...

    @property
    def config(self) -> Any:
        """The config that the task was made from."""

    @property
    def sentences(self) -> int:
        """In each example: 1, or 2 for pairs."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of every sentence."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes; a label's place is its id."""

    def splits(self) -> dict[Split, list[Example]]:
        """Train, validation and test examples, always the same for the same config."""

    def extra_tests(self) -> dict[str, list[Example]]:
        """Further test sets by name, where there are any: they too are measured at the end of a run."""

    def bucket(self, example: Example) -> str:
        """The row of a report's table that the example counts in."""

    @property
    def not_words(self) -> tuple[str, ...]:
        """Tokens that only show structure: where there are any, F1 is told with them in the trees and without."""

    def sentence(self, text: str) -> tuple[tuple[str, ...], Tree | None]:
        """The tokens of a text, and the tree that it shows; what is no sentence of the task is refused."""

    def read(self, path: Path) -> list[Example]:
        """Examples from a data file; each line is checked, and a bad one is told by file, line and reason."""


def length_bucket(length: int) -> str:
    """1-7, 8-25, 26-50, 51-100, then by hundreds to 1000, and >1000 tokens."""
    for least, most in ((1, 7), (8, 25), (26, 50), (51, 100)):
        if length <= most:
            return f"{least}-{most}"
    hundreds = (length - 1) // 100
    return f"{hundreds}01-{hundreds + 1}00" if length <= 1000 else ">1000"


def read_text(path: Path) -> str:
    """The text of a file, which is UTF-8 with or without a byte order mark."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{number}: not UTF-8 text") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def find_folder(folder: str | None, task: str, otherwise: str, hint: str) -> Path:
    """The folder of a task's files: the one that is named, or the task's own in $ORDERED_MEMORY_DATA.

    Where none is named the message ends with `otherwise`; where it is not there, with `hint`.
    """
    place = os.environ.get(DATA_VARIABLE)
    if folder is None and not place:
        raise InputError(f"no folder of files is named: give --data-dir{otherwise}")
    found = Path(folder) if folder else Path(str(place)) / task
    if not found.is_dir():
        raise InputError(f"{found}: there is no such folder, and {task}'s files are looked for there: {hint}")
    return found


def read_lines(path: Path, parse: Callable[[str], Row]) -> list[Row]:
    """Parse each line of a text file. Bad input is told as `file:line: reason`; blank lines may only end the file."""
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise InputError(f"{path}: the file is empty")
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            if not line.strip():
                raise InputError("blank line")
            rows.append(parse(line))
        except InputError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    return rows
