"""Labelled texts in files. A file's ending tells its format:

.tsv .txt   a line for each example, `label TAB text`, or `label TAB text TAB text` for a pair; no header
.csv        a header with the columns label and text, and text2 for a pair; others are passed over
.jsonl      an object on each line with the keys label and text, and text2 for a pair; others are passed over
"""

import csv
import io
import json
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import read_lines, read_text

LABEL, TEXTS = "label", ("text", "text2")

_LAST_BLANKS = re.compile(r"[\r\n]\s*\Z", re.ASCII)


class Row(NamedTuple):
    """One example as it is written."""

    line: int
    label: str
    texts: tuple[str, ...]


class Format(NamedTuple):
    """How a kind of file is read, and what a message calls the columns of its texts."""

    read: Callable[[Path], list[Row]]
    columns: tuple[str, str]


def read_rows(path: Path, sentences: int | None = None) -> list[Row]:
    """The examples of a file, each of as many texts as `sentences` says, or as the first one has."""
    rows = format_of(path).read(path)
    of_whom = "the training data has" if sentences else "the first example has"
    wanted = sentences or len(rows[0].texts)
    for row in rows:
        if len(row.texts) != wanted:
            given, others = ("one text" if number == 1 else "two texts" for number in (len(row.texts), wanted))
            raise InputError(f"{path}:{row.line}: {given}, and {of_whom} {others}")
        if not row.label:
            raise InputError(f"{path}:{row.line}: the label is empty")
    return rows


def format_of(path: Path) -> Format:
    """By the file's ending."""
    if path.is_dir():
        raise InputError(f"{path}: a folder, and a file is needed")
    ending = path.suffix.lower()
    if ending not in FORMATS:
        known = " ".join(FORMATS)
        raise InputError(f"{path}: the ending tells the format of a file, and must be one of {known}, not {ending!r}")
    return FORMATS[ending]


def _read_columns(path: Path) -> list[Row]:
    """A file with tabs between the columns."""
    numbered = enumerate(read_lines(path, _split_columns), 1)
    rows = [Row(line, _bare(label), tuple(texts)) for line, (label, *texts) in numbered]
    first = (rows[0].label.lower(), *(text.strip().lower() for text in rows[0].texts))
    if first in ((LABEL, "text"), (LABEL, *TEXTS), (LABEL, "text1", "text2")):
        raise InputError(f"{path}:1: this is a header, and a file with tabs has none: take the line out")
    return rows


def _split_columns(line: str) -> list[str]:
    columns = line.rstrip("\r").split("\t")
    if len(columns) not in (2, 3):
        raise InputError(
            "a line has 2 columns, a label and a text with a tab between, or 3 with two texts, "
            f"and here {'is' if len(columns) == 1 else 'are'} {len(columns)}"
        )
    return columns


def _read_csv(path: Path) -> list[Row]:
    (_, header), *records = _csv_records(path)
    names = [_bare(name) for name in header]
    for name in (LABEL, TEXTS[0]):
        if name not in names:
            found = ", ".join(map(repr, names))
            raise InputError(f"{path}:1: the header has no column {name!r}, with commas between; it has {found}")
    for name in (LABEL, *TEXTS):
        if names.count(name) > 1:
            raise InputError(f"{path}:1: the header has the column {name!r} twice")
    label, *texts = (names.index(name) for name in (LABEL, *TEXTS) if name in names)
    rows = []
    for line, fields in records:
        if len(fields) != len(names):
            raise InputError(f"{path}:{line}: {len(fields)} columns, and the header has {len(names)}")
        rows.append(Row(line, _bare(fields[label]), tuple(fields[place] for place in texts)))
    if not rows:
        raise InputError(f"{path}: the file has a header, and no example below it")
    return rows


def _csv_records(path: Path) -> list[tuple[int, list[str]]]:
    """The line on which each record begins, and its fields; blank lines may only end the file."""
    text = _LAST_BLANKS.sub("", read_text(path))
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    records, line = [], 1
    former = csv.field_size_limit(len(text))  # the module's own limit is less than a long document
    try:
        for fields in reader:
            if not any(fields):
                raise InputError(f"{path}:{line}: blank line")
            records.append((line, fields))
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}:{line}: not of the CSV format: {error}") from None
    finally:
        csv.field_size_limit(former)
    return records


def _read_jsonl(path: Path) -> list[Row]:
    numbered = enumerate(read_lines(path, _parse_object), 1)
    return [Row(line, label, texts) for line, (label, texts) in numbered]


def _parse_object(line: str) -> tuple[str, tuple[str, ...]]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None
    if not isinstance(values, dict):
        raise InputError("not a JSON object, such as {" + '"label": "yes", "text": "one two"}')
    for name in (LABEL, TEXTS[0]):
        if name not in values:
            found = ", ".join(map(repr, values)) or "none"
            raise InputError(f"there is no key {name!r}; the keys are {found}")
    label = values[LABEL]
    if isinstance(label, int):
        label = json.dumps(label)  # 3 and true are labels too, spelt as the file spells them
    texts = [values[name] for name in TEXTS if name in values]
    for name, value in zip((LABEL, *TEXTS), (label, *texts), strict=False):
        if not isinstance(value, str):
            raise InputError(f"{name} is {json.dumps(value)}, and must be a string")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError(f"{name} holds half of a surrogate pair, which is no character")
    return _bare(label), tuple(texts)


def _bare(label: str) -> str:
    """Without the whitespace around it."""
    return label.strip(string.whitespace)


FORMATS = {
    ".tsv": Format(_read_columns, ("column 2", "column 3")),
    ".txt": Format(_read_columns, ("column 2", "column 3")),
    ".csv": Format(_read_csv, TEXTS),
    ".jsonl": Format(_read_jsonl, TEXTS),
}
