"""What the verbs share in reading their flags."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import tyro

from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import DATA_VARIABLE

Arguments = TypeVar("Arguments")
Flat = tyro.conf.arg(name="")  # a group of flags without a prefix of its own


@contextmanager
def data_in(folder: Path | None) -> Iterator[None]:
    """For as long as a verb works, --data-dir stands in for the environment variable."""
    former = os.environ.get(DATA_VARIABLE)
    if folder is not None:
        os.environ[DATA_VARIABLE] = str(folder)
    try:
        yield
    finally:
        if former is not None:
            os.environ[DATA_VARIABLE] = former
        else:
            os.environ.pop(DATA_VARIABLE, None)


def require_new(*paths: Path) -> None:
    """Data is drawn again in seconds, and what somebody has at that place may be all there is of it."""
    for path in paths:
        if path.exists():
            raise InputError(f"--out: {path} is there already: remove it, or name another place")


def use_threads(number: int | None) -> None:
    """Obeys --threads; PyTorch chooses where it is not named."""
    if number is None:
        return
    if number < 1:
        raise InputError(f"--threads is {number}, and must be at least 1")
    import torch

    torch.set_num_threads(number)


def help_text(text: str) -> Any:
    return tyro.conf.arg(help=text)


def peek(argv: Sequence[str], flag: str) -> str | None:
    """The value of a flag, before the flags that depend on it are known."""
    for place, word in enumerate(argv):
        if word == flag and place + 1 < len(argv):
            return argv[place + 1]
        if word.startswith(f"{flag}="):
            return word.split("=", 1)[1]
    return None


def parse_arguments(kind: type[Arguments], argv: Sequence[str], verb: str, description: str | None) -> Arguments:
    """The arguments of a verb. What tyro cannot parse it tells itself, with code 2."""
    with naming_flags(argv):
        return tyro.cli(kind, args=list(argv), prog=f"om {verb}", description=description)


@contextmanager
def naming_flags(argv: Sequence[str]) -> Iterator[None]:
    """Errors tell of settings: where one was typed as a flag, it is told as that."""
    try:
        yield
    except InputError as error:
        raise InputError(_with_flags(str(error), argv)) from None


def _with_flags(message: str, argv: Sequence[str]) -> str:
    for flag in (word.partition("=")[0] for word in argv if word.startswith("--")):
        field = flag[2:].rpartition(".")[2].replace("-", "_")
        message = re.sub(rf"(?<![\w-]){re.escape(field)}(?= is |: | and )", flag, message, count=1)
    return message
