"""The main job of `make run`: Ordered Memory and an LSTM learn ListOps in turn, and what came of it is shown."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ordered_memory.config import Experiment
from ordered_memory.drawing import draw_pointer_text, draw_text
from ordered_memory.errors import InputError
from ordered_memory.models import TITLES
from ordered_memory.presets import preset
from ordered_memory.reproduce.report import write_report
from ordered_memory.reproduce.runs import (
    EASY_TO_DRAW,
    NOTHING,
    FinishedRun,
    Sample,
    easy_to_draw,
    held_out,
    load_runs,
    percent,
    samples,
    table,
)
from ordered_memory.tasks import TASKS
from ordered_memory.training.loop import train
from ordered_memory.training.progress import Live, duration
from ordered_memory.training.run_directory import CONFIG, RESULT, RunDirectory

MODELS = ("ordered-memory", "lstm")
LEARNED = 0.9
"""Test accuracy above which all four operators are learned."""
DRAWN = 3
"""Trees shown in the terminal."""
GAP = 6
"""Columns of the terminal between two trees."""
AROUND = 30.0
"""Seconds for what stands around the two trainings: data, evaluation, the report."""


def run_demo(folder: Path, console: Console, budget: str | None = None, seed: int = 0) -> dict[str, Any]:
    """Trains both models, shows the figures and some trees, and writes `report.html`; all of it into the folder.

    What an earlier call finished is used again, and what it began is gone on with. Returns the result of each model by
    its name, and the report's path as "report". Ctrl-C raises `Interrupted`, as in training.
    """
    experiments = [_experiment(model, budget, seed) for model in MODELS]
    for experiment in experiments:
        _refuse_other_settings(folder / experiment.model, experiment)
    _introduce(experiments, console)
    for experiment in experiments:
        _train(experiment, folder / experiment.model, console)
    paths = [folder / model for model in MODELS]
    runs = load_runs(paths)
    _show(runs, console)
    report = write_report(paths, folder / "report.html")
    console.print(f"\nCurves, more trees and the mistakes: {report}", soft_wrap=True, highlight=False, markup=False)
    return {**{run.experiment.model: run.result for run in runs}, "report": str(report)}


def _experiment(model: str, budget: str | None, seed: int) -> Experiment:
    experiment = preset("listops", "listops-demo", model)
    training = dataclasses.replace(experiment.training, seed=seed, budget=budget or experiment.training.budget)
    return dataclasses.replace(experiment, training=training)


def _refuse_other_settings(path: Path, experiment: Experiment) -> None:
    """A run that is there must be the one asked for: figures of another would be taken for it."""
    if not (path / CONFIG).exists():
        return
    there = _settings(RunDirectory.open(path).experiment())
    for name, asked in _settings(experiment).items():
        if there.get(name) != asked:
            found = f"holds a run whose {name} is {there.get(name)!r}, not {asked!r}"
            raise InputError(f"{path}: {found}: remove it, or name another folder")


def _settings(experiment: Experiment) -> dict[str, Any]:
    """All settings by name, such as `training seed`."""
    parts = {part: values for part, values in experiment.to_dict().items() if isinstance(values, dict)}
    return {f"{part} {key}": value for part, values in parts.items() for key, value in values.items()}


def _introduce(experiments: Sequence[Experiment], console: Console) -> None:
    """What is going to happen, in a few lines."""
    examples = TASKS["listops"](experiments[0].data).splits()["train"]
    example = easy_to_draw(examples)[0]
    budgets = [experiment.training.budget_seconds for experiment in experiments]
    time = sum(budget for budget in budgets if budget) + AROUND
    takes = f"All of it takes about {duration(time)}, or less. " if all(budgets) else ""
    lines = [
        "ListOps: nested lists of digits, each to be worked out to a single digit. One of them:",
        f"\n    {' '.join(example.sentences[0])}  =  {example.label}\n",
        f"Ordered Memory reads {len(examples):,} of these and is told their values, nothing else: [MAX and ] are "
        "tokens like any other, and how the parts belong together it has to find out. No tree is ever shown to it.",
        f"Then an LSTM learns from the same examples. {takes}Ctrl-C stops, and the same command goes on from there.\n",
    ]
    for line in lines:
        console.print(Text(line))


def _train(experiment: Experiment, path: Path, console: Console) -> None:
    """A finished run is left as it is, an unfinished one is resumed, else there is a new one."""
    if (path / RESULT).is_file():
        name = TITLES[experiment.model]
        console.print(f"{name} is trained already: {path}", soft_wrap=True, highlight=False, markup=False)
    else:
        train(experiment, path, Live(console), resume=(path / CONFIG).exists())


def _show(runs: Sequence[FinishedRun], console: Console) -> None:
    """The table, a few trees beside the gold ones, and one pointer."""
    console.print(results_table(runs))
    parser = runs[0]
    if parser.result["test"]["accuracy"] < LEARNED:
        console.print(
            "\nSM, the sum modulo 10, is learned last, and was not learned to the end in "
            f"{parser.result['position']['step']:,} steps: the machine is slow or busy, or the time short. A longer "
            "training gets there (om demo --out runs/longer --budget 10m); om evaluate listops-demo measures our run.",
            highlight=False,
        )
    drawn = samples(parser, easy_to_draw(held_out(parser))[:DRAWN])
    fewest, most = EASY_TO_DRAW
    console.print(Text(f"\nThe trees of the first test examples with {fewest} to {most} tokens", "bold"))
    for sample in drawn:
        console.print(tree_pair(sample, console))
    for sample in drawn[:1]:
        if sample.prediction.pointer is not None:
            heat_map = draw_pointer_text(
                sample.prediction.pointer, sample.prediction.tokens, console.options.ascii_only
            )
            console.print(
                Text("Where it pointed as it read the first of them; to the right is nearer to the root", "bold")
            )
            console.print(Text(f"\n{heat_map}"))


def results_table(runs: Sequence[FinishedRun]) -> Table:
    """The figures, on the test set."""
    caption = "On the test set; the checkpoints were picked on the validation set."
    shown = Table(title="\nResults", caption=caption, title_justify="left", caption_justify="left")
    shown.add_column("")
    for head in ("accuracy", "F1", "F1 without root", "parameters", "training time"):
        shown.add_column(head, justify="right")
    rows = table(runs)
    for number, row in enumerate(rows):
        shown.add_row(
            Text(row.name, "dim" if row.is_floor else "bold"),
            *(percent(value) for value in (row.accuracy, row.f1, row.f1_without_root)),
            NOTHING if row.parameters is None else f"{row.parameters:,}",
            NOTHING if row.seconds is None else duration(row.seconds),
            end_section=not row.is_floor and rows[number + 1].is_floor,
        )
    return shown


def tree_pair(sample: Sample, console: Console) -> Group:
    """The gold tree and the induced one, side by side where both fit; what differs is said below."""
    answer = f"{sample.prediction.label}, {'right' if sample.is_right else 'WRONG'}"
    pairs = (
        (f"gold; value {sample.example.label}", sample.gold),
        (f"induced; answer {answer}", sample.prediction.tree),
    )
    heads = [Text(head, "dim") for head, _ in pairs]
    ascii_only = console.options.ascii_only
    pictures = [Text(draw_text(tree, console.width, ascii_only) if tree else "no tree") for _, tree in pairs]
    grid = Table.grid(padding=(0, GAP))
    widths = (
        max(map(console.measure, column), key=lambda size: size.maximum) for column in zip(heads, pictures, strict=True)
    )
    if sum(width.maximum for width in widths) + GAP <= console.width:
        for _ in pairs:
            grid.add_column(vertical="bottom")  # so that the tokens of both stand on one line
        grid.add_row(*heads)
        grid.add_row(*pictures)
    else:
        for head, picture in zip(heads, pictures, strict=True):
            grid.add_row(head)
            grid.add_row(picture)
    return Group(Text(""), grid, _difference(sample), Text(""))


def _difference(sample: Sample) -> Text:
    if not sample.invented:
        return Text("the same tree", "green")
    tokens = sample.prediction.tokens
    parts = [
        f"{where}: " + ", ".join(f"({' '.join(tokens[start:end])})" for start, end in spans)
        for where, spans in (("only in gold", sample.missed), ("only in the induced tree", sample.invented))
    ]
    return Text("\n".join(parts), "yellow")
