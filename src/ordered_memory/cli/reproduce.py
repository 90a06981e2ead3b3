"""om reproduce and om models: the paper's tables, what of them is run, and the systems in them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ordered_memory.cli.arguments import parse_arguments, use_threads
from ordered_memory.config.checks import parse_duration
from ordered_memory.errors import InputError

OF_GENERALISATION = ("checkpoint", "all", "pointer", "validation")
OF_TABLES = ("run", "former", "budget")


@dataclass
class ReproduceArguments:
    table: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TABLE")]
    """logic: the paper's Table 1 (table1 will do); listops: Table 2 and what goes with it (table2); generalisation: a
    ListOps model on longer expressions."""
    run: tyro.conf.FlagCreatePairsOff[bool] = False
    """Train what is missing, one run after the other; without it, only say what is run and what is not."""
    former: tyro.conf.FlagCreatePairsOff[bool] = False
    """Count what was trained before a preset changed as missing: with --run it is trained once more."""
    only: str | None = None
    """Only the row of this name, or those with it in their names; of generalisation, only that test set."""
    budget: str | None = None
    """Train each run for this long instead of its own schedule, such as 10m."""
    checkpoint: str | None = None
    """The model that generalisation measures: a run, a checkpoint, or a shipped name; listops if not named."""
    all: tyro.conf.FlagCreatePairsOff[bool] = False
    """Measure generalisation of every compared system whose run under --runs is finished; what is measured already is
    left as it is."""
    pointer: Literal["soft", "hard"] | None = None
    """The pointer of generalisation; hard and then soft if not named."""
    validation: tyro.conf.FlagCreatePairsOff[bool] = False
    """Measure generalisation on smaller sets of another seed, by which recipes are chosen; nothing is kept."""
    results: Path = Path("results")
    """Where finished results are kept, a folder for each task."""
    runs: Path = Path("runs/reproduce")
    """Where runs are trained; an interrupted one goes on from here."""
    threads: int | None = None
    """Processor threads; PyTorch's own choice if not named."""


def reproduce(argv: Sequence[str]) -> int:
    """Show which runs of the paper's tables are done and which are missing, and train those."""
    arguments = parse_arguments(ReproduceArguments, argv, "reproduce", reproduce.__doc__)

    from ordered_memory.training.loop import Interrupted

    use_threads(arguments.threads)
    _require_of(arguments.table, arguments)
    try:
        return _generalisation(arguments) if arguments.table == "generalisation" else _table(arguments)
    except Interrupted:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130


def _require_of(table: str, arguments: ReproduceArguments) -> None:
    """Refuses a flag that the table would not look at."""
    measures = table == "generalisation"
    for flag in OF_TABLES if measures else OF_GENERALISATION:
        if getattr(arguments, flag):
            kind = "is measured, not trained" if measures else "is a table: --run trains what is missing"
            raise InputError(f"--{flag} is not of {table}, which {kind}")
    if arguments.budget is not None:
        if not arguments.run:
            raise InputError("--budget is how long to train: it goes with --run")
        parse_duration(arguments.budget)


def _table(arguments: ReproduceArguments) -> int:
    from rich.console import Console

    from ordered_memory.reproduce.plan import FORMER, NUMBERS, missing, rows_of, run_one
    from ordered_memory.training.progress import Live

    console = Console()
    table = NUMBERS.get(arguments.table, arguments.table)
    rows, results = rows_of(table, arguments.only), arguments.results / table
    if not results.is_dir():
        print(f"there is no folder {results}: the project's own results are in its repository", file=sys.stderr)
    width = max(len(row.key) for row in rows)
    for row in rows:
        runs = "; ".join(f"seed {seed} {state}" for seed, state in row.states(results).items())
        console.print(f"{row.key:<{width}}  {row.title}: {runs}", highlight=False, soft_wrap=True, markup=False)
    wanted = missing(rows, results, arguments.former)
    if any(FORMER in state for row in rows for state in row.states(results).values()) and not arguments.former:
        console.print(
            "former settings: trained before a preset changed; --former counts it as missing", highlight=False
        )
    if not arguments.run:
        told = "run is missing; --run trains it" if len(wanted) == 1 else "runs are missing; --run trains them"
        console.print(f"{len(wanted)} {told}" if wanted else "nothing is missing", highlight=False, soft_wrap=True)
        return 0
    for row, seed in wanted:
        console.print(f"\n{row.title}, seed {seed}", highlight=False)
        path = run_one(row, seed, results, arguments.runs, Live(console), arguments.budget)
        console.print(f"written to {path}", highlight=False, soft_wrap=True)
    return 0


def _generalisation(arguments: ReproduceArguments) -> int:
    from ordered_memory.reproduce.generalisation import TESTS, finished_runs

    if arguments.all and arguments.checkpoint is not None:
        raise InputError("--all goes over the finished runs, and --checkpoint names one model: leave one of them out")
    names = [name for name in TESTS if arguments.only is None or arguments.only == name]
    if not names:
        raise InputError(f"--only {arguments.only}: no such test set; there are {', '.join(TESTS)}")
    if not arguments.all:
        _measure(arguments.checkpoint or "listops", names, arguments)
        return 0
    finished, others = finished_runs(arguments.runs)
    for run in finished:
        print(f"\n{run.name}")
        _measure(str(run), names, arguments)
    if others:
        print(f"\nno finished run in {arguments.runs}: {', '.join(run.name for run in others)}")
    return 0


def _measure(checkpoint: str, names: list[str], arguments: ReproduceArguments) -> None:
    """One model on those test sets that are not too long for it."""
    from ordered_memory.classifier import Classifier
    from ordered_memory.reproduce.generalisation import (
        LONGEST,
        VALIDATION,
        measure,
        measure_into,
        result_name,
        too_long,
    )

    model = Classifier.from_pretrained(checkpoint)
    if model.task != "listops":
        raise InputError(f"{checkpoint}: its task is {model.task!r}, and these test sets are of ListOps")

    def told(name: str, pointer: str, figures: dict[str, Any]) -> None:
        tree = "" if figures["f1"] is None else f", F1 {100 * figures['f1']:.2f}"
        way = "" if pointer == "none" else f", {pointer} pointer"
        print(f"{name}{way}: accuracy {100 * figures['accuracy']:.2f}{tree} in {figures['seconds']:.1f} s", flush=True)

    for name in names:
        if too_long(model.model_name, name):
            most = LONGEST[model.model_name]
            print(f"{name}: not measured: {model.model_name} would take too long above {most:,} tokens")
    fitting = [name for name in names if not too_long(model.model_name, name)]
    if not fitting:
        return
    pointers = [arguments.pointer] if arguments.pointer else ["hard", "soft"]
    if arguments.validation:
        measure(model, fitting, pointers, told, VALIDATION)
        return
    path = arguments.results / "listops" / result_name(checkpoint, model)
    measure_into(path, model, fitting, told, pointers)
    print(f"kept in {path}")


@dataclass
class ModelsArguments:
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print as JSON."""


def models(argv: Sequence[str]) -> int:
    """List the systems that --model takes: what they are, which trees they use, and their papers."""
    arguments = parse_arguments(ModelsArguments, argv, "models", models.__doc__)

    from ordered_memory.models import describe_models, models_table, shipped_lines

    print(json.dumps(describe_models()) if arguments.json else f"{models_table()}\n\n{shipped_lines()}")
    return 0
