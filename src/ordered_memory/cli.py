"""The command `om`: one function for each verb. Heavy imports are inside, so that help answers at once."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro

from ordered_memory import __version__, atomic
from ordered_memory.config import ENCODER_CONFIGS, ClassifierConfig, Experiment, TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.presets import PRESETS, preset
from ordered_memory.tasks import TASKS, Example
from ordered_memory.tasks.listops import ListOpsConfig, WindowConfig

if TYPE_CHECKING:
    from ordered_memory.classifier import Classifier, Prediction
    from ordered_memory.training.evaluation import Evaluation

Arguments = TypeVar("Arguments")
Flat = tyro.conf.arg(name="")  # a group of flags without a prefix of its own
PointerChoice = Literal["soft", "hard"]


def train(argv: Sequence[str]) -> int:
    """Train a model on a task; the best one on validation data is kept and measured on test data."""
    arguments = _train_arguments(argv)
    experiment, folder = _experiment(arguments, argv)

    import torch
    from rich.console import Console

    from ordered_memory.training import loop
    from ordered_memory.training.progress import Live, Silent, duration

    if arguments.threads is not None:
        if arguments.threads < 1:
            raise InputError(f"--threads is {arguments.threads}, and must be at least 1")
        torch.set_num_threads(arguments.threads)
    console = Console(stderr=arguments.json)
    try:
        result = loop.train(experiment, folder, Silent() if arguments.json else Live(console), arguments.resume)
    except loop.Interrupted:
        print(f"stopped; go on with: om train {experiment.task} --out {folder} --resume", file=sys.stderr)
        return 130
    if arguments.json:
        print(json.dumps(result))
        return 0
    test = result["test"]
    console.print(
        f"test accuracy {100 * test['accuracy']:.2f}"
        + ("" if test["f1"] is None else f", F1 {100 * test['f1']:.2f}")
        + f" on {test['n']:,} examples (majority class {100 * result['majority']:.2f}), "
        f"after {result['position']['step']:,} steps in {duration(result['position']['seconds'])}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        f"the model is in {folder}: try  om parse {folder} TEXT  or  om evaluate {folder}",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _train_arguments(argv: Sequence[str]) -> Any:
    """Flags whose defaults are the preset's: task, model, preset and config are looked up first."""
    task = next((word for word in argv if word in TASKS), "listops")
    model = _peek(argv, "--model")
    if model is not None and model not in ENCODER_CONFIGS:
        close = difflib.get_close_matches(model, ENCODER_CONFIGS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(ENCODER_CONFIGS)}"
        raise InputError(f"--model {model}: no such model; {hint}")
    if path := _peek(argv, "--config"):
        if _peek(argv, "--preset"):
            raise InputError("--config and --preset both give settings to start from: name one of them")
        base = Experiment.from_dict(atomic.read_json(Path(path)), path)
        for flag, value, own in (("--model", model, base.model), ("task", task, base.task)):
            if value is not None and value != own:
                raise InputError(f"{path} is for {own}, and {flag} says {value}: name one or the other")
    else:
        base = preset(task, _peek(argv, "--preset"), model or "ordered-memory")
    kind = dataclasses.make_dataclass(
        "train",
        [
            ("task", Annotated[Literal[tuple(TASKS)], tyro.conf.Positional, _help("The task to learn.")]),
            (
                "model",
                Annotated[Literal[tuple(ENCODER_CONFIGS)], _help("The system to train; its flags are below.")],
                base.model,
            ),
            (
                "preset",
                Annotated[str | None, _help(f"Named settings to start from: {', '.join(PRESETS)}.")],
                None,
            ),
            ("config", Annotated[Path | None, _help("Settings to start from: the config.json of a run.")], None),
            (
                "out",
                Annotated[Path | None, _help("The run's directory; runs/TASK-MODEL-seedN if not named.")],
                None,
            ),
            ("resume", Annotated[bool, tyro.conf.FlagCreatePairsOff, _help("Go on with the run in --out.")], False),
            ("threads", Annotated[int | None, _help("Processor threads; PyTorch's own choice if not named.")], None),
            (
                "json",
                Annotated[bool, tyro.conf.FlagCreatePairsOff, _help("Print the result as JSON, and no more.")],
                False,
            ),
            ("training", Annotated[TrainingConfig, Flat], dataclasses.field(default_factory=lambda: base.training)),
            (
                "classifier",
                Annotated[ClassifierConfig, Flat],
                dataclasses.field(default_factory=lambda: base.classifier),
            ),
            ("encoder", Annotated[type(base.encoder), Flat], dataclasses.field(default_factory=lambda: base.encoder)),
            ("data", type(base.data), dataclasses.field(default_factory=lambda: base.data)),
        ],
    )
    return _parse(kind, argv, "train", train.__doc__)


def _experiment(arguments: Any, argv: Sequence[str]) -> tuple[Experiment, Path]:
    """What to train and where; a resumed run takes its own config, and no other setting beside it."""
    if arguments.resume:
        from ordered_memory.training.run_directory import RunDirectory

        if arguments.out is None:
            raise InputError("--resume needs --out, the directory of the run to go on with")
        for flag in (word.split("=")[0] for word in argv if word.startswith("--")):
            if flag not in ("--resume", "--out", "--threads", "--json", "--model"):
                raise InputError(f"{flag} cannot be changed in a run that goes on: its own config.json holds")
        experiment = RunDirectory.open(arguments.out).experiment()
        return experiment, arguments.out
    experiment = Experiment(
        arguments.task, arguments.model, arguments.data, arguments.encoder, arguments.classifier, arguments.training
    )
    name = f"{experiment.task}-{experiment.model}-seed{experiment.training.seed}"
    return experiment, arguments.out or Path("runs") / name


@dataclass
class EvaluateArguments:
    checkpoint: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """A run directory, a checkpoint directory, or the name of a shipped model."""
    data: Path | None = None
    """A file of examples; without it, the test set of the data that the model was trained on."""
    pointer: PointerChoice = "soft"
    """Use the pointer as it is, or put all its weight on the likeliest slot."""
    num_slots: int | None = None
    """Slots of the memory; as in training if not named."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the figures as JSON."""


def evaluate(argv: Sequence[str]) -> int:
    """Measure a trained model: accuracy, and F1 of its trees where it has any, in all and by length."""
    arguments = _parse(EvaluateArguments, argv, "evaluate", evaluate.__doc__)

    from ordered_memory.classifier import Classifier
    from ordered_memory.training.evaluation import evaluate as measure

    model = Classifier.from_pretrained(arguments.checkpoint)
    task, config = _task_of(model)
    if arguments.data is not None:
        examples = task.read(arguments.data)
    elif config is not None:
        examples = TASKS[task.name](config).splits()["test"]
    else:
        raise InputError("the checkpoint does not say what data it was trained on: name a file by --data")
    options = _options(model, arguments.pointer, arguments.num_slots)
    _warn_of_slots(model, examples, arguments.num_slots)
    _warn_of_operators(config, examples)
    try:
        with _bar(len(examples)) as advance:
            figures = measure(model, examples, task.bucket, advance, **options)
    except InputError as error:
        raise InputError(f"{arguments.data}: {error}" if arguments.data else str(error)) from None
    if arguments.json:
        print(json.dumps(figures.to_dict()))
    else:
        _print_figures(figures, str(arguments.data or "its test set"), arguments.pointer)
    return 0


def _print_figures(figures: Evaluation, data: str, pointer: str) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=f"{data}, {figures.n:,} examples in {figures.seconds:.1f} s, {pointer} pointer", title_justify="left"
    )
    table.add_column("tokens")
    for name in ("examples", "accuracy", "F1", "F1 without root"):
        table.add_column(name, justify="right")
    rows = [*figures.buckets.items(), ("all", figures)]
    for name, bucket in rows:
        shown = ("-" if f1 is None else f"{100 * f1:.2f}" for f1 in (bucket.f1, bucket.f1_without_root))
        table.add_row(name, f"{bucket.n:,}", f"{100 * bucket.accuracy:.2f}", *shown, end_section=name == rows[-2][0])
    Console().print(table)


@dataclass
class ParseArguments:
    checkpoint: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """A run directory, a checkpoint directory, or the name of a shipped model."""
    text: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT")]
    """What to parse, tokens separated by spaces; - reads a line at a time from standard input."""
    pointer: PointerChoice = "soft"
    """Use the pointer as it is, or put all its weight on the likeliest slot."""
    num_slots: int | None = None
    """Slots of the memory; as in training if not named."""
    svg: Path | None = None
    """Draw the tree, and the pointer below it, into this file too."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print label, probabilities, tokens, tree and pointer as JSON, one line for each text."""


def parse(argv: Sequence[str]) -> int:
    """Answer for one text: the label, the tree the model found, and where its pointer went."""
    arguments = _parse(ParseArguments, argv, "parse", parse.__doc__)

    from ordered_memory.classifier import Classifier

    model = Classifier.from_pretrained(arguments.checkpoint)
    task, config = _task_of(model)
    options = _options(model, arguments.pointer, arguments.num_slots)
    if arguments.text == "-" and arguments.svg is not None:
        raise InputError("--svg draws one text: give it as an argument, not by standard input")
    number = 0
    lines = enumerate(sys.stdin, 1) if arguments.text == "-" else [(0, arguments.text)]
    for number, line in lines:
        try:
            tokens = model.vocabulary.tokenise(line)
            gold = task.gold_tree(tokens)
            example = Example((tokens,), "", None if gold is None else (gold,))
            _warn_of_slots(model, [example], arguments.num_slots)
            _warn_of_operators(config, [example])
            prediction = model.predict(tokens, **options)
        except InputError as error:
            raise InputError(f"standard input:{number}: {error}" if number else str(error)) from None
        if arguments.svg is not None:
            _write_svg(arguments.svg, prediction)
        if arguments.json:
            print(json.dumps(prediction.to_dict(), ensure_ascii=False), flush=True)
        else:
            _print_prediction(prediction)
    if arguments.text == "-" and number == 0:
        raise InputError("standard input is empty: there is no text to parse")
    return 0


def _write_svg(path: Path, prediction: Prediction) -> None:
    from ordered_memory.drawing import draw_pointer_svg, draw_svg, stack_svg

    if prediction.tree is None:
        raise InputError("--svg: the model induces no trees, so there is none to draw")
    pictures = [draw_svg(prediction.tree)]
    if prediction.pointer is not None:
        pictures.append(draw_pointer_svg(prediction.pointer, prediction.tokens))
    atomic.write_text(path, stack_svg(*pictures))


def _print_prediction(prediction: Prediction) -> None:
    import shutil

    from ordered_memory.drawing import draw_pointer_text, draw_text

    # A terminal that cannot show box drawing gets plain characters.
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(f"label {prediction.label}, probability {prediction.probabilities[prediction.label]:.4f}")
    if prediction.tree is not None:
        print("\n" + draw_text(prediction.tree, shutil.get_terminal_size().columns, ascii_only=plain))
    if prediction.pointer is not None:
        print("\n" + draw_pointer_text(prediction.pointer, prediction.tokens, ascii_only=plain))


@dataclass
class DataArguments:
    task: tyro.conf.Positional[Literal["listops"]]
    """The task whose data to make."""
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
    """Make the data of a task, write it to files, or check a file and count what is in it."""
    arguments = _parse(DataArguments, argv, "data", data.__doc__)

    from ordered_memory.tasks import listops

    sets: dict[str, list[Example]]
    if arguments.read is not None:
        if arguments.out is not None or arguments.lengths is not None:
            raise InputError("--read only checks a file: it goes without --out and --lengths")
        sets = {str(arguments.read): listops.read(arguments.read)}
    elif arguments.lengths is not None:
        sets = {arguments.lengths: listops.window(_window(arguments))}
        if arguments.out is not None:
            listops.write(arguments.out, sets[arguments.lengths])
    else:
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


def _window(arguments: DataArguments) -> WindowConfig:
    """The length window of the flags."""
    low, dash, high = (arguments.lengths or "").partition("-")
    if not (low.isdecimal() and (high.isdecimal() or not dash)):
        raise InputError(f"--lengths is {arguments.lengths!r}, and must be one length or two, such as 200-300")
    config = arguments.config
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


@dataclass
class DoctorArguments:
    build: tyro.conf.FlagCreatePairsOff[bool] = False
    """Build the native engine now, if that has not been done."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print as JSON."""


def doctor(argv: Sequence[str]) -> int:
    """Say what this machine has, which engine runs the model and why, and whether it computes what it should."""
    arguments = _parse(DoctorArguments, argv, "doctor", doctor.__doc__)

    from ordered_memory.doctor import examine

    findings = examine(arguments.build)
    if arguments.json:
        print(json.dumps(findings))
    else:
        width = max(map(len, findings))
        for name, value in findings.items():
            shown = (", ".join(value) or "none") if isinstance(value, list) else value
            print(f"{name.replace('_', ' '):<{width}}  {shown}")
    return 0 if findings["check"] == "passed" else 1


@dataclass
class DemoArguments:
    out: Path = Path("runs/demo")
    """Directory of the two runs and of report.html. Finished runs in it are used again, unfinished ones go on."""
    budget: str | None = None
    """Training time of each model, such as 3m; the preset's own if not named."""
    seed: int = 0
    """Seed of the weights and of the order of the examples."""
    threads: int | None = None
    """Processor threads; PyTorch's own choice if not named."""


def demo(argv: Sequence[str]) -> int:
    """Watch Ordered Memory and an LSTM learn a small ListOps side by side: figures, trees and a report, in minutes."""
    arguments = _parse(DemoArguments, argv, "demo", demo.__doc__)

    import torch
    from rich.console import Console

    from ordered_memory.reproduce.demo import run_demo
    from ordered_memory.training.loop import Interrupted

    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    try:
        run_demo(arguments.out, Console(), arguments.budget, arguments.seed)
    except Interrupted:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


@dataclass
class ReportArguments:
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Directories of finished runs on the same data."""
    out: Path = Path("report.html")
    """The page to write."""


def report(argv: Sequence[str]) -> int:
    """Write a page about finished runs: figures, learning curves, trees, pointers, mistakes."""
    arguments = _parse(ReportArguments, argv, "report", report.__doc__)

    from ordered_memory.reproduce.report import write_report

    print(f"written to {write_report(arguments.runs, arguments.out)}")
    return 0


@dataclass
class BenchArguments:
    out: Path = Path("runs/bench")
    """Directory for bench.json and growth.svg."""
    checkpoint: str | None = None
    """A trained Ordered Memory to measure too, on real expressions: a run, a checkpoint, or a shipped name."""
    only: str = ""
    """Only cases whose name contains this."""
    quick: tyro.conf.FlagCreatePairsOff[bool] = False
    """Fewer runs and smaller sizes."""


def bench(argv: Sequence[str]) -> int:
    """Measure the native engine against memory.py, side by side: speed, share of the machine's peak, memory, growth."""
    arguments = _parse(BenchArguments, argv, "bench", bench.__doc__)

    from rich.console import Console

    from ordered_memory.bench.run import bench as run

    agreed = run(arguments.out, arguments.checkpoint, arguments.quick, arguments.only, Console())
    return 0 if agreed else 1


def _task_of(model: Classifier) -> tuple[Any, Any]:
    """The task of a checkpoint, and the config of the data it was trained on, if the checkpoint tells."""
    if model.task not in TASKS:
        raise InputError(f"the checkpoint's task is {model.task!r}, and must be one of {', '.join(TASKS)}")
    kind = TASKS[model.task]
    values = model.card.get("data")
    if values is None:
        return kind(), None
    from ordered_memory.config import from_dict

    config: Any = from_dict(kind.config_type, values, "the checkpoint's card: data")
    return kind(config), config


def _options(model: Classifier, pointer: str, num_slots: int | None) -> dict[str, Any]:
    """What the flags ask of the encoder."""
    if num_slots is not None and num_slots < 1:
        raise InputError(f"--num-slots is {num_slots}, and must be at least 1")
    given: dict[str, Any] = {} if pointer == "soft" else {"pointer": pointer}
    if num_slots is not None:
        given["num_slots"] = num_slots
    if given and model.model_name != "ordered-memory":
        flag = next(iter(given)).replace("_", "-")
        raise InputError(f"--{flag}: the model is {model.model_name}, which has no such thing")
    return given


def _warn_of_slots(model: Classifier, examples: Sequence[Example], num_slots: int | None) -> None:
    """Says so where a sentence's own tree is deeper than the stack."""
    slots = num_slots or getattr(model.encoder_config, "num_slots", None)
    if slots is None:
        return
    needs = [max(tree.slots_needed for tree in example.trees) for example in examples if example.trees]
    short = sum(need > slots for need in needs)
    if short:
        whose = f"{short:,} of {len(needs):,} sequences need" if len(needs) > 1 else "this sequence needs"
        print(
            f"warning: {whose} up to {max(needs)} slots, and the memory has {slots}: ask for --num-slots {max(needs)}",
            file=sys.stderr,
        )


def _warn_of_operators(config: Any, examples: Sequence[Example]) -> None:
    """Says so where an expression has an operator that the model was never shown: its answer is a guess."""
    if not isinstance(config, ListOpsConfig):
        return
    words = {token for example in examples for tokens in example.sentences for token in tokens if token[0] == "["}
    if strange := sorted(words - set(config.operator_tokens)):
        print(
            f"warning: the model was trained without {' '.join(strange)}: what it says there is a guess",
            file=sys.stderr,
        )


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, where that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield lambda done: bar.advance(task, done)


def _help(text: str) -> Any:
    return tyro.conf.arg(help=text)


def _peek(argv: Sequence[str], flag: str) -> str | None:
    """The value of a flag, before the flags that depend on it are known."""
    for place, word in enumerate(argv):
        if word == flag and place + 1 < len(argv):
            return argv[place + 1]
        if word.startswith(f"{flag}="):
            return word.split("=", 1)[1]
    return None


def _parse(kind: type[Arguments], argv: Sequence[str], verb: str, description: str | None) -> Arguments:
    """The arguments of a verb. What tyro cannot parse it tells itself, with code 2."""
    return tyro.cli(kind, args=list(argv), prog=f"om {verb}", description=description)


VERBS: dict[str, Callable[[Sequence[str]], int]] = {
    "demo": demo,
    "train": train,
    "evaluate": evaluate,
    "parse": parse,
    "data": data,
    "report": report,
    "bench": bench,
    "doctor": doctor,
}

OVERVIEW = f"""\
usage: om VERB ...

Ordered Memory {__version__}: a recurrent network that finds the trees in its input, learned from labels alone.

{{verbs}}

om VERB --help tells more. Begin with: om demo
"""


def overview() -> str:
    lines = (f"  {name:<10}{verb.__doc__}" for name, verb in VERBS.items())
    return OVERVIEW.format(verbs="\n".join(lines))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a verb. Bad input is told in a line, with code 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Threads that wait by spinning take the cores from those that work: five times slower on a busy machine. Only the
    # benchmark leaves PyTorch as it comes, for on an idle machine memory.py is faster with spinning threads.
    if words[:1] != ["bench"]:
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if not words or words[0] in ("-h", "--help"):
        print(overview(), end="")
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    try:
        if words[0] not in VERBS:
            close = difflib.get_close_matches(words[0], VERBS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(VERBS)}"
            raise InputError(f"{words[0]!r} is no verb of om: {hint}")
        return VERBS[words[0]](words[1:])
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        sys.stderr.close()
        return 141


if __name__ == "__main__":
    sys.exit(main())
