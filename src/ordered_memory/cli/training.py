"""om train."""

from __future__ import annotations

import dataclasses
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import tyro

from ordered_memory import atomic
from ordered_memory.cli.arguments import Flat, data_in, help_text, naming_flags, parse_arguments, peek, use_threads
from ordered_memory.config import ENCODER_CONFIGS, ClassifierConfig, Experiment, TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.presets import GOLD_TREES, PRESETS, preset
from ordered_memory.tasks import TASKS
from ordered_memory.tasks.files import Files
from ordered_memory.tasks.files_data import FilesConfig
from ordered_memory.vectors import AUTO

TASK_HELP = "The task to learn; each has flags of its own. files is your own data: om train files --help."


def train(argv: Sequence[str]) -> int:
    """Train a model on a task; the best one on validation data is kept and measured on test data."""
    arguments = _train_arguments(argv)
    with data_in(arguments.data_dir), naming_flags(argv):
        return _train(arguments, argv)


def _train(arguments: Any, argv: Sequence[str]) -> int:
    experiment, folder = _experiment(arguments, argv)

    from rich.console import Console

    from ordered_memory.training import loop
    from ordered_memory.training.progress import Live, Silent, duration
    from ordered_memory.training.run_directory import CONFIG, RunDirectory

    use_threads(arguments.threads)
    task = TASKS[experiment.task](experiment.data)
    if isinstance(task, Files):
        if not arguments.resume:
            RunDirectory.require_new(folder)  # before anything is read
        for remark in task.remarks():
            print(remark, file=sys.stderr)
    console = Console(stderr=arguments.json)
    where = "" if arguments.data_dir is None else f" --data-dir {arguments.data_dir}"  # no run keeps where its data is
    try:
        result = loop.train(experiment, folder, Silent() if arguments.json else Live(console), arguments.resume, task)
    except (loop.Interrupted, KeyboardInterrupt):  # in training, or around it
        begun = (folder / CONFIG).exists()
        way = f"go on with: om train {experiment.task} --out {folder}{where} --resume" if begun else "nothing was begun"
        print(f"stopped; {way}", file=sys.stderr)
        return 130
    if arguments.json:
        print(json.dumps(result))
        return 0
    test, hard = result["test"], result["hard_pointer"]
    texts = " ".join(["TEXT"] * task.sentences)
    console.print(
        f"test accuracy {100 * test['accuracy']:.2f}"
        + (f" ({100 * hard['test']['accuracy']:.2f} with a hard pointer)" if hard else "")
        + ("" if test["f1"] is None else f", F1 {100 * test['f1']:.2f}")
        + ("" if test["f1_words"] is None else f" (of words {100 * test['f1_words']:.2f})")
        + f" on {test['n']:,} examples (majority class {100 * result['majority']:.2f}), "
        f"after {result['position']['step']:,} steps in {duration(result['position']['seconds'])}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"the model is in {folder}: try  om parse {folder} {texts}  or  om evaluate {folder}{where}",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _train_arguments(argv: Sequence[str]) -> Any:
    """Flags whose defaults are the preset's: task, model, preset and config are looked up first."""
    # A word after a flag may be a preset of the same name, not the task.
    words = (word for place, word in enumerate(argv) if word in TASKS and argv[place - 1 : place] != ["--preset"])
    task = next(words, None)
    own = _own_settings(argv)
    if task is None and own is not None:  # the run knows its task
        task = own.task
        argv = [task, *argv]
    if task is None and not {"-h", "--help"} & set(argv):
        named = next((word for word in argv[:1] if not word.startswith("-")), None)
        told = "name a task first" if named is None else f"{named!r} is no task"
        raise InputError(f"{told}: om train TASK ...; there are {', '.join(TASKS)}, and files is your own data")
    task = task or "listops"
    _require_choices(argv, TASKS[task].config_type)
    argv = _with_prefixes(argv, TASKS[task].config_type)
    model = peek(argv, "--model")
    if model is not None and model not in ENCODER_CONFIGS:
        close = difflib.get_close_matches(model, ENCODER_CONFIGS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(ENCODER_CONFIGS)}"
        raise InputError(f"--model {model}: no such model; {hint}")
    if own is not None:
        for flag, value, settled in (("the task", task, own.task), ("--model", model, own.model)):
            if value not in (None, settled):
                raise _unchangeable(flag, settled)
    if path := peek(argv, "--config"):
        if peek(argv, "--preset"):
            raise InputError("--config and --preset both give settings to start from: name one of them")
        base = Experiment.from_dict(atomic.read_json(Path(path)), path)
        for flag, value, its_own in (("--model", model, base.model), ("task", task, base.task)):
            if value is not None and value != its_own:
                raise InputError(f"{path} is for {its_own}, and {flag} says {value}: name one or the other")
    elif own is not None and not peek(argv, "--preset"):
        base = own
    else:
        base = preset(task, peek(argv, "--preset"), model or (own.model if own else "ordered-memory"))
    _require_flags_of(base.model, argv)
    presets = [name for name, experiment in PRESETS.items() if experiment.task == task]
    kind = dataclasses.make_dataclass(
        "train",
        [
            ("task", Annotated[Literal[tuple(TASKS)], tyro.conf.Positional, help_text(TASK_HELP)]),
            (
                "model",
                Annotated[Literal[tuple(ENCODER_CONFIGS)], help_text("The system to train; its flags are below.")],
                base.model,
            ),
            (
                "preset",
                Annotated[str | None, help_text(f"Named settings to start from: {', '.join(presets)}.")],
                None,
            ),
            ("config", Annotated[Path | None, help_text("Settings to start from: the config.json of a run.")], None),
            (
                "out",
                Annotated[Path | None, help_text("The run's directory; runs/TASK-MODEL-[SPLIT-]seedN if not named.")],
                None,
            ),
            ("resume", Annotated[bool, tyro.conf.FlagCreatePairsOff, help_text("Go on with the run in --out.")], False),
            (
                "data_dir",
                Annotated[Path | None, help_text("Where the data of tasks lies, instead of $ORDERED_MEMORY_DATA.")],
                None,
            ),
            (
                "threads",
                Annotated[int | None, help_text("Processor threads; PyTorch's own choice if not named.")],
                None,
            ),
            (
                "json",
                Annotated[bool, tyro.conf.FlagCreatePairsOff, help_text("Print the result as JSON, and no more.")],
                False,
            ),
            ("training", Annotated[TrainingConfig, Flat], dataclasses.field(default_factory=lambda: base.training)),
            (
                "classifier",
                Annotated[ClassifierConfig, Flat],
                dataclasses.field(default_factory=lambda: base.classifier),
            ),
            ("encoder", Annotated[type(base.encoder), Flat], dataclasses.field(default_factory=lambda: base.encoder)),
            (
                "data",
                Annotated[type(base.data), help_text(_about_data(type(base.data)))],
                dataclasses.field(default_factory=lambda: base.data),
            ),
        ],
    )
    verb = f"train {task}" + ("" if model is None else f" --model {model}")  # where tyro sends the reader for help
    arguments: Any = parse_arguments(kind, argv, verb, train.__doc__)
    if arguments.task != task:  # a flag's value was taken for it
        raise InputError(f"name the task first: om train {arguments.task} ...")
    return arguments


def _own_settings(argv: Sequence[str]) -> Experiment | None:
    """Those of the run that is to go on, if one is."""
    if "--resume" not in argv or not (folder := peek(argv, "--out")):
        return None
    from ordered_memory.training.run_directory import RunDirectory

    return RunDirectory.open(Path(folder)).experiment()


def _require_unchanged(asked: Experiment, own: Experiment, argv: Sequence[str]) -> None:
    """A run that goes on may be given its own settings once more, and no other ones."""
    start = next((f"{flag} {value}: " for flag in ("--preset", "--config") if (value := peek(argv, flag))), "")
    for part in ("data", "encoder", "classifier", "training"):
        given, settled = getattr(asked, part), getattr(own, part)
        for field in dataclasses.fields(settled):
            value, its_own = getattr(given, field.name), getattr(settled, field.name)
            # What a preset leaves open the run has settled.
            if value not in (None, AUTO, its_own):
                raise _unchangeable(f"{start}--{field.name.replace('_', '-')}", its_own)


def _unchangeable(flag: str, value: Any) -> InputError:
    value = " ".join(map(str, value)) or "none" if isinstance(value, tuple) else value
    return InputError(f"{flag} cannot be changed in a run that goes on: it has {value}; begin another run for another")


def _with_prefixes(argv: Sequence[str], data: type) -> list[str]:
    """Flags of the data may be written without their prefix, `--split A`, where no other group has that name."""
    short = _flags(data) - _taken()
    words = []
    for word in argv:
        flag, equals, value = word.partition("=")
        known = flag.startswith("--") and flag[2:].replace("_", "-").removeprefix("no-") in short
        words.append(f"--data.{flag[2:]}{equals}{value}" if known else word)
    return words


def _require_choices(argv: Sequence[str], data: type) -> None:
    """Refuses a value that a flag of the data does not take, by the flag that was typed."""
    for name, kind in get_type_hints(data).items():
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        for flag in (f"--{name.replace('_', '-')}", f"--data.{name.replace('_', '-')}"):
            value = peek(argv, flag)
            if choices and value is not None and value not in map(str, choices):
                raise InputError(f"{flag} {value}: there are {', '.join(map(str, choices))}")


OF_POINTERS = ("random", "start", "pointer", "copy", "drawn", "draws", "hidden", "written", "seeking", "sharpen")
"""Flags of training that begin so ask for a model that has a pointer."""


def _require_flags_of(model: str, argv: Sequence[str]) -> None:
    """Refuses a flag that only other models have, and says which."""
    known = {name for kind in (TrainingConfig, ClassifierConfig, ENCODER_CONFIGS[model]) for name in _flags(kind)}
    for word in argv:
        flag = word.partition("=")[0]
        name = flag[2:].replace("_", "-").removeprefix("no-")
        owners = [other for other, kind in ENCODER_CONFIGS.items() if name in _flags(kind)]
        if name.partition("-")[0] in OF_POINTERS and name in _flags(TrainingConfig) and model != "ordered-memory":
            owners, known = ["ordered-memory"], known - {name}
        if flag.startswith("--") and owners and name not in known:
            raise InputError(f"{flag} is a setting of {', '.join(owners)}, and the model is {model}: leave it out")


def _about_data(data: type) -> str:
    """What the help says over the flags of the data."""
    whole = [f"--data.{name}" for name in sorted(_flags(data) & _taken())]
    but = f", but for {' and '.join(whole)}" if whole else ""
    return f'{data.__doc__} These flags need no "data." in front: --NAME is enough{but}.'


def _taken() -> set[str]:
    """The flags of all other groups."""
    return {name for kind in (TrainingConfig, ClassifierConfig, *ENCODER_CONFIGS.values()) for name in _flags(kind)}


def _flags(kind: type) -> set[str]:
    return {field.name.replace("_", "-") for field in dataclasses.fields(kind)}


def _experiment(arguments: Any, argv: Sequence[str]) -> tuple[Experiment, Path]:
    """What to train and where; a resumed run takes its own config, and no other setting beside it."""
    experiment = Experiment(
        arguments.task, arguments.model, arguments.data, arguments.encoder, arguments.classifier, arguments.training
    )
    if arguments.resume:
        if (own := _own_settings(argv)) is None:
            raise InputError("--resume needs --out, the directory of the run to go on with")
        if experiment.data != own.data:
            experiment = dataclasses.replace(experiment, data=TASKS[own.task](experiment.data).config)
        _require_unchanged(experiment, own, argv)
        return own, arguments.out
    if experiment.model in GOLD_TREES and isinstance(experiment.data, FilesConfig) and not experiment.data.gold_trees:
        raise InputError(
            f"--model {experiment.model} reads gold trees: write the texts in brackets, ( ( the cat ) sat ), and say "
            "--gold-trees, or take a model that finds trees or needs none"
        )
    split = getattr(experiment.data, "split", "full")
    parts = [experiment.task, experiment.model, *([] if split == "full" else [split])]
    if getattr(experiment.data, "classes", 2) != 2:
        parts.append(f"{experiment.data.classes}classes")
    return experiment, arguments.out or Path("runs") / "-".join([*parts, f"seed{experiment.training.seed}"])
