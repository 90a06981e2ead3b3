"""The figures of the page about ListOps, drawn from `results/listops`; they need matplotlib, the extra `figures`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ordered_memory.errors import InputError
from ordered_memory.reproduce.generalisation import TESTS
from ordered_memory.reproduce.plan import Row
from ordered_memory.reproduce.published import LISTOPS_GENERALISATION

CURVES, LENGTHS, SIZES = "listops-curves.svg", "listops-lengths.svg", "listops-sizes.svg"


def draw(rows: Sequence[Row], measured: Sequence[dict[str, Any]], results: Path, folder: Path) -> list[Path]:
    """Draws what there are results for, and returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {CURVES: curves(rows, results), LENGTHS: lengths(measured), SIZES: sizes(rows, results)}
    drawn = []
    for name, lines in pictures.items():
        if lines:
            _plot(lines, folder / name, *_AXES[name])
            drawn.append(folder / name)
    return drawn


Lines = dict[str, tuple[list[float], list[float]]]
"""Across and up, by the name of the line."""

_AXES = {
    CURVES: ("minutes of training", "validation accuracy, %", False),
    LENGTHS: ("tokens", "accuracy, %", True),
    SIZES: ("training examples", "test accuracy, %", True),
}


def curves(rows: Sequence[Row], results: Path) -> Lines:
    """Validation accuracy against the clock, of every run of the compared systems."""
    lines: Lines = {}
    for row in rows:
        if row.group != "systems":
            continue
        for result in row.results(results):
            name = row.title if len(row.seeds) == 1 else f"{row.title}, seed {result['seed']}"
            points = result["curve"]
            lines[name] = ([point["seconds"] / 60 for point in points], [100 * point["accuracy"] for point in points])
    return lines


def lengths(measured: Sequence[dict[str, Any]]) -> Lines:
    """Accuracy against length, for each model and pointer; test sets that differ in more than length are left out."""
    lines: Lines = {}
    for figures in measured:
        for pointer in ("none", "soft", "hard"):
            points = []
            for entry in figures["tests"].values():
                data = entry["data"]
                if pointer in entry and (data["max_depth"], data["max_arguments"]) == (20, 5):
                    middle = (data["min_length"] + data["max_length"]) / 2
                    points.append((middle, 100 * entry[pointer]["accuracy"]))
            if points:
                across, up = zip(*sorted(points), strict=True)
                way = "" if pointer == "none" else f", {pointer} pointer"
                lines[f"{figures['model']}{way}"] = (list(across), list(up))
    return lines | _published_lengths() if lines else lines


def _published_lengths() -> Lines:
    """What others have published of the same lengths, each at the middle of its window."""
    lines: Lines = {}
    for system, published in LISTOPS_GENERALISATION.items():
        windows = [(TESTS[name], figure) for name, figure in published.items() if "arguments" not in name]
        middles = [(window.min_length + window.max_length) / 2 for window, _ in windows]
        lines[f"{system}, published"] = (middles, [figure.value for _, figure in windows])
    return lines


def sizes(rows: Sequence[Row], results: Path) -> Lines:
    """Test accuracy against the number of training examples."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.group == "sizes":
            for result in row.results(results):
                name = row.title.split(",")[0]
                points.setdefault(name, []).append((float(row.key.split("-")[1]), 100 * result["test"]["accuracy"]))
    return {name: tuple(map(list, zip(*sorted(pairs), strict=True))) for name, pairs in points.items()}  # type: ignore[misc]


def load_measured(folder: Path) -> list[dict[str, Any]]:
    """What was measured beyond the training data, a model after the other."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("generalisation-*.json"))]


def _plot(lines: Lines, path: Path, across: str, up: str, logarithmic: bool) -> None:
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'ordered-memory[figures]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    # The same results give the same file, byte for byte.
    with pyplot.rc_context({"svg.hashsalt": "ordered-memory", "font.size": 10}):
        figure, axis = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
        for name, (x, y) in lines.items():
            axis.plot(x, y, marker="o", markersize=3, linewidth=1.4, label=name)
        if logarithmic:
            axis.set_xscale("log")
        axis.set_xlabel(across)
        axis.set_ylabel(up)
        axis.set_ylim(0, 102)
        axis.set_yticks(range(0, 101, 20))
        axis.grid(alpha=0.3, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)
