"""om data logic: fetch, draw, write and check the pairs of logical inference."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from ordered_memory import atomic
from ordered_memory.cli.arguments import Flat, data_in, parse_arguments, require_new
from ordered_memory.cli.progress import bar
from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import DATA_VARIABLE, Example
from ordered_memory.tasks.logic import Logic, LogicConfig


@dataclass
class LogicArguments:
    task: tyro.conf.Positional[Literal["listops", "logic"]]
    """The task whose data to make."""
    config: Annotated[LogicConfig, Flat]
    """The data."""
    out: Path | None = None
    """A directory for train0 to test12, as the released files are. Without it: statistics only."""
    read: Path | None = None
    """Check a file of the released format and print its statistics, instead of making data."""
    verify: Annotated[tuple[Path, ...] | None, tyro.conf.arg(metavar="[FOLDER]")] = None
    """Check a folder of the released files: each line, labels by truth tables, counts, the splits' sizes."""
    download: tyro.conf.FlagCreatePairsOff[bool] = False
    """Fetch the released files into the folder logic of --data-dir, and check that they are the ones we know."""
    data_dir: Path | None = None
    """Where the data of tasks lies, instead of $ORDERED_MEMORY_DATA."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the statistics as JSON."""


def logic_data(argv: Sequence[str], description: str | None) -> int:
    """The verb `data` for this task."""
    arguments = parse_arguments(LogicArguments, argv, "data logic", description)
    if arguments.task != "logic":
        raise InputError(f"name the task first: om data {arguments.task} ...")
    asked = {
        "--read": arguments.read,
        "--verify": arguments.verify,
        "--download": arguments.download or None,
        "--out": arguments.out,
    }
    given = [flag for flag, value in asked.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]} are two things to do: ask for one at a time")
    with data_in(arguments.data_dir):
        if arguments.download:
            return _download()
        if arguments.verify is not None:
            return _verify(arguments)
        return _statistics(arguments)


def _download() -> int:
    from ordered_memory.tasks import logic_files

    if not (place := os.environ.get(DATA_VARIABLE)):
        raise InputError(f"--download: say where to, by --data-dir or {DATA_VARIABLE}")
    folder, total = Path(place) / "logic", len(logic_files.CHECKSUMS)
    with bar(total) as advance:
        fetched = logic_files.download(folder, advance)
    print(f"{fetched} of {total} files fetched; all {total} are in {folder}, and are the ones we know")
    return 0


def _verify(arguments: LogicArguments) -> int:
    from ordered_memory.tasks import logic_files

    folders = arguments.verify or (arguments.config.data_folder(),)
    if len(folders) > 1:
        raise InputError(f"--verify takes one folder, not {len(folders)}")
    with bar(len(logic_files.PARTS)) as advance:
        counted = logic_files.verify(folders[0], advance)
    if arguments.json:
        print(json.dumps(counted))
    else:
        for name, count in counted.items():
            print(f"{name:<20}{count:>9,}")
        print(f"{folders[0]}: every line, every relation and all sizes are those of the released files")
    return 0


def _statistics(arguments: LogicArguments) -> int:
    from ordered_memory.tasks import logic_files

    if arguments.out is not None:
        require_new(*(arguments.out / name for name in (f"{part}{number}" for part, number in logic_files.PARTS)))
    task = Logic(arguments.config)
    source = "from files" if task.config.source == "files" else f"drawn, seed {task.config.seed}"
    sets: dict[str, list[Example]]
    if arguments.read is not None:
        sets, source = {arguments.read.name: task.read(arguments.read)}, f"from {arguments.read}"
    else:
        sets = {str(name): examples for name, examples in task.splits().items()} | task.extra_tests()
    statistics = {
        name: dataclasses.asdict(logic_files.describe(examples)) for name, examples in sets.items() if examples
    }
    if arguments.out is not None:
        _write(arguments.out, task)
    if arguments.json:
        print(json.dumps(statistics))
    else:
        _print(statistics, source)
        if arguments.out is not None:
            print(f"written to {arguments.out}")
    return 0


def _write(folder: Path, task: Logic) -> None:
    """All files, also those that are too long to train on."""
    from ordered_memory.tasks import logic_files
    from ordered_memory.tasks.logic_generator import MOST_OPERATIONS

    with atomic.explained(folder, "made a directory"):
        folder.mkdir(parents=True, exist_ok=True)
    everything = Logic(dataclasses.replace(task.config, max_operations=MOST_OPERATIONS))
    logic_files.write(folder, everything.files())


def _print(statistics: dict[str, dict[str, Any]], source: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"pairs {source}", title_justify="left")
    table.add_column("")
    for name in statistics:
        table.add_column(name, justify="right")
    columns = list(statistics.values())
    table.add_row("pairs", *(f"{column['count']:,}" for column in columns))
    table.add_row("mean length", *(f"{column['mean_length']:.1f}" for column in columns))
    table.add_row("longest", *(f"{column['longest']:,}" for column in columns), end_section=True)
    for relation in columns[0]["relations"]:
        table.add_row(relation, *(f"{100 * column['relations'][relation]:.1f}%" for column in columns))
    table.add_section()
    for number in columns[0]["operations"]:
        table.add_row(f"{number} operations", *(f"{column['operations'][number]:,}" for column in columns))
    Console().print(table)
