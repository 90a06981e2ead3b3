"""The page about logical inference, rendered from `results/logic`: our figures beside the published ones, none typed.

python -m ordered_memory.reproduce.logic_page results/logic docs/logic-results.md
"""

import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, Literal

from ordered_memory import atomic
from ordered_memory.reproduce.plan import FORMER, LOGIC_OPTION_EPOCHS, SYSTEMATIC, Row, logic_rows
from ordered_memory.reproduce.published import LOGIC, LOGIC_COLUMNS, LOGIC_F1, ORDERED_MEMORY, Figure
from ordered_memory.reproduce.runs import NOTHING
from ordered_memory.reproduce.structures import STRUCTURES
from ordered_memory.reproduce.tables import (
    CIRCUMSTANCES,
    NOT_RUN,
    circumstances,
    mean_and_spread,
    published_figure,
    table,
    trained_for,
)
from ordered_memory.tasks.logic import READINGS
from ordered_memory.tasks.logic_generator import MOST_OPERATIONS

Results = list[dict[str, Any]]
Trees = Literal["f1", "f1_words"]
TREES: dict[Trees, str] = {"f1": "Over all tokens, brackets among them", "f1_words": "Over words"}


def page(folder: Path) -> str:
    """The whole page."""
    rows = logic_rows()
    found = {row.key: row.results(folder) for row in rows}
    former = {row.key for row in rows if any(map(row.has_former_settings, found[row.key]))}
    systems = [row for row in rows if row.group == "systems"]
    parts = [
        "# Logical inference: results",
        "Which of seven relations holds between two statements; [Logical inference](logic.md) tells of the data, the "
        "splits and the trees. `om reproduce logic` shows what of this page is run and what is not; with `--run` it "
        "trains what is missing. The page is rendered from `results/logic`.",
        "## Table 1: the compared systems",
        f"Accuracy by number of operations, trained on at most 6, and on the splits A, B and C (the reading `longer`). "
        f"Ours, and in brackets the published figure: {ORDERED_MEMORY}. Checkpoints are picked on validation pairs. "
        "Mean and standard deviation where there are several seeds. A run with former settings was trained before the "
        "preset changed; `om reproduce logic --run --former` trains it once more.",
        table(("", *LOGIC_COLUMNS), [line for row in systems for line in _system(row, found, former)]),
        "What to keep in mind beside the published figures: Ordered Memory alone was searched for a recipe "
        "([how](logic.md#how-it-learns)). The LSTM, ON-LSTM, RRNet and TreeCell were given new settings after their "
        "test figures had been seen under the published ones, the others were not; the settings themselves were not "
        "compared on test pairs. They have the weight decay of Ordered Memory's cell, for the LSTM without it knew its "
        "training pairs by heart, and the recurrent ones are larger. No code of RRNet is public; ours "
        "follows what is known of it. While its policy learned at full speed it closed nodes at random and hardly "
        "learned; with a slow one that begins by staying it reads as an LSTM does, and in the end closes no node: its "
        "trees are the left ones. The published Transformers "
        "answered with the commonest relation. A run marked boxed [below](#the-runs) was given that much time in the "
        "place of its epochs: its figure is what that time gives on one thread, not what the system can do.",
        "## Systematic generalisation: three readings",
        "The paper does not say which pairs with the held-out pattern are its test set of A, B and C: those of the "
        "test files with more operations than in training (`longer`), of all test files (`all`), or those dropped from "
        "training (`held-out`).",
        _readings([row for row in systems if SYSTEMATIC[0] in LOGIC.get(row.key, {})], found, former),
        "## F1 of the induced trees",
        "By number of operations, on all test pairs, beside trees that look at nothing. The data does not "
        "say where a bracket belongs, so that a right tree may score low over all tokens; the published F1 of Ordered "
        f"Memory, {LOGIC_F1}, is over words. Gold-tree models are given theirs, and have no line.",
    ]
    for kind, title in TREES.items():
        parts += [f"{title}:", _parsing(systems, found, kind)]
    parts += [
        "## Which structures the trees have",
        "How `and` and `or` attach, in the tree over words, in a sample of test statements, of pairs of as many "
        "operations as in training and of longer ones: `( X ( and Y ) )`, as the brackets have it (gold); "
        "`( ( X and ) Y )` (left); some of both (mixed); partial statements composed before their arguments came "
        "(composed); or a node that cuts through an argument and has no meaning (other). All but the last can work out "
        "a statement, and F1 counts only the first as right: two models may be as good and differ in F1.",
        _structures(systems, found),
        "## Trees on the way",
        "While it learns, Ordered Memory writes down the trees of training pairs for a new model to learn along: those "
        "of the first one, and those that each round of drawn trees came to. Their F1 over words, in a sample; nothing "
        "hangs on it, and runs from before it was kept have no line.",
        _on_the_way(rows, found),
        "## What finding the trees hangs on",
        f"One seed each, {LOGIC_OPTION_EPOCHS} epochs in the place of {rows[0].experiment.training.epochs}, so "
        "that training is unfinished, and one round of drawn trees in the place of "
        f"{rows[0].experiment.training.drawn_rounds}; all else is as in the preset, where the row does not say "
        "otherwise. Accuracy on all test pairs, and structures of longer ones.",
        _options([row for row in rows if row.group == "ablations"], found),
        "## The runs",
        _runs(rows, found),
    ]
    return "\n\n".join(parts) + "\n"


def summary(folder: Path) -> str:
    """The first thing to know, for the README: how accuracy holds beyond the lengths of training."""
    columns = [column for column in LOGIC_COLUMNS if column not in SYSTEMATIC]
    published = LOGIC["ordered-memory"]
    lines = [["Ordered Memory, published", *(published_figure(published[name]) for name in columns), str(LOGIC_F1)]]
    told = []
    for row in logic_rows():
        if row.key not in ("ordered-memory", "lstm", "tree-cell"):
            continue
        runs = row.results(folder)
        named = row.title_of(runs)
        told.append((named, runs))
        ways = [(named, runs)]
        if hard := _with_hard_pointer(runs):
            ways.append((f"{named}, hard pointer at test", hard))
        for title, some in ways:
            cells = [[_bucket(run, name, "accuracy") for run in some] for name in columns]
            cells.append([run["test"]["f1_words"] for run in some])
            lines.append([title, *(mean_and_spread(each, digits=1) if some else NOT_RUN for each in cells)])
    heads = ["logical inference, operations", *columns, "F1 of words"]
    return "\n\n".join(filter(None, [table(heads, lines), trained_for(told)]))


def _system(row: Row, found: dict[str, Results], former: Container[str]) -> list[list[str]]:
    """The lines of a row in Table 1: with the soft pointer it was trained with and, if it has one, with a hard one."""
    title = _title(row, row.title_of(found[row.key]), former)
    lines = [_line(row, title, found)]
    if any(result["hard_pointer"] for result in found[row.key]):
        hard = {key: _with_hard_pointer(results) for key, results in found.items()}
        lines.append(_line(row, f"{title}, hard pointer at test", hard))
    return lines


def _title(row: Row, title: str, former: Container[str]) -> str:
    """That of a line, with a word on which splits were trained before the preset changed."""
    splits = [split for split in SYSTEMATIC if f"{row.key}-{split}" in former]
    return title + (f"; {' '.join(splits)}{FORMER.replace(',', ' by')}" if splits else "")


def _with_hard_pointer(results: Results) -> Results:
    """Those that have figures of a hard pointer, as if their test figures were these; other readings were not measured
    with it."""
    return [
        {**result, "test": result["hard_pointer"]["test"], "extra_tests": {}}
        for result in results
        if result["hard_pointer"]
    ]


def _line(row: Row, title: str, found: dict[str, Results]) -> list[str]:
    """A line of Table 1: columns of operations from the row's own runs, the splits from the runs on them."""
    # Our other settings of a system stand beside the same published row.
    published = LOGIC.get(row.key) or LOGIC[row.key.removesuffix("-paper").removesuffix("-halting")]
    cells = []
    for column in LOGIC_COLUMNS:
        figure = published.get(column)
        if column in SYSTEMATIC:
            planned = f"{row.key}-{column}" in found
            values = [_reading(result, "longer") for result in found.get(f"{row.key}-{column}", [])]
            cells.append(_beside(values, figure) if planned else NOTHING)
        else:
            cells.append(_beside([_bucket(result, column, "accuracy") for result in found[row.key]], figure))
    return [title, *cells]


def _beside(values: Sequence[float | None], figure: Figure | None) -> str:
    """Our figure, and in brackets the published one where there is one."""
    ours = mean_and_spread(values, digits=1) if values else NOT_RUN
    return ours if figure is None else f"{ours} ({published_figure(figure)})"


def _bucket(result: dict[str, Any], operations: str, figure: str) -> float | None:
    """A figure of the test pairs of so many operations; drawn pairs may be so few that there are none."""
    value: float | None = result["test"]["buckets"].get(operations, {}).get(figure)
    return value


def _reading(result: dict[str, Any], name: str) -> float | None:
    """Accuracy of a run on one reading of its split's test set, whichever of them stood first."""
    is_first = result["config"]["data"]["test_reading"] == name
    figures = result["test"] if is_first else result["extra_tests"].get(name)
    return None if figures is None else figures["accuracy"]


def _readings(rows: Sequence[Row], found: dict[str, Results], former: Container[str]) -> str:
    heads = ["", *(f"{split} {reading}" for split in SYSTEMATIC for reading in READINGS)]
    lines = []
    for row in rows:
        runs = [(found[f"{row.key}-{split}"], reading) for split in SYSTEMATIC for reading in READINGS]
        lines.append(
            [
                _title(row, row.title, former),
                *(_beside([_reading(one, reading) for one in some], None) for some, reading in runs),
            ]
        )
    return table(heads, lines)


def _parsing(rows: Sequence[Row], found: dict[str, Results], kind: Trees) -> str:
    """F1 by number of operations and in all of every system that induces trees, then the trivial trees in all."""
    parsers = [(row, found[row.key]) for row in rows if any(run["test"][kind] is not None for run in found[row.key])]
    if not parsers:
        return NOT_RUN
    operations = [str(number) for number in range(1, MOST_OPERATIONS + 1)]
    lines = []
    for row, runs in parsers:
        cells = [mean_and_spread([_bucket(run, name, kind) for run in runs], digits=1) for name in operations]
        lines.append([row.title_of(runs), *cells, mean_and_spread([run["test"][kind] for run in runs], digits=1)])
    # Trivial trees are the same for all that read the same pairs. Their F1 is kept with the root's span and without.
    floors = parsers[0][1][0]["trivial_f1" if kind == "f1" else "trivial_f1_words"]
    for name, (with_root, _) in floors.items():
        lines.append([f"{name} trees", *[NOTHING] * len(operations), f"{100 * with_root:.1f}"])
    return table(["operations", *operations, "all"], lines)


def _structures(rows: Sequence[Row], found: dict[str, Results]) -> str:
    """A line for each run whose structures were counted."""
    lines = []
    for row in rows:
        for run in found[row.key]:
            for name, counts in run.get("structures", {}).items():
                total = max(1, sum(counts.values()))
                shares = [f"{100 * counts[kind] / total:.1f}" for kind in STRUCTURES]
                lines.append([f"{row.title_of([run])}, seed {run['seed']}", name, *shares])
    return table(["", "pairs", *STRUCTURES], lines) if lines else NOT_RUN


def _on_the_way(rows: Sequence[Row], found: dict[str, Results]) -> str:
    """A line for each run whose written trees were judged."""
    written = {
        f"{row.title_of([run])}, seed {run['seed']}": [each["f1"] for each in run["position"]["written"]]
        for row in rows
        for run in found[row.key]
        if run["position"].get("written")
    }
    if not written:
        return NOT_RUN
    rounds = max(map(len, written.values())) - 1
    heads = ["", "first model", *(f"round {number}" for number in range(1, rounds + 1))]
    lines = []
    for title, scores in written.items():
        cells = [NOTHING if score is None else f"{100 * score:.2f}" for score in scores]
        lines.append([title, *cells, *[NOTHING] * (rounds + 1 - len(cells))])
    return table(heads, lines)


def _options(rows: Sequence[Row], found: dict[str, Results]) -> str:
    """A line for each way to find the trees."""
    lines = []
    for row in rows:
        runs = found[row.key]
        cells = [
            [run["test"]["accuracy"] for run in runs],
            [run["test"]["accuracy"] for run in _with_hard_pointer(runs)],
            [run["test"]["f1_words"] for run in runs],
        ]
        counts = [run["structures"]["longer"] for run in runs if "structures" in run]
        cells += [[each[kind] / max(1, sum(each.values())) for each in counts] for kind in STRUCTURES]
        lines.append([row.title_of(runs), *(mean_and_spread(each, digits=1) if runs else NOT_RUN for each in cells)])
    return table(["", "accuracy", "with a hard pointer", "F1 of words", *STRUCTURES], lines)


def _runs(rows: Sequence[Row], found: dict[str, Results]) -> str:
    """Where each figure comes from: the data that was read, seeds, time in training, threads and commits."""
    lines = []
    for row in rows:
        sources = sorted({run["config"]["data"]["source"] for run in found[row.key]})
        title = row.title_of(found[row.key])
        lines.append([title, "/".join(sources) or NOT_RUN, *circumstances(found[row.key], len(row.seeds))])
    return table(["", "data", *CIRCUMSTANCES], lines)


if __name__ == "__main__":
    results, document = map(Path, sys.argv[1:])
    atomic.write_text(document, page(results))
