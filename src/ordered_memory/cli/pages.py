"""om demo and om report: what there is to look at."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ordered_memory.cli.arguments import data_in, parse_arguments, use_threads


@dataclass
class DemoArguments:
    out: Path = Path("runs/demo")
    """Directory of the two runs and of report.html. Finished runs in it are used again, unfinished ones go on."""
    budget: str | None = None
    """Training time of each model, such as 5m; the preset's own if not named."""
    seed: int = 0
    """Seed of the weights and of the order of the examples."""
    threads: int | None = None
    """Processor threads; PyTorch's own choice if not named."""


def demo(argv: Sequence[str]) -> int:
    """Watch Ordered Memory and an LSTM learn ListOps from nothing, in turn: figures, trees and a report, in minutes."""
    arguments = parse_arguments(DemoArguments, argv, "demo", demo.__doc__)

    from rich.console import Console

    from ordered_memory.reproduce.demo import run_demo
    from ordered_memory.training.loop import Interrupted

    use_threads(arguments.threads)
    try:
        run_demo(arguments.out, Console(), arguments.budget, arguments.seed)
    except Interrupted:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


@dataclass
class ReportArguments:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Directories of finished runs on the same data."""
    out: Path = Path("report.html")
    """The page to write."""
    data_dir: Path | None = None
    """Where the data of tasks lies, instead of $ORDERED_MEMORY_DATA."""


def report(argv: Sequence[str]) -> int:
    """Write a page about finished runs: figures, learning curves, trees, pointers, mistakes."""
    arguments = parse_arguments(ReportArguments, argv, "report", report.__doc__)

    from ordered_memory.reproduce.report import write_report

    with data_in(arguments.data_dir):
        print(f"written to {write_report(arguments.runs, arguments.out)}")
    return 0
