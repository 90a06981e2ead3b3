"""Files and directories that appear whole or not at all, whenever the process dies."""

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ordered_memory.errors import InputError


@contextmanager
def explained(path: Path, deed: str) -> Iterator[None]:
    """Turns the operating system's refusal (no space, no permission, no such folder) into words."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be {deed}: {error.strerror or error}") from None


def write_text(path: Path, text: str) -> None:
    """The file with this text in place of whatever was there."""
    with explained(path, "written"):
        if path.is_dir():  # . among them, which has no name to put another beside
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)


def write_json(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    with explained(path, "read"):
        content = path.read_bytes()
    try:
        return json.loads(content.decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON, or cut short: {error}") from None


def write_directory(path: Path, fill: Callable[[Path], None]) -> None:
    """The directory as `fill` fills it, in place of the one there. `recover` mends what a kill between renames left."""
    unfinished, replaced = _beside(path, "unfinished"), _beside(path, "replaced")
    with explained(path, "written"):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: a file of this name is in the way of a directory")
        try:
            recover(path)
            unfinished.mkdir(parents=True)
            fill(unfinished)
            for file in unfinished.iterdir():
                _sync(file)
            if path.exists():
                path.rename(replaced)
            unfinished.rename(path)
            _sync(path.parent)
        finally:
            recover(path)  # whatever went wrong, the former directory is where it was


def whole(path: Path) -> Path:
    """Where the directory is for a reader: the former one, for the moment in which the new one takes its place."""
    return path if path.exists() else _beside(path, "replaced")


def recover(path: Path) -> None:
    """For the one that writes: puts the former directory back if it died before the new one took its place."""
    replaced = _beside(path, "replaced")
    if replaced.is_dir() and not path.exists():
        replaced.rename(path)
    shutil.rmtree(replaced, ignore_errors=True)
    shutil.rmtree(_beside(path, "unfinished"), ignore_errors=True)


def _beside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{what}")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
