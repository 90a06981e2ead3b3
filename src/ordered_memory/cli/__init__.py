"""The command `om`: one function for each verb. Heavy imports are inside, so that help answers at once."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Sequence

from ordered_memory import __version__
from ordered_memory.cli.data import data
from ordered_memory.cli.machine import bench, doctor
from ordered_memory.cli.models import evaluate, parse
from ordered_memory.cli.pages import demo, report
from ordered_memory.cli.reproduce import models, reproduce
from ordered_memory.cli.training import train
from ordered_memory.errors import InputError

VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "demo": demo,
    "train": train,
    "evaluate": evaluate,
    "parse": parse,
    "data": data,
    "report": report,
    "models": models,
    "reproduce": reproduce,
    "bench": bench,
    "doctor": doctor,
}

OVERVIEW = f"""\
usage: om VERB ...

Ordered Memory {__version__}: a recurrent network that finds the trees in its input, learned from labels alone.

{{verbs}}

om VERB --help tells more. Begin with: om demo
"""


def overview() -> str:
    lines = (f"  {name:<10}{verb.__doc__}" for name, verb in VERBS.items())
    return OVERVIEW.format(verbs="\n".join(lines))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a verb. Bad input is told in a line, with code 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Threads that wait by spinning take the cores from those that work: five times slower on a busy machine. Only the
    # benchmark leaves PyTorch as it comes, for on an idle machine memory.py is faster with spinning threads.
    if words[:1] != ["bench"]:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if not words or words[0] in ("-h", "--help"):
        print(overview(), end="")
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    try:
        if words[0] not in VERBS:
            close = difflib.get_close_matches(words[0], VERBS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(VERBS)}"
            raise InputError(f"{words[0]!r} is no verb of om: {hint}")
        return VERBS[words[0]](words[1:])
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        sys.stderr.close()
        return 141
