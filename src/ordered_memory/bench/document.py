"""The page about speed, rendered from a benchmark's `bench.json` and `systems.json`: no figure is typed by hand.

python -m ordered_memory.bench.document results/bench docs/speed.md
"""

import sys
from pathlib import Path
from typing import Any

from ordered_memory import atomic

BENCH, SYSTEMS = "bench.json", "systems.json"
NOTHING = "\N{EN DASH}"
"""What a table shows where there is no figure."""


def page(figures: dict[str, Any], systems: dict[str, Any] | None = None) -> str:
    """The whole page, with a section on the compared systems if they were measured."""
    peaks = ", ".join(f"{peak / 1e9:.0f} GFLOP/s on {count}" for count, peak in figures["sgemm_peak"].items())
    parts = [
        "# Speed",
        "`make bench` (or `om bench`) measures the native engine beside `memory.py` in one run and keeps the "
        "shortest time of several. It prints no speed where they disagree. This page is rendered from what it wrote.",
        f"*{figures['machine']}, {figures['cores']} cores, torch {figures['torch']}, commit {figures['commit']}. "
        f"PyTorch's own matrix product reaches, by number of threads: {peaks}.*",
        "Sharp pointers are a trained model's in kind: random weights with the attention scaled up; trained ones are a "
        "checkpoint's, on real expressions. `memory.py` skips cells row by row as the engine does; the ratio in "
        "brackets is to `memory.py` computing every cell, as the released code does; beside it stand the rivals' "
        "published multiples of that code's speed. Share of peak counts the arithmetic of computed cells, keys and "
        "queries only.",
        _cases(figures["cases"]),
    ]
    if figures.get("evaluation"):
        parts.append(
            "Evaluation of {sequences:,} sequences, trees and F1 included, takes {seconds:.1f} s; on the first {few:,} "
            "of them that is {ratio:.1f} times the speed of `memory.py`.".format(**figures["evaluation"])
        )
    if "step" in figures:
        shares = ", ".join(f"{100 * times['rest']:.1f}% on {times['threads']}" for times in figures["step"])
        parts.append(
            "Of a training step of the trained model, batching, embedding, head, loss, clipping and the optimiser "
            f"together take, by number of threads: {shares}."
        )
    if "peak_memory" in figures:
        parts += ["## Memory", _memory(figures["peak_memory"])]
    if "growth" in figures:
        parts += [
            "## Growth",
            "Training with sharp pointers; `nn.LSTM` of the same size for scale.",
            _growth(figures["growth"]),
        ]
        parts.append("![Microseconds a token against tokens, rows, slots and hidden size](../results/bench/growth.svg)")
    if systems is not None:
        parts += ["## Compared systems", *_systems(systems)]
    return "\n\n".join(parts) + "\n"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cases(cases: list[dict[str, Any]]) -> str:
    rows = []
    for entry in cases:
        name = f"{entry['case']['name']}, {entry['case']['weights']}"
        for speed in entry["speeds"]:
            ratio = f"{speed['ratio']:.1f} ({speed['every_cell'] / speed['native']:.1f})"
            milliseconds = f"{1e3 * speed['native']:.1f}"
            share = f"{100 * speed['share_of_peak']:.0f}%"
            rivals = ", ".join(f"{rival} {multiple:g}" for rival, multiple in entry.get("rivals", {}).items())
            cells = f"{entry['work']['cells']:.2f}"
            rows.append([name, str(speed["threads"]), cells, milliseconds, ratio, share, rivals])
        if not entry["speeds"]:
            rows.append([name, "-", "-", "-", f"they disagree by {entry['disagreement']:.1e}", "-", ""])
    heads = ["case", "threads", "cells a token", "engine, ms", "times memory.py (every cell)", "share of peak"]
    heads.append("rivals, to every cell")
    return _table(heads, rows)


def _memory(sizes: dict[str, int]) -> str:
    ratio = sizes["readable"] / sizes["native"]
    rows = [[name, f"{size / 2**20:,.0f} MB"] for name, size in sizes.items()]
    return _table(["peak memory that a step adds", ""], rows) + f"\n\n`memory.py` over the engine: {ratio:.1f} times."


GROWTH_HEADS = [
    "µs a token",
    "cells a token",
    "nn.LSTM, µs a token",
    "training memory",
    "inference memory",
]


def growth_cells(entry: dict[str, float]) -> list[str]:
    """A size, and what stands below each of GROWTH_HEADS for it."""
    return [
        f"{entry['size']:,}",
        f"{1e6 * entry['seconds_per_token']:.1f}",
        f"{entry['cells_per_token']:.2f}",
        f"{1e6 * entry['lstm_seconds_per_token']:.1f}",
        f"{entry['training_memory'] / 2**20:.1f} MB",
        f"{entry['inference_memory'] / 2**20:.1f} MB",
    ]


def _growth(growths: dict[str, list[dict[str, float]]]) -> str:
    return "\n\n".join(
        _table([name.replace("_", " "), *GROWTH_HEADS], [growth_cells(entry) for entry in entries])
        for name, entries in growths.items()
    )


RATIOS = {"training": "time of training", "inference": "time of inference", "memory": "memory of training"}
"""What is compared with the LSTM for each token, and the title of its table."""


def ratio_cells(figures: dict[str, Any], name: str) -> list[list[str]]:
    """A row for each system: at each length, its figure over the LSTM's; a dash where it was not measured."""
    lstm = next(system for system in figures["systems"] if system["model"] == "lstm")
    bases = {size["length"]: size["memory"] for size in lstm["sizes"]}
    rows = []
    for system in figures["systems"]:
        cells = dict.fromkeys(figures["lengths"], NOTHING)
        for size in system["sizes"]:
            length = size["length"]
            if name != "memory":  # seconds were taken in turn with the LSTM's
                cells[length] = _ratio(size[f"{name}_ratio"])
            elif bases.get(length):
                cells[length] = _ratio(size["memory"] / bases[length])
        rows.append([system["name"], *cells.values()])
    return rows


def _ratio(value: float) -> str:
    """Three digits, or as many as there are before the point."""
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f}"


def _systems(figures: dict[str, Any]) -> list[str]:
    heads = [f"{length:,}" for length in figures["lengths"]]
    tables = [_table([f"{title}, LSTM = 1", *heads], ratio_cells(figures, name)) for name, title in RATIOS.items()]
    return [
        "`om bench --systems` measures every system of preset `listops`, with states of 128 numbers, on the same real "
        f"expressions, {figures['rows']} rows of about as many tokens as the head of a column says: the time of a "
        "training step (forward, loss, backward), the time of inference, and the most memory that a training step "
        "adds. The figures are multiples of those of the LSTM, PyTorch's own, timed in turn with each system. Random "
        "weights, but for one Ordered Memory: a trained pointer is sharp, and computes fewer cells. "
        f"{NOTHING} was not measured: a system goes no further once a step takes longer than {figures['slow']:g} s or "
        f"adds more than {figures['large'] / 2**30:g} GB.",
        f"*{figures['machine']}, {figures['threads']} threads of {figures['cores']} cores, torch {figures['torch']}, "
        f"commit {figures['commit']}.*",
        "![Time and memory for each token against length](../results/bench/systems.svg)",
        *tables,
    ]


def render(folder: Path) -> str:
    """The page of what a folder holds."""
    systems = folder / SYSTEMS
    return page(atomic.read_json(folder / BENCH), atomic.read_json(systems) if systems.exists() else None)


if __name__ == "__main__":
    folder, target = map(Path, sys.argv[1:])
    atomic.write_text(target, render(folder))
