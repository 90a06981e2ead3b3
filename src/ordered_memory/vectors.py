"""Word vectors that somebody has trained: files in GloVe's text format, a word and its numbers on each line."""

import hashlib
import math
import os
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ordered_memory import atomic
from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import DATA_VARIABLE

ADDRESS = "https://nlp.stanford.edu/projects/glove"
AUTO = "auto"
"""In the place of a file's name: the one that is there, if there is one."""


@dataclass(frozen=True)
class WordVectors:
    """Vectors of some words, as a file has them."""

    words: tuple[str, ...]
    """Those that were asked for and that the file has, in its order."""
    values: NDArray[np.float32] = field(repr=False)
    """(words, size)."""
    path: Path
    sha256: str
    """Of the whole file."""


def vectors_folder() -> Path | None:
    """The folder glove of the data, where files of vectors are looked for; None where no data folder is named."""
    return Path(os.environ[DATA_VARIABLE]) / "glove" if os.environ.get(DATA_VARIABLE) else None


def find_vectors(name: str, size: int) -> Path | None:
    """The file of that path, or of that name in the data's folder glove; one that is not there is told.

    For `auto`, the first file there with `.{size}d` in its name, as GloVe's have, or None.
    """
    folder = vectors_folder()
    if name == AUTO:
        return next(iter(sorted(folder.glob(f"*.{size}d*.txt"))), None) if folder else None
    path = Path(name)
    if path.is_file():
        return path
    if folder and path.name == name:
        if (folder / name).is_file():
            return folder / name
        name = str(folder / name)
    where = "" if folder else f" (a name alone is looked for in the folder glove of --data-dir or ${DATA_VARIABLE})"
    raise InputError(f"{name}: there is no such file of word vectors{where}: GloVe's are at {ADDRESS}")


def read_vectors(path: Path, size: int, words: Collection[str]) -> WordVectors:
    """The vectors of those words that the file has. Where a word is there twice, the first counts.

    Every line must have a word (some files have words with spaces) and `size` numbers; what the numbers are is looked
    at for the words that are asked for.
    """
    wanted = {word.encode(): word for word in words}
    found: dict[str, list[float]] = {}
    digest = hashlib.sha256()
    with atomic.explained(path, "read"), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            digest.update(line)
            line = line.rstrip(b"\r\n ")
            try:
                if number == 1 and (columns := line.count(b" ")) != size:
                    raise InputError(f"its vectors have {columns} numbers, and embedding_size is {size}")
                word = wanted.get(_word(line, size))
                if word is not None and word not in found:
                    found[word] = _numbers(line.rsplit(b" ", size)[1:])
            except InputError as error:
                raise InputError(f"{path}:{number}: {error}") from None
    if not found:
        raise InputError(f"{path}: none of the {len(words):,} words of the data has a vector here")
    return WordVectors(tuple(found), np.array(list(found.values()), dtype=np.float32), path, digest.hexdigest())


def _word(line: bytes, size: int) -> bytes:
    """The word of a line that has as many columns as it should."""
    columns = line.count(b" ") + 1
    word = line.partition(b" ")[0] if columns == size + 1 else line.rsplit(b" ", size)[0]
    if columns <= size or not word:
        raise InputError(f"a line has a word and {size} numbers with spaces between, not {columns} columns")
    if columns > size + 1 and _is_number(word.rsplit(b" ", 1)[1]):
        raise InputError(f"a line has a word and {size} numbers, as the first line has, and here are more")
    return word


def _is_number(piece: bytes) -> bool:
    try:
        return math.isfinite(float(piece))
    except ValueError:
        return False


def _numbers(pieces: list[bytes]) -> list[float]:
    try:
        numbers = list(map(float, pieces))
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        wrong = next(piece for piece in pieces if not _is_number(piece))
        raise InputError(f"{wrong.decode(errors='replace')!r} is not a finite number")
    return numbers
