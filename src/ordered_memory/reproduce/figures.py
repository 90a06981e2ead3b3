"""The figures of the page about ListOps, drawn from `results/listops`; they need matplotlib, the extra `figures`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ordered_memory.bench.systems_chart import COMMON, LINES
from ordered_memory.errors import InputError
from ordered_memory.models import TITLES
from ordered_memory.reproduce.generalisation import TESTS, Measured
from ordered_memory.reproduce.plan import Row
from ordered_memory.reproduce.published import LISTOPS_GENERALISATION

CURVES, LENGTHS, SIZES = "listops-curves.svg", "listops-lengths.svg", "listops-sizes.svg"


def draw(rows: Sequence[Row], measured: Mapping[str, Measured], results: Path, folder: Path) -> list[Path]:
    """Draws what there are results for, and returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {CURVES: curves(rows, results), LENGTHS: lengths(measured), SIZES: sizes(rows, results)}
    drawn = []
    for name, lines in pictures.items():
        if lines:
            _plot(lines, folder / name, _AXES[name])
            drawn.append(folder / name)
    return drawn


class Line(NamedTuple):
    """Points from left to right, whose height is an accuracy in percent, and how matplotlib is to draw them."""

    across: list[float]
    up: list[float]
    look: dict[str, Any]


Lines = dict[str, Line]
"""By the name of the line."""

# Other lines of a model that has one of its own, and what others have published of systems that are not ours.
_OTHER_LINES: dict[str, dict[str, Any]] = {
    "ordered-memory-paper": {"color": "#f4978e", "marker": "o"},
    "no-dropout": {"color": "#8d99ae", "marker": "s"},
    "Ordered Memory, 21 slots": {"color": "#c1121f", "marker": "o"},
    "CRvNN": {"color": "#00897b", "marker": "d"},
    "BT-GRC OneSoft": {"color": "#b8860b", "marker": "H"},
}
_POINTERS = {"none": ("", "-"), "hard": (", hard pointer", "-"), "soft": (", soft pointer", "--")}
"""What the name of a line says of the pointer, and its style."""

NO_ERROR = 0.02
"""Percent that stand for no error on a logarithmic axis: less than one of the validation examples."""


class Axes(NamedTuple):
    """Of one picture: what they are called, and whether it is drawn twice, once as accuracy, where those far from the
    goal are told apart, and once as errors on a logarithmic axis, where a few of ten thousand matter as well."""

    across: str
    up: str
    logarithmic_across: bool = True
    twice: bool = True


_AXES = {
    CURVES: Axes("minutes of training", "validation", logarithmic_across=False),
    LENGTHS: Axes("tokens", "test"),
    SIZES: Axes("training examples", "test", twice=False),
}


def curves(rows: Sequence[Row], results: Path) -> Lines:
    """Validation accuracy against the clock, of every run of the compared systems; each system is named once."""
    lines: Lines = {}
    for row in rows:
        if row.group != "systems":
            continue
        for place, result in enumerate(row.results(results)):
            points = [(point["seconds"] / 60, 100 * point["accuracy"]) for point in result["curve"]]
            look = {"linestyle": ("-", "--", ":")[place % 3], "marker": ".", "label": None if place else row.title}
            lines[f"{row.title}, seed {result['seed']}"] = _line(points, row.key, row.experiment.model, **look)
    return lines


def lengths(measured: Mapping[str, Measured]) -> Lines:
    """Accuracy against length, for each system and pointer; test sets that differ in more than length are left out."""
    lines: Lines = {}
    for key, system in measured.items():
        for pointer, (way, style) in _POINTERS.items():
            points = [
                (_middle(name), 100 * statistics.mean(accuracies))
                for name, window in TESTS.items()
                if (window.max_depth, window.max_arguments) == (20, 5)
                and (accuracies := system.accuracies(name, pointer))
            ]
            if points:
                lines[f"{system.title}{way}"] = _line(points, key, system.model, linestyle=style)
    return lines | _published_lengths() if lines else lines


def _published_lengths() -> Lines:
    """What others have published of the same lengths, each at the middle of its window."""
    lines: Lines = {}
    for system, published in LISTOPS_GENERALISATION.items():
        points = [(_middle(name), figure.value) for name, figure in published.items() if "arguments" not in name]
        lines[f"{system}, published"] = _line(points, system, "", linestyle=":")
    return lines


def _middle(name: str) -> float:
    return (TESTS[name].min_length + TESTS[name].max_length) / 2


def _line(points: Sequence[tuple[float, float]], key: str, model: str, **look: Any) -> Line:
    across, up = zip(*sorted(points), strict=True)
    return Line(list(across), list(up), COMMON | (_OTHER_LINES.get(key) or LINES[model]) | look)


def sizes(rows: Sequence[Row], results: Path) -> Lines:
    """Test accuracy against the number of training examples."""
    points: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row.group == "sizes":
            for result in row.results(results):
                point = (row.experiment.data.drawn_to_train, 100 * result["test"]["accuracy"])
                points.setdefault(row.experiment.model, []).append(point)
    return {TITLES[model]: _line(pairs, "", model) for model, pairs in points.items()}


def _plot(lines: Lines, path: Path, axes: Axes) -> None:
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'ordered-memory[figures]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    # The same results give the same file, byte for byte.
    with pyplot.rc_context({"svg.hashsalt": "ordered-memory", "font.size": 10}):
        panels = 2 if axes.twice else 1
        figure, every = pyplot.subplots(1, panels, figsize=(4.4 + 3.8 * panels, 4), layout="constrained", squeeze=False)
        for axis, errors in zip(every[0], (False, True), strict=False):
            for name, line in lines.items():
                up = [max(NO_ERROR, 100 - accuracy) for accuracy in line.up] if errors else line.up
                once = {"label": None} if errors else {}  # one legend serves both
                axis.plot(line.across, up, **({"label": name} | line.look | once))
            _dress(axis, axes, errors)
        figure.legend(loc="outside right center", frameon=False, fontsize=8)  # beside the lines, never on them
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _dress(axis: Any, axes: Axes, errors: bool) -> None:
    """Scales, ticks and names of one panel."""
    from matplotlib import ticker

    if axes.logarithmic_across:
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:,g}")
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    axis.set_xlabel(axes.across)
    if errors:
        axis.set_ylabel(f"{axes.up} errors, % ({NO_ERROR}: none)")
        axis.set_yscale("log")
        axis.set_ylim(0.8 * NO_ERROR, 120)
        axis.yaxis.set_major_formatter("{x:g}")
    else:
        axis.set_ylabel(f"{axes.up} accuracy, %")
        axis.set_ylim(0, 102)
        axis.set_yticks(range(0, 101, 20))
    axis.grid(alpha=0.3, linewidth=0.5)
    axis.spines[["top", "right"]].set_visible(False)
