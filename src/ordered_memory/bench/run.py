"""`om bench`: compares, prints ratios, writes every figure as JSON, and draws how time grows with each size."""

from __future__ import annotations

import dataclasses
import os
import platform
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from ordered_memory import __version__, atomic, native
from ordered_memory.bench import systems, systems_chart
from ordered_memory.bench.cases import RIVALS, Case, cases
from ordered_memory.bench.document import GROWTH_HEADS, RATIOS, SYSTEMS, growth_cells, ratio_cells
from ordered_memory.bench.measure import GROWTH, Comparison, compare, evaluation, growth, peak_memory, sgemm_peak
from ordered_memory.bench.step import step_times
from ordered_memory.errors import InputError
from ordered_memory.provenance import commit


def bench(out: Path, checkpoint: str | None, quick: bool, only: str, console: Console) -> bool:
    """Runs everything; gives whether the two engines agreed in every case."""
    status = native.status()
    if not status.available:
        raise InputError(f"there is no native engine to measure: {status.reason}")
    threads = tuple(sorted({1, torch.get_num_threads()}))
    chosen = [case for case in cases(checkpoint) if only in f"{case.name}, {case.weights}"]
    if not chosen:
        raise InputError(f"--only {only}: no case has that in its name")
    out.mkdir(parents=True, exist_ok=True)
    figures = about(threads)
    console.print(
        f"engine: {status.path}\nsgemm: "
        + ", ".join(f"{peak / 1e9:.0f} GFLOP/s on {count} threads" for count, peak in figures["sgemm_peak"].items()),
        highlight=False,
        soft_wrap=True,
    )
    comparisons = []
    for case in chosen:
        comparisons.append(compare(case, threads, 2 if quick else 5))
        show(comparisons[-1], console)
        figures["cases"] = [plain(comparison) for comparison in comparisons]
        atomic.write_json(out / "bench.json", figures)
    if not only:
        figures["evaluation"] = show_evaluation(checkpoint or "listops-demo", quick, console)
        atomic.write_json(out / "bench.json", figures)
        figures["step"] = show_steps(checkpoint or "listops-demo", threads, quick, console)
        atomic.write_json(out / "bench.json", figures)
        figures["peak_memory"] = memory(console)
        atomic.write_json(out / "bench.json", figures)
        figures["growth"] = {
            name: [growth(name, size) for size in sizes[: 4 if quick else None]] for name, sizes in GROWTH.items()
        }
        show_growth(figures["growth"], console)
        plot(figures["growth"], out / "growth.svg", console)
        atomic.write_json(out / "bench.json", figures)
    console.print(f"written to {out}", highlight=False)
    return all(comparison.agrees for comparison in comparisons)


def bench_systems(out: Path, checkpoint: str | None, quick: bool, only: str, console: Console) -> None:
    """Measures the compared systems as expressions grow longer, prints their ratios to the LSTM, and draws them."""
    status = native.status()
    if not status.available:
        raise InputError(f"there is no native engine, with which Ordered Memory is measured: {status.reason}")
    lengths = systems.LENGTHS[: 4 if quick else None]
    chosen = systems.systems(checkpoint, only)
    if not any(system.model == systems.LSTM for system in chosen):
        chosen.append(systems.System(systems.LSTM))  # the ratios are to it
    out.mkdir(parents=True, exist_ok=True)
    threads = torch.get_num_threads()
    figures = about((threads,)) | {
        "threads": threads,
        "rows": systems.ROWS,
        "lengths": lengths,
        "slow": systems.SLOW,
        "large": systems.LARGE,
        "systems": [],
    }
    for system in chosen:
        measured = systems.measure(system, lengths, runs=1 if quick else 3)
        figures["systems"].append(measured.to_dict())
        reached = f"up to {measured.sizes[-1].length:,} tokens" if measured.sizes else "too little memory"
        console.print(f"{system.name}: {reached}", highlight=False)
    atomic.write_json(out / SYSTEMS, figures)
    show_ratios(figures, console)
    try:
        systems_chart.draw(figures, out / "systems.svg")
    except InputError as error:  # the figures are there all the same
        console.print(f"no picture: {error}", highlight=False)
    console.print(f"written to {out}", highlight=False)


def show_ratios(figures: dict[str, Any], console: Console) -> None:
    """Every system beside the LSTM: times its time, times its memory."""
    for name, title in RATIOS.items():
        table = Table(title=f"{title} for each token, LSTM = 1", title_justify="left")
        table.add_column("tokens")
        for length in figures["lengths"]:
            table.add_column(f"{length:,}", justify="right")
        for cells in ratio_cells(figures, name):
            table.add_row(*cells)
        console.print(table)


def about(threads: tuple[int, ...]) -> dict[str, Any]:
    """Machine and versions, and what its matrix product reaches on each number of threads."""
    peaks = {}
    for count in threads:
        torch.set_num_threads(count)
        peaks[count] = sgemm_peak()
    return {
        "machine": _processor(),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "version": __version__,
        "commit": commit(),
        "sgemm_peak": peaks,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def plain(comparison: Comparison) -> dict[str, Any]:
    values = dataclasses.asdict(comparison)
    if comparison.case.checkpoint is not None:
        values["case"]["checkpoint"] = Path(comparison.case.checkpoint).name  # where it lay is nobody's business
    for speed, made in zip(values["speeds"], comparison.speeds, strict=True):
        speed["ratio"] = made.ratio
    if comparison.case.name in RIVALS:
        values["rivals"] = RIVALS[comparison.case.name]
    return values


def show(comparison: Comparison, console: Console) -> None:
    """One line for each number of threads; no speed where the two disagree."""
    case, work = comparison.case, comparison.work
    name = f"{case.name}, {case.weights}"
    if not comparison.agrees:
        console.print(f"[red]{name}: no speed, for the two DISAGREE by {comparison.disagreement:.1e}[/]")
        return
    for speed in comparison.speeds:
        console.print(
            f"{name:<42} {speed.threads} threads {work.cells:6.2f} cells a token "
            f"{1e3 * speed.readable:9.1f} ms {1e3 * speed.native:8.1f} ms {speed.ratio:7.1f} x "
            f"({speed.ratio_to_every_cell:6.1f} x every cell) {100 * speed.share_of_peak:4.0f}% of peak",
            highlight=False,
            soft_wrap=True,
        )

    if case.name in RIVALS:
        rivals = ", ".join(f"{name} {multiple:g} x" for name, multiple in RIVALS[case.name].items())
        console.print(f"    beside it, as published, against every cell: {rivals}", highlight=False, soft_wrap=True)


def show_evaluation(checkpoint: str, quick: bool, console: Console) -> dict[str, Any] | None:
    """Evaluation of test sequences, induction of their trees included."""
    speed = evaluation(checkpoint, *((200, 50) if quick else (10_000, 1_000)))
    if speed is None:
        console.print("[red]evaluation: no speed, for the two DISAGREE in answers or trees[/]")
        return None
    console.print(
        f"evaluation of {speed.sequences:,} sequences, trees included: {speed.seconds:.1f} s; "
        f"of the first {speed.few:,}: {speed.readable:.1f} s {speed.native:.2f} s {speed.ratio:.1f} x",
        highlight=False,
        soft_wrap=True,
    )
    return {**dataclasses.asdict(speed), "ratio": speed.ratio}


def show_steps(checkpoint: str, threads: tuple[int, ...], quick: bool, console: Console) -> list[dict[str, Any]]:
    """How much of a training step is not the layer, on each number of threads."""
    found = []
    for count in threads:
        times = step_times(checkpoint, count, *((1, 1) if quick else ()))
        found.append({**dataclasses.asdict(times), "rest": times.rest})
        console.print(
            f"training steps of a trained model, {count} threads: {times.step:.2f} s, the layer alone "
            f"{times.layer:.2f} s: {100 * times.rest:.1f}% is not the layer",
            highlight=False,
            soft_wrap=True,
        )
    return found


def memory(console: Console) -> dict[str, int]:
    """Most memory of a training step at the size of ListOps, and of a long one with recomputation."""
    listops = Case("ListOps size, training")
    long = Case("128 rows of 1,000", "sharp", tokens=1000)
    found = {
        "readable": peak_memory(listops, "readable"),
        "native": peak_memory(listops, "native"),
        "native, recompute": peak_memory(listops, "native", recompute=True),
        "128 rows of 1,000, sharp, recompute": peak_memory(long, "native", recompute=True),
        "1 row of 100,000, inference": peak_memory(
            Case("long", "sharp", rows=1, tokens=100_000, training=False), "native"
        ),
    }
    for name, size in found.items():
        console.print(f"peak memory, {name}: {size / 2**20:,.0f} MB", highlight=False)
    console.print(f"memory.py over the engine: {found['readable'] / found['native']:.1f} x", highlight=False)
    return found


def show_growth(growths: dict[str, list[dict[str, float]]], console: Console) -> None:
    for name, entries in growths.items():
        table = Table(title=f"growth with {name.replace('_', ' ')}, sharp pointers", title_justify="left")
        for heading in ("", *GROWTH_HEADS):
            table.add_column(heading, justify="right")
        for entry in entries:
            table.add_row(*growth_cells(entry))
        console.print(table)


def plot(growths: dict[str, list[dict[str, float]]], path: Path, console: Console) -> None:
    """Time for each token against each size; needs matplotlib, the extra `figures`."""
    try:
        from matplotlib import pyplot
    except ImportError:
        console.print("no figure: it needs matplotlib (pip install 'ordered-memory[figures]')", highlight=False)
        return
    figure, axes = pyplot.subplots(1, len(growths), figsize=(3.6 * len(growths), 3.2), layout="constrained")
    for axis, (name, entries) in zip(axes, growths.items(), strict=True):
        for label, key in (("engine", "seconds_per_token"), ("nn.LSTM", "lstm_seconds_per_token")):
            axis.loglog([e["size"] for e in entries], [1e6 * e[key] for e in entries], marker="o", label=label)
        axis.set_xticks([e["size"] for e in entries], [str(e["size"]) for e in entries], rotation=45)
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axis.set_xlabel(name.replace("_", " "))
        axis.grid(alpha=0.3, which="both", linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("training, microseconds a token")
    axes[0].legend(frameon=False)
    figure.savefig(path)
    pyplot.close(figure)
