"""om bench and om doctor: what this machine does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from ordered_memory.cli.arguments import parse_arguments


@dataclass
class BenchArguments:
    out: Path = Path("runs/bench")
    """Directory for bench.json and growth.svg, or for systems.json and systems.svg."""
    systems: tyro.conf.FlagCreatePairsOff[bool] = False
    """Compare every system of `om models` instead, at ListOps size, as expressions grow from 25 tokens to 1,600."""
    checkpoint: str | None = "listops"
    """A trained Ordered Memory to measure too, on real expressions: a run, a checkpoint, or a shipped name."""
    only: str = ""
    """Only cases whose name contains this; with --systems, only such systems."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """Fewer runs and smaller sizes."""


def bench(argv: Sequence[str]) -> int:
    """Measure the native engine against memory.py, side by side: speed, share of the machine's peak, memory, growth."""
    arguments = parse_arguments(BenchArguments, argv, "bench", bench.__doc__)

    from rich.console import Console

    from ordered_memory.bench.run import bench as run
    from ordered_memory.bench.run import bench_systems

    if arguments.systems:
        bench_systems(arguments.out, arguments.checkpoint, arguments.quick, arguments.only, Console())
        return 0
    agreed = run(arguments.out, arguments.checkpoint, arguments.quick, arguments.only, Console())
    return 0 if agreed else 1


@dataclass
class DoctorArguments:
    build: tyro.conf.FlagCreatePairsOff[bool] = False
    """Build the native engine now, if that has not been done."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print as JSON."""


def doctor(argv: Sequence[str]) -> int:
    """Say what this machine has, which engine runs the model and why, and whether it computes what it should."""
    arguments = parse_arguments(DoctorArguments, argv, "doctor", doctor.__doc__)

    from ordered_memory.doctor import examine

    findings = examine(arguments.build)
    if arguments.json:
        print(json.dumps(findings))
    else:
        width = max(map(len, findings))
        for name, value in findings.items():
            shown = (", ".join(value) or "none") if isinstance(value, list) else value
            print(f"{name.replace('_', ' '):<{width}}  {shown}")
    return 0 if findings["check"] == "passed" else 1
