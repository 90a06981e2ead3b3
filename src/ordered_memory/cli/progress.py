"""A bar for the verbs that take a while."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

INTERVAL = 15.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def bar(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, or a line now and then where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(total, lambda text: console.print(text, highlight=False))
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task("", total=total)
        yield lambda done: shown.advance(task, done)


def _lines(total: int, tell: Callable[[str], None]) -> Callable[[int], None]:
    """Counts, and tells how far it is: nothing of what is done soon."""
    done, told = 0, time.perf_counter()

    def advance(more: int) -> None:
        nonlocal done, told
        done += more
        if time.perf_counter() - told >= INTERVAL:
            told = time.perf_counter()
            tell(f"  measured {done:,} of {total:,}")

    return advance
