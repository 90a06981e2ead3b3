"""om data: make, write and check the data of a task."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ordered_memory import atomic
from ordered_memory.cli.arguments import Flat, parse_arguments, require_new
from ordered_memory.errors import InputError
from ordered_memory.tasks import SPLITS, Example
from ordered_memory.tasks.listops import ListOpsConfig, WindowConfig


@dataclass
class ListOpsArguments:
    task: tyro.conf.Positional[Literal["listops", "logic"]]
    """The task whose data to make; the flags below are for ListOps, and om data logic --help shows those for logic."""
    config: Annotated[ListOpsConfig, Flat]
    """The distribution."""
    out: Path | None = None
    """A directory for train.tsv, validation.tsv and test.tsv; with --lengths, a file. Without it: statistics only."""
    read: Path | None = None
    """Check a file of the official format and print its statistics, instead of making data."""
    lengths: str | None = None
    """Make a test set of expressions with so many tokens, such as 200-300, instead of the three splits."""
    count: int = 1_000
    """Size of that test set."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the statistics as JSON."""


def data(argv: Sequence[str]) -> int:
    """Make the data of a task, write it to files, or check files and count what is in them."""
    if next((word for word in argv if word in ("listops", "logic")), None) == "logic":
        from ordered_memory.cli.logic import logic_data

        return logic_data(argv, data.__doc__)
    return _listops_data(argv)


def _listops_data(argv: Sequence[str]) -> int:
    arguments = parse_arguments(ListOpsArguments, argv, "data", data.__doc__)
    if arguments.task != "listops":
        raise InputError(f"name the task first: om data {arguments.task} ...")

    from ordered_memory.tasks import listops

    sets: dict[str, list[Example]]
    if arguments.read is not None:
        if arguments.out is not None or arguments.lengths is not None:
            raise InputError("--read only checks a file: it goes without --out and --lengths")
        sets = {str(arguments.read): listops.read(arguments.read)}
    elif arguments.lengths is not None:
        if arguments.out is not None:
            require_new(arguments.out)
        sets = {arguments.lengths: listops.window(_window(arguments))}
        if arguments.out is not None:
            listops.write(arguments.out, sets[arguments.lengths])
    else:
        if arguments.out is not None:
            require_new(*(arguments.out / f"{name}.tsv" for name in SPLITS))
        sets = {str(name): examples for name, examples in listops.ListOps(arguments.config).splits().items()}
        if arguments.out is not None:
            with atomic.explained(arguments.out, "made a directory"):
                arguments.out.mkdir(parents=True, exist_ok=True)
            for name, examples in sets.items():
                listops.write(arguments.out / f"{name}.tsv", examples)
    statistics = {name: dataclasses.asdict(listops.describe(examples)) for name, examples in sets.items()}
    if arguments.json:
        print(json.dumps(statistics))
    else:
        _print_statistics(statistics)
        if arguments.out is not None:
            print(f"written to {arguments.out}")
    return 0


def _window(arguments: ListOpsArguments) -> WindowConfig:
    """The length window of the flags."""
    low, dash, high = (arguments.lengths or "").partition("-")
    if not (low.isdecimal() and (high.isdecimal() or not dash)):
        raise InputError(f"--lengths is {arguments.lengths!r}, and must be one length or two, such as 200-300")
    if int(low) > int(high or low):
        raise InputError(f"--lengths is {arguments.lengths!r}, and its second length must not be below its first")
    config, kinds = arguments.config, (ListOpsConfig, WindowConfig)
    of_splits, of_window = ({field.name for field in dataclasses.fields(kind)} for kind in kinds)
    for name in sorted(of_splits - of_window):
        if getattr(config, name) != getattr(ListOpsConfig(), name):
            raise InputError(f"--{name.replace('_', '-')} is for the three splits: with --lengths say --count")
    return WindowConfig(
        max_depth=config.max_depth,
        min_arguments=config.min_arguments,
        max_arguments=config.max_arguments,
        operators=config.operators,
        seed=config.seed,
        size=arguments.count,
        min_length=int(low),
        max_length=int(high or low),
    )


def _print_statistics(statistics: dict[str, dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table()
    table.add_column("")
    for name in statistics:
        table.add_column(name, justify="right")
    rows: dict[str, Callable[[dict[str, Any]], str]] = {
        "examples": lambda s: f"{s['count']:,}",
        "mean length": lambda s: f"{s['mean_length']:.1f}",
        "longest": lambda s: f"{s['longest']:,}",
        "7 tokens or fewer": lambda s: f"{100 * s['share_up_to_7']:.1f}%",
        "more than 100 tokens": lambda s: f"{100 * s['share_above_100']:.1f}%",
        "mean depth": lambda s: f"{s['mean_depth']:.1f}",
        "deepest": lambda s: f"{s['deepest']}",
        "commonest label": lambda s: f"{s['majority_label']} ({100 * s['majority_share']:.1f}%)",
    }
    for name, show in rows.items():
        table.add_row(name, *(show(values) for values in statistics.values()))
    Console().print(table)
