"""The figure of the compared systems, and how each system's line looks in every figure; it needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ordered_memory.errors import InputError

LINES: dict[str, dict[str, Any]] = {
    "ordered-memory": {"color": "#c1121f", "marker": "o", "linewidth": 2.2, "zorder": 3},
    "lstm": {"color": "#000000", "marker": "s"},
    "rrnet": {"color": "#8c5a3c", "marker": "v"},
    "on-lstm": {"color": "#808080", "marker": "D"},
    "transformer": {"color": "#1764ab", "marker": "^"},
    "universal-transformer": {"color": "#6db3e8", "marker": "<"},
    "rl-spinn": {"color": "#6a3d9a", "marker": "P"},
    "gumbel-tree": {"color": "#e377c2", "marker": "X"},
    "cooperative": {"color": "#f08c00", "marker": ">"},
    "tree-rnn": {"color": "#a6c93a", "marker": "p"},
    "tree-lstm": {"color": "#3f9e4d", "marker": "h"},
    "tree-cell": {"color": "#14532d", "marker": "*"},
}
"""Each model's line: like systems have like colours, and markers tell them apart without any."""
COMMON: dict[str, Any] = {"markersize": 4.5, "linewidth": 1.3}

PANELS: dict[str, Callable[[dict[str, Any]], float]] = {
    "training, microseconds a token": lambda size: 1e6 * size["training"] / size["tokens"],
    "inference, microseconds a token": lambda size: 1e6 * size["inference"] / size["tokens"],
    "memory of training, kB a token": lambda size: size["memory"] / size["tokens"] / 1e3,
}


def draw(figures: dict[str, Any], path: Path) -> None:
    """Time of training, time of inference and memory for each token against length, one line a system."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'ordered-memory[figures]'") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    lengths = sorted({size["length"] for system in figures["systems"] for size in system["sizes"]})
    # The same figures give the same file, byte for byte.
    with pyplot.rc_context({"svg.hashsalt": "ordered-memory", "font.size": 10}):
        figure, axes = pyplot.subplots(1, len(PANELS), figsize=(13, 4.2), layout="constrained")
        for axis, (title, value) in zip(axes, PANELS.items(), strict=True):
            for system in figures["systems"]:
                look = COMMON | LINES[system["model"]] | {"linestyle": _linestyle(system)}
                points = [(size["length"], value(size)) for size in system["sizes"]]
                seen = [point for point in points if point[1] > 0]  # a logarithm has no place for a step that adds none
                axis.plot([x for x, _ in seen], [y for _, y in seen], label=system["name"], **look)
            axis.set(xscale="log", yscale="log", xlabel="tokens of an expression", title=title)
            axis.title.set_fontsize(10)
            axis.yaxis.set_major_formatter("{x:,g}")
            axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
            axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
            axis.grid(alpha=0.3, linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=9)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)


def _linestyle(system: dict[str, Any]) -> str:
    """Ordered Memory with random weights is dashed: beside it stands the trained one."""
    return "--" if system["model"] == "ordered-memory" and system["weights"] == "random" else "-"
