"""A run that is asked to stop finishes its step first."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals_asked() -> Iterator[list[int]]:
    """A list that fills when Ctrl-C or SIGTERM asks to stop: the step is finished first. A second one kills."""
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        asked.append(number)
        signal.signal(number, former[signal.Signals(number)])

    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heeded = [number for number, handler in former.items() if handler is not signal.SIG_IGN]  # nohup's word holds
    try:
        for number in heeded:
            signal.signal(number, note)
    except ValueError:  # not in the main thread: somebody else minds the signals
        yield asked
        return
    try:
        yield asked
    finally:
        for number in heeded:
            signal.signal(number, former[number])
