"""The page about ListOps, rendered from `results/listops`: our figures beside the published ones, none typed by hand.

python -m ordered_memory.reproduce.listops_page results/listops docs/listops.md
"""

import statistics
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ordered_memory import atomic
from ordered_memory.models import TITLES
from ordered_memory.presets import preset
from ordered_memory.reproduce import figures, mistakes
from ordered_memory.reproduce.generalisation import LONGEST, TESTS, Measured, load_measured
from ordered_memory.reproduce.plan import OPTION_EPOCHS, Row, listops_rows
from ordered_memory.reproduce.published import BT_CELL, LISTOPS, LISTOPS_GENERALISATION, ORDERED_MEMORY, Figure
from ordered_memory.reproduce.runs import NOTHING
from ordered_memory.reproduce.tables import (
    CIRCUMSTANCES,
    NOT_RUN,
    circumstances,
    mean_and_spread,
    published_figure,
    table,
    threads,
    threads_of,
    trained_for,
)
from ordered_memory.tasks.listops import ListOpsConfig
from ordered_memory.training.progress import duration

NOT_MEASURED = "not measured"
ACCOUNT = (
    "What to keep in mind beside the published figures: ours are trained on short expressions and tested on all "
    "lengths, and the column of those as short as the training examples shows what that costs. Ordered Memory "
    "was searched for settings the most, and not wholly without this test set: that medians were what was left to "
    "learn, which the late dropout is for, was seen by reading wrong answers of it. The preset keeps the attention of "
    "the released code, which made the published figures; the options below show the printed one. What the published "
    "recipe loses with a soft pointer lies mostly above 300 tokens, where its memory blurs.",
    "The LSTM, the Transformers, the Gumbel Tree-LSTM and the parser of Havrylov et al. were given new settings, "
    "because their rows stood under the published ones; which settings was decided by validation figures. The LSTM is "
    "four times as large as it was, with weight decay and dropout; it gained the most on the shortest expressions. "
    "The Transformers that learn have attention that hangs on distances in the place of sinusoids, a higher rate and "
    "no dropout: in a trial the Universal Transformer came as far in half the steps. With rotary positions it did so "
    "too, but was no better than chance above 100 tokens, which was seen on this test set. The Gumbel Tree-LSTM has "
    "four times the epochs. The parser has, in the place of its paper's settings, Adam, half the composer's size, "
    "three updates from each batch, nearly all short examples at first, and an entropy that weighs much at first and "
    "then less and less. With its paper's weight it settled within minutes on trees that are worse than random ones, "
    "and with one that stayed high on none at all, so that sums were not learned. Its published settings ask for up "
    "to 300 epochs with fifteen updates from each batch, many times what is spent here.",
    "The trees of that parser differ from the gold ones by a rule, in the two models that were looked at: nearly "
    "always a closing bracket is first joined with the digit before it, and not with the whole list. Most operators "
    "are joined with their first digit, as in the gold trees.",
    "A boxed run had less time than its preset asks for: its figure is what that time gives on one thread of an "
    "ordinary processor, not what the system can do. So it is with the Transformers of the published setting: their "
    "times were over long before their schedules. Times are those of several machines, often with other work beside "
    "them, and tell no more than how long such a run takes. The F1 that the paper prints for RL-SPINN and for the "
    "Gumbel Tree-LSTM we have not seen in such runs.",
)
"""Why figures of the table differ from the published ones."""
FEWEST = 10
"""Test examples that a length must have to be told of."""
TRAINED = ListOpsConfig().train_max_length or 0
"""Tokens of the longest training example."""


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
        f"at most {TRAINED} tokens used; the checkpoint picked on 5,000 others, cut to the same length, and measured "
        "on 10,000 of all lengths, and on those of them that are no longer than the training examples. "
        "Mean and standard deviation where there are several seeds; time in training for each number of threads. A run "
        "marked boxed was given that much time in the place of its epochs, and one with former settings was trained "
        "before the preset changed. A dash stands where there is no such figure, a plus behind a commit for changes "
        "that were not committed.",
        "Ordered Memory's first row is preset `listops`: more short examples at first, momentum, a rate that falls "
        "along a cosine, dropout that begins late. It is the one to start from, for it takes half the epochs. The "
        "published recipe is preset `listops-paper`. A hard pointer is the same model at test, with all weight of each "
        "step on one slot.",
        _systems(groups["systems"], folder),
        *_floors(groups["systems"], folder),
        *_beside(groups["systems"], folder),
        *ACCOUNT,
        "## Options of the model",
        f"One seed each, preset `listops` with {OPTION_EPOCHS} epochs in the place of "
        f"{preset('listops').training.epochs}; where it is otherwise, the row says so. That preset has {_defaults()}. "
        "Training is unfinished after so few epochs, and a point or two may be chance.",
        _variants(groups["ablations"], folder),
        "## By length",
        *_by_length(groups["systems"], folder),
    ]
    if figures.curves(rows, folder):
        parts += ["## Learning", *_milestones(groups["systems"], folder)]
        parts.append(_picture(figures.CURVES, "Validation accuracy and errors against minutes of training"))
        parts.append("Solid, dashed and dotted lines are seeds 0, 1 and 2, each on as many threads as the tables say.")
    if any(row.results(folder) for row in groups["sizes"]):
        parts += ["## Size of the training set", _told_of_sizes(), _variants(groups["sizes"], folder)]
        parts.append(_picture(figures.SIZES, "Test accuracy against the number of training examples"))
    if measured := load_measured(folder):
        parts += ["## Beyond the training data", *_generalisation(measured)]
        parts.append(_picture(figures.LENGTHS, "Accuracy and errors against length"))
    parts += mistakes.section(folder)
    return "\n\n".join(parts) + "\n"


def summary(folder: Path) -> str:
    """The first thing to know, for the README: the main figures beside the published ones."""
    rows = {row.key: row for row in listops_rows()}
    lines = []
    for key in ("ordered-memory", "ordered-memory-paper", "lstm"):
        results = rows[key].results(folder)
        for figure, name in zip(_published(rows[key]), ("accuracy", "f1"), strict=True):
            if figure is not None:
                what = "accuracy" if name == "accuracy" else "F1 of its trees"
                ours = mean_and_spread([result["test"][name] for result in results]) if results else NOT_RUN
                lines.append([f"{rows[key].title}, {what}", str(figure), ours, _hard(results, name)])
    published = LISTOPS_GENERALISATION["Ordered Memory, 21 slots"]
    if (measured := load_measured(folder).get("ordered-memory")) is not None:
        for name in ("200-300", "500-600", "900-1000", "10 arguments", "15 arguments"):
            soft, hard = (mean_and_spread(measured.accuracies(name, pointer)) for pointer in ("soft", "hard"))
            tokens = name if "arguments" in name else f"{name} tokens"
            lines.append([f"Ordered Memory, {tokens}", str(published[name]), soft, hard])
    runs = [(rows[key].title, rows[key].results(folder)) for key in ("ordered-memory", "ordered-memory-paper", "lstm")]
    more = "" if measured is None else f" By length and arguments: ours of seed {measured.seeds}; published: {BT_CELL}."
    heads = ["ListOps", "published", "ours", "ours, hard pointer"]
    return "\n\n".join(filter(None, [table(heads, lines), trained_for(runs, more)]))


def _milestones(rows: Sequence[Row], folder: Path) -> list[str]:
    """When each run with trees had found them, and when its answers were right."""
    goals = [("f1", 0.99), ("accuracy", 0.9), ("accuracy", 0.99), ("accuracy", 0.999)]
    lines = []
    for row in rows:
        for result in row.results(folder):
            if result["test"]["f1"] is None:
                continue
            reached = (
                next((point["seconds"] for point in result["curve"] if (point[name] or 0) >= goal), None)
                for name, goal in goals
            )
            cells = [NOTHING if seconds is None else duration(seconds) for seconds in reached]
            if any(cell != NOTHING for cell in cells):
                named = row.title_of([result])
                lines.append([f"{named}, seed {result['seed']}, {threads(threads_of(result))}", *cells])
    if not lines:
        return []
    heads = ["", *(f"{'F1' if name == 'f1' else name} {100 * goal:g}" for name, goal in goals)]
    told = (
        "Time in training until validation figures first reached so much, or a dash where they never did; runs that "
        "reached none of it have no line. The "
        "trees come first; what the answers wait for is SM, the sum modulo 10, which is learned from the shortest "
        "expressions."
    )
    return [told, table(heads, lines)]


def _told_of_sizes() -> str:
    """What the runs of different sizes have in common."""
    return (
        "The paper shows a curve and says that 90,000 examples are enough; its points are in a picture only. Ours, one "
        f"seed each: about as many steps for every size as {OPTION_EPOCHS} epochs of 85,000 examples have (epochs are "
        "whole: 300,000 examples had a sixth more), the same "
        "validation and test examples, and for Ordered Memory the attention as the paper prints it. The sizes count "
        f"what was drawn; those of at most {TRAINED} tokens are used."
    )


def _picture(name: str, words: str) -> str:
    return f"![{words}](images/{name})"


def _systems(rows: Sequence[Row], folder: Path) -> str:
    heads = (
        "",
        "published accuracy",
        "our accuracy",
        f"up to {TRAINED} tokens",
        "published F1",
        "our F1",
        *CIRCUMSTANCES,
    )
    lines = []
    for row in rows:
        results = row.results(folder)
        lines.append(_system(row, row.title_of(results), results, [result["test"] for result in results]))
        if hard := [result for result in results if result.get("hard_pointer")]:
            tests = [result["hard_pointer"]["test"] for result in hard]
            lines.append(_system(row, f"{row.title}, hard pointer at test", hard, tests))
    return table(heads, lines)


def _variants(rows: Sequence[Row], folder: Path) -> str:
    """Rows beside each other, not beside the paper; a figure that it does have stands in the name."""
    heads = ("", "accuracy", "with a hard pointer", f"up to {TRAINED} tokens", "F1", "F1, hard", *CIRCUMSTANCES)
    lines = []
    for row in rows:
        results, (published, _) = row.results(folder), _published(row)
        title = row.title_of(results) + (f" (published {published})" if row.key in LISTOPS and published else "")
        tests = [result["test"] for result in results]
        figures_of_row = [
            mean_and_spread([test["accuracy"] for test in tests]),
            _hard(results, "accuracy"),
            mean_and_spread(list(map(_as_long_as_training, tests))),
            mean_and_spread([test["f1"] for test in tests]),
            _hard(results, "f1"),
        ]
        shown = figures_of_row if results else [NOT_RUN] * len(figures_of_row)
        lines.append([title, *shown, *circumstances(results, len(row.seeds))])
    return table(heads, lines)


def _hard(results: Sequence[dict[str, Any]], name: str) -> str:
    """That figure with a hard pointer at test, of those runs that have one."""
    return mean_and_spread([result["hard_pointer"]["test"][name] for result in results if result.get("hard_pointer")])


def _defaults() -> str:
    """What the options are where a row does not change them."""
    encoder = preset("listops").encoder
    return f"{encoder.num_slots} slots, the {encoder.attention} attention and threshold {encoder.threshold:g}"


def _published(row: Row) -> tuple[Figure | None, Figure | None]:
    """Accuracy and F1 in the paper; our two recipes of Ordered Memory stand beside the same row of it."""
    return LISTOPS.get(row.key.removesuffix("-paper"), (None, None))


def _system(row: Row, title: str, results: Sequence[dict[str, Any]], test: Sequence[dict[str, Any]]) -> list[str]:
    accuracy, f1 = map(published_figure, _published(row))
    if not results:
        return [title, accuracy, NOT_RUN, NOT_RUN, f1, NOT_RUN, *circumstances(results, len(row.seeds))]
    return [
        title,
        accuracy,
        mean_and_spread([figures["accuracy"] for figures in test]),
        mean_and_spread(list(map(_as_long_as_training, test))),
        f1,
        mean_and_spread([figures["f1"] for figures in test]),
        *circumstances(results, len(row.seeds)),
    ]


def _floors(rows: Sequence[Row], folder: Path) -> list[str]:
    """F1 of trees that look at nothing, on the same test set: what the induced ones are to be compared with."""
    floors = next((result["trivial_f1"] for row in rows for result in row.results(folder)), None)
    if not floors:
        return []
    told = ", ".join(f"{name} {100 * with_root:.2f}" for name, (with_root, _) in floors.items())
    return [f"F1 of trees that look at nothing, on the same test set: {told}."]


def _beside(rows: Sequence[Row], folder: Path) -> list[str]:
    """Which rows come up to the published accuracy, and how far the others are below it."""
    reached, below = [], []
    for row in rows:
        figure, results = _published(row)[0], row.results(folder)
        if figure is None or not results:
            continue
        short = figure.value - 100 * statistics.mean(result["test"]["accuracy"] for result in results)
        if short <= (figure.spread or 0.0):
            reached.append(row.title)
        else:
            below.append(f"{row.title} by {short:.{figure.digits}f}")
    told = [
        f"Our mean accuracy is within the published spread, or above it, for {', '.join(reached)}." if reached else "",
        f"It is further below the published mean for {', '.join(below)}." if below else "",
    ]
    return [" ".join(filter(None, told))] if reached or below else []


def _as_long_as_training(test: dict[str, Any]) -> float:
    """Accuracy on those test examples that are no longer than the training ones."""
    longest = {name: int(name.rpartition("-")[2]) for name in test["buckets"] if "-" in name}
    buckets = [test["buckets"][name] for name, length in longest.items() if length <= TRAINED]
    right = sum(bucket["n"] * bucket["accuracy"] for bucket in buckets)
    return float(right / sum(bucket["n"] for bucket in buckets))


def _by_length(rows: Sequence[Row], folder: Path) -> list[str]:
    """Accuracy, and F1 where there are trees, on the test examples of each length."""
    found = [(row, results) for row in rows if (results := row.results(folder))]
    if not found:
        return [NOT_RUN]
    first = found[0][1][0]["test"]["buckets"]
    buckets = [name for name in first if first[name]["n"] >= FEWEST]
    count = ["examples", *(f"{first[name]['n']:,}" for name in buckets)]
    accuracies, trees = [count], [count]
    for row, results in found:
        hard = [result["hard_pointer"] for result in results if result.get("hard_pointer")]
        for measured, way in ((results, ""), (hard, ", hard pointer")):
            parts = [result["test"]["buckets"] for result in measured]
            title = row.title_of(results) + way
            for name, lines in (("accuracy", accuracies), ("f1", trees)):
                if any(part[bucket][name] is not None for part in parts for bucket in buckets):
                    cells = (mean_and_spread([part[bucket][name] for part in parts]) for bucket in buckets)
                    lines.append([title, *cells])
    told = f"Test examples of so many tokens, where there are {FEWEST} or more of them. Accuracy:"
    return [told, table(["tokens", *buckets], accuracies), "F1 of the trees:", table(["tokens", *buckets], trees)]


def _generalisation(measured: Mapping[str, Measured]) -> list[str]:
    every = [record["tests"] for system in measured.values() for record in system.records]
    names = [name for name in TESTS if any(name in tests for tests in every)]
    lines = []
    for system in measured.values():
        seeds = f"seed{'' if len(system.records) == 1 else 's'} {system.seeds}"
        for pointer in ("none", "soft", "hard"):
            if any(system.accuracies(name, pointer) for name in names):
                way = "" if pointer == "none" else f", {pointer} pointer"
                cells = (_beyond(system.accuracies(name, pointer)) for name in names)
                lines.append([f"{system.title}, {seeds}{way}", *cells])
    for title, published in LISTOPS_GENERALISATION.items():
        lines.append([f"{title}, published", *(published_figure(published.get(name)) for name in names)])
    smaller = [f", of {name} tokens {TESTS[name].size:,}" for name in names if TESTS[name].size != 1_000]
    told = [
        f"1,000 examples each{''.join(smaller)}. `om reproduce generalisation --all` measures every system that has a "
        "finished run.",
        "More arguments than the 5 of training: 100 to 1,000 tokens, depth at most 9, as in the published sets.",
        "Deep: two arguments at most and up to 60 levels allowed, 200 to 400 tokens. Long Range Arena: its setting, up "
        "to 10 arguments, depth 10, 500 to 2,000 tokens.",
        "Where an expression is deeper than the memory of training there are as many slots as it needs, as the shipped "
        "models' cards recommend.",
        "No recipe was chosen by these sets: smaller ones and windows of another seed (`--validation`) chose the "
        "pointer, the fading of short examples and the late dropout.",
        *_bounds({system.model for system in measured.values()}),
        f"Published figures: {BT_CELL}; their models were trained on up to 100 tokens, ours on up to {TRAINED}.",
    ]
    return [
        "Accuracy on expressions of so many tokens, and of other shapes than in training.",
        "\n".join(f"- {line}" for line in told),
        table(["", *names], lines),
    ]


def _bounds(models: Collection[str]) -> list[str]:
    """Which of these models are spared long expressions."""
    bounds = [f"{TITLES[model]} above {most:,}" for model, most in LONGEST.items() if model in models]
    if not bounds:
        return []
    others = "where else it says so, there was no time, or the model was not at hand any more"
    return [f"Too slow for so many tokens, and not measured: {', '.join(bounds)}; {others}."]


def _beyond(accuracies: Sequence[float]) -> str:
    return mean_and_spread(accuracies, digits=1) if accuracies else NOT_MEASURED


if __name__ == "__main__":
    results, document = map(Path, sys.argv[1:])
    figures.draw(listops_rows(), load_measured(results), results, document.parent / "images")
    atomic.write_text(document, page(results))
