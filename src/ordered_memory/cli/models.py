"""om evaluate and om parse: what a trained model does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ordered_memory import atomic
from ordered_memory.cli.arguments import parse_arguments
from ordered_memory.errors import InputError
from ordered_memory.tasks import TASKS, Example
from ordered_memory.tasks.listops import ListOpsConfig

if TYPE_CHECKING:
    from ordered_memory.classifier import Classifier, Prediction
    from ordered_memory.training.evaluation import Evaluation

PointerChoice = Literal["soft", "hard"]


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
    arguments = parse_arguments(EvaluateArguments, argv, "evaluate", evaluate.__doc__)

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
    arguments = parse_arguments(ParseArguments, argv, "parse", parse.__doc__)

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
