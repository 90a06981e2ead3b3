"""The one exception that means "what you gave us is wrong": the command line prints it and exits with code 2."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class InputError(ValueError):
    """Bad input, told in words a user can act on: what is wrong, where (file, line, flag, token), what to do."""


@contextmanager
def told() -> Iterator[None]:
    """For modules that are run by themselves: bad input is told in a line, with code 2."""
    try:
        yield
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
