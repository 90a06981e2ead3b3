"""The page about ListOps, rendered from `results/listops`: our figures beside the published ones, none typed by hand.

python -m ordered_memory.reproduce.listops_page results/listops docs/listops.md
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ordered_memory import atomic
from ordered_memory.reproduce.generalisation import TESTS
from ordered_memory.reproduce.plan import Row, listops_rows
from ordered_memory.reproduce.published import BT_CELL, LISTOPS, LISTOPS_GENERALISATION, ORDERED_MEMORY
from ordered_memory.reproduce.runs import NOTHING
from ordered_memory.reproduce.tables import (
    CIRCUMSTANCES,
    NOT_RUN,
    circumstances,
    mean_and_spread,
    published_figure,
    table,
)

GENERALISATION = "generalisation-"
"""How the names of files with figures on longer expressions begin."""


def page(folder: Path) -> str:
    """The whole page."""
    rows = listops_rows()
    groups = {name: [row for row in rows if row.group == name] for name in ("systems", "ablations", "sizes")}
    parts = [
        "# ListOps",
        "Nested lists of digits, each to be worked out to one digit. `om reproduce listops` shows what of this page is "
        "run and what is not; with `--run` it trains what is missing. The page is rendered from `results/listops`.",
        "## Table 2: the compared systems",
        f"Published figures: {ORDERED_MEMORY}. Ours: 85,000 training examples of the published distribution, those of "
        "at most 50 tokens used; the checkpoint picked on 5,000 others, and measured on 10,000 of all lengths. "
        "Mean and standard deviation where there are several seeds.",
        _systems(groups["systems"], folder),
        "## Options of the model",
        "One seed each, the recipe of preset `listops`.",
        _systems(groups["ablations"], folder),
        "## Accuracy by length",
        _by_length(groups["systems"], folder),
    ]
    if any(row.results(folder) for row in groups["sizes"]):
        parts += ["## Size of the training set", _systems(groups["sizes"], folder)]
    measured = sorted(folder.glob(f"{GENERALISATION}*.json"))
    if measured:
        parts += ["## Beyond the training data", *_generalisation([json.loads(path.read_text()) for path in measured])]
    return "\n\n".join(parts) + "\n"


def _systems(rows: Sequence[Row], folder: Path) -> str:
    heads = ("", "published accuracy", "ours", "published F1", "ours", *CIRCUMSTANCES)
    return table(heads, [_system(row, row.results(folder)) for row in rows])


def _system(row: Row, results: Sequence[dict[str, Any]]) -> list[str]:
    # Our two recipes of Ordered Memory stand beside the same published row.
    published = LISTOPS.get(row.key.removesuffix("-paper"), (None, None))
    accuracy, f1 = map(published_figure, published)
    if not results:
        return [row.title, accuracy, NOT_RUN, f1, NOT_RUN, *circumstances(results)]
    test = [result["test"] for result in results]
    return [
        row.title,
        accuracy,
        mean_and_spread([figures["accuracy"] for figures in test]),
        f1,
        mean_and_spread([figures["f1"] for figures in test]),
        *circumstances(results),
    ]


def _by_length(rows: Sequence[Row], folder: Path) -> str:
    found = [(row.title, results) for row in rows if (results := row.results(folder))]
    if not found:
        return NOT_RUN
    buckets = list(found[0][1][0]["test"]["buckets"])
    lines = []
    for title, results in found:
        measured = [result["test"]["buckets"] for result in results]
        lines.append([title, *(mean_and_spread([part[name]["accuracy"] for part in measured]) for name in buckets)])
    return table(["tokens", *buckets], lines)


def _generalisation(measured: Sequence[dict[str, Any]]) -> list[str]:
    names = [name for name in TESTS if any(name in figures["tests"] for figures in measured)]
    lines = []
    for figures in measured:
        for pointer in ("none", "soft", "hard"):
            tests = [figures["tests"].get(name, {}).get(pointer) for name in names]
            if any(tests):
                cells = (NOTHING if test is None else f"{100 * test['accuracy']:.1f}" for test in tests)
                told = f"seed {figures['seed']}" + ("" if pointer == "none" else f", {pointer} pointer")
                lines.append([f"{figures['model']}, {told}", *cells])
    for system, published in LISTOPS_GENERALISATION.items():
        lines.append([f"{system}, published", *(published_figure(published.get(name)) for name in names)])
    smaller = [f", of {name} tokens {TESTS[name].size:,}" for name in names if TESTS[name].size != 1_000]
    return [
        "Accuracy on expressions of so many tokens, with more arguments than the 5 of training (at most 1,000 tokens), "
        "deeper than training (two arguments at most, up to 60 levels, 200 to 400 tokens), and of the Long Range "
        f"Arena's setting (up to 10 arguments, depth 10, 500 to 2,000 tokens). 1,000 examples each{''.join(smaller)}. "
        f"Published figures: {BT_CELL}; their models were trained on up to 100 tokens, ours on up to 50.",
        table(["", *names], lines),
    ]


if __name__ == "__main__":
    results, document = map(Path, sys.argv[1:])
    atomic.write_text(document, page(results))
