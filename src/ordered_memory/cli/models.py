"""om evaluate and om parse: what a trained model does."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import tyro

from ordered_memory import atomic
from ordered_memory.cli.arguments import data_in, parse_arguments, use_threads
from ordered_memory.cli.progress import bar
from ordered_memory.errors import InputError
from ordered_memory.tasks import TASKS, Example, Task
from ordered_memory.tasks.files import Files, Known
from ordered_memory.tasks.listops import ListOpsConfig

if TYPE_CHECKING:
    from ordered_memory.classifier import Classifier, Prediction
    from ordered_memory.training.evaluation import Evaluation
    from ordered_memory.trees import Tree

PointerChoice = Literal["soft", "hard"]
MANY_UNKNOWN = 0.2
"""Share of unknown words above which a file is told to be strange to the model."""


@dataclass(kw_only=True)
class ModelArguments:
    """A trained model and how it is used."""

    checkpoint: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT")]
    """A run directory, a checkpoint directory, or the name of a shipped model."""
    pointer: PointerChoice | None = None
    """Use the pointer as it is, or put all its weight on the likeliest slot; what the model's card recommends if not
    named, which is soft if the card says nothing."""
    num_slots: int | None = None
    """Slots of the memory; if not named those of its config, or as many as the text needs where the model's card
    recommends that."""


@dataclass(kw_only=True)
class EvaluateArguments(ModelArguments):
    data: Path | None = None
    """A file of examples; without it, the test set of the data that the model was trained on."""
    data_dir: Path | None = None
    """Where the data of tasks lies, instead of $ORDERED_MEMORY_DATA."""
    threads: int | None = None
    """Processor threads; PyTorch's own choice if not named."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the figures as JSON."""


def evaluate(argv: Sequence[str]) -> int:
    """Measure a trained model: accuracy, and F1 of its trees where it has any, in all and by length."""
    arguments = parse_arguments(EvaluateArguments, argv, "evaluate", evaluate.__doc__)

    from ordered_memory.classifier import Classifier
    from ordered_memory.training.evaluation import evaluate as measure

    use_threads(arguments.threads)
    model = Classifier.from_pretrained(arguments.checkpoint)
    with data_in(arguments.data_dir):
        task, config = _task_of(model)
        examples = _examples(task, config, arguments.data)
    pointer = _pointer(model, arguments.pointer)
    options = _options(model, pointer, _slots(model, examples, arguments.num_slots))
    _warn_of_operators(config, examples)
    _warn_of_strange_data(model, examples)
    try:
        with bar(len(examples)) as advance:
            figures = measure(model, examples, task.bucket, advance, not_words=task.not_words, **options)
    except InputError as error:
        raise InputError(f"{arguments.data}: {error}" if arguments.data else str(error)) from None
    if arguments.json:
        print(json.dumps(figures.to_dict() | options))
    else:
        bucket = "operations" if task.name == "logic" else "tokens"
        _print_figures(figures, str(arguments.data or "its test set"), pointer, bucket)
    return 0


def _examples(task: Task, config: Any, path: Path | None) -> list[Example]:
    """Of the file, or of the test set of the data that the model was trained on."""
    if path is not None:
        return task.read(path)
    if config is None:
        raise InputError("the checkpoint does not say what data it was trained on: name a file by --data")
    try:
        return task.splits()["test"]
    except InputError as error:  # what it was trained on is not here, but any file of the format will do
        raise InputError(f"{error}; or name a file of examples by --data") from None


def _print_figures(figures: Evaluation, data: str, pointer: str | None, bucket_name: str) -> None:
    from rich.console import Console
    from rich.table import Table

    way = "" if pointer is None else f", {pointer} pointer"
    table = Table(title=f"{data}, {figures.n:,} examples in {figures.seconds:.1f} s{way}", title_justify="left")
    table.add_column(bucket_name)
    scores = {"F1": figures.f1, "F1 without root": figures.f1_without_root, "F1 of words": figures.f1_words}
    told = [name for name, score in scores.items() if score is not None]  # none, where there are no trees to compare
    for name in ("examples", "accuracy", *told):
        table.add_column(name, justify="right")
    rows = [*figures.buckets.items(), ("all", figures)]
    for name, bucket in rows:
        each = dict(zip(scores, (bucket.f1, bucket.f1_without_root, bucket.f1_words), strict=True))
        shown = ("-" if (f1 := each[score]) is None else f"{100 * f1:.2f}" for score in told)
        table.add_row(name, f"{bucket.n:,}", f"{100 * bucket.accuracy:.2f}", *shown, end_section=name == rows[-2][0])
    Console().print(table)


@dataclass(kw_only=True)
class ParseArguments(ModelArguments):
    text: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT [TEXT]")]
    """What to parse, tokens separated by spaces, or two texts if the model reads pairs; - reads a line at a time from
    standard input, with a tab between the texts of a pair."""
    svg: Path | None = None
    """Draw the tree, and the pointer below it, into this file too."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print label, probabilities, tokens, tree and pointer as JSON, one line for each text."""


def parse(argv: Sequence[str]) -> int:
    """Answer for a text, or a pair: the label, the trees the model found, and where its pointer went."""
    arguments = parse_arguments(ParseArguments, argv, "parse", parse.__doc__)

    from ordered_memory.classifier import Classifier

    model = Classifier.from_pretrained(arguments.checkpoint)
    task, config = _task_of(model)
    pointer = _pointer(model, arguments.pointer)
    _options(model, pointer, arguments.num_slots)  # refused before anything is read
    from_input = arguments.text == ("-",)
    if from_input and arguments.svg is not None:
        raise InputError("--svg draws one text: give it as an argument, not by standard input")
    if not arguments.json:
        _tell_of_no_trees(model)
    number = 0
    lines = enumerate((tuple(line.split("\t")) for line in sys.stdin), 1) if from_input else [(0, arguments.text)]
    for number, texts in lines:
        try:
            example = _example(task, texts)
            options = _options(model, pointer, _slots(model, [example], arguments.num_slots))
            _warn_of_operators(config, [example])
            _warn_of_unknown_words(model, example)
            prediction = model.predict(*example.sentences, trees=example.trees, **options)
        except InputError as error:
            raise InputError(f"standard input:{number}: {error}" if number else str(error)) from None
        if arguments.svg is not None:
            _write_svg(arguments.svg, prediction, task.not_words)
            print(f"drawn in {arguments.svg}", file=sys.stderr)
        if arguments.json:
            print(json.dumps(_to_dict(prediction, task.not_words), ensure_ascii=False), flush=True)
        else:
            _print_prediction(prediction, task.not_words)
    if from_input and number == 0:
        raise InputError("standard input is empty: there is no text to parse")
    return 0


def _example(task: Task, texts: Sequence[str]) -> Example:
    """What there is to answer, with the gold trees that the texts show."""
    if len(texts) != task.sentences:
        wanted = "one text" if task.sentences == 1 else "two texts, a pair,"
        raise InputError(
            f"the model reads {wanted} at a time, and here {'is' if len(texts) == 1 else 'are'} {len(texts)}"
        )
    sentences = []
    for place, text in enumerate(texts, 1):
        try:
            sentences.append(task.sentence(text))
        except InputError as error:
            raise InputError(f"text {place}: {error}" if len(texts) > 1 else str(error)) from None
    tokens, trees = zip(*sentences, strict=True)
    return Example(tokens, "", None if None in trees else trees)


def _over_words(tree: Tree, not_words: Sequence[str]) -> Tree:
    """The tree as people look at it: without the tokens that only show structure."""
    from ordered_memory.trees import without_tokens

    return without_tokens(tree, not_words) if not_words else tree


def _to_dict(prediction: Prediction, not_words: Sequence[str]) -> dict[str, Any]:
    """Plain values, with the trees over all tokens and, where some are no words, over words too."""
    values = prediction.to_dict()
    if not_words and prediction.tree is not None:
        for sentence, told in zip(prediction.sentences, values["sentences"], strict=True):
            told["tree_of_words"] = None if sentence.tree is None else str(_over_words(sentence.tree, not_words))
    return values


def _write_svg(path: Path, prediction: Prediction, not_words: Sequence[str]) -> None:
    from ordered_memory.drawing import draw_pointer_svg, draw_svg, stack_svg

    if prediction.tree is None:
        raise InputError("--svg: the model induces no trees, so there is none to draw")
    pictures = []
    for sentence in prediction.sentences:
        if sentence.tree is not None:
            pictures.append(draw_svg(_over_words(sentence.tree, not_words)))
        if sentence.pointer is not None:
            pictures.append(draw_pointer_svg(sentence.pointer, sentence.tokens))
    atomic.write_text(path, stack_svg(*pictures))


def _print_prediction(prediction: Prediction, not_words: Sequence[str]) -> None:
    import shutil

    from ordered_memory.drawing import draw_pointer_text, draw_text

    # A terminal that cannot show box drawing gets plain characters.
    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(f"label {prediction.label}, probability {prediction.probabilities[prediction.label]:.4f}")
    for sentence in prediction.sentences:
        if sentence.tree is not None:
            tree = _over_words(sentence.tree, not_words)
            print("\n" + draw_text(tree, shutil.get_terminal_size().columns, ascii_only=plain))
        if sentence.pointer is not None:
            print("\n" + draw_pointer_text(sentence.pointer, sentence.tokens, ascii_only=plain))


def _task_of(model: Classifier) -> tuple[Task, Any]:
    """The task of a checkpoint, and the config of the data it was trained on, if the checkpoint tells."""
    if model.task not in TASKS:
        raise InputError(f"the checkpoint's task is {model.task!r}, and must be one of {', '.join(TASKS)}")
    kind = TASKS[model.task]
    values = model.card.get("data")
    config: Any = None
    if values is not None:
        from ordered_memory.config import from_dict

        config = from_dict(kind.config_type, values, "the checkpoint's card: data")
    if kind is Files:  # the files may be gone, but the model knows what there is to know
        return Files(config, Known(model.vocabulary, model.labels, model.sentences)), config
    return kind(config), config


def _pointer(model: Classifier, asked: str | None) -> str | None:
    """The pointer that was asked for, or the one that the model's card recommends; None where the model has none."""
    if asked is not None or model.model_name != "ordered-memory":
        return asked
    recommended = model.card.get("recommends", {}).get("pointer", "soft")
    if recommended not in get_args(PointerChoice):
        raise InputError(f"the checkpoint's card recommends a pointer {recommended!r}, and there are soft and hard")
    if recommended != "soft":
        print(f"{recommended} pointer, as the model's card recommends; --pointer soft for the other", file=sys.stderr)
    return str(recommended)


def _options(model: Classifier, pointer: str | None, num_slots: int | None) -> dict[str, Any]:
    """What the flags ask of the encoder."""
    if num_slots is not None and num_slots < 1:
        raise InputError(f"--num-slots is {num_slots}, and must be at least 1")
    given: dict[str, Any] = {} if pointer is None else {"pointer": pointer}
    if num_slots is not None:
        given["num_slots"] = num_slots
    if given and model.model_name != "ordered-memory":
        flag = next(iter(given)).replace("_", "-")
        raise InputError(f"--{flag}: the model is {model.model_name}, which has no such thing")
    return given


def _tell_of_no_trees(model: Classifier) -> None:
    """Says why there will be none to see."""
    if model.encoder.trees != "latent":
        why = "reads the trees that texts show" if model.encoder.trees == "gold" else "knows nothing of trees"
        print(f"{model.model_name} {why}: it has none of its own to draw", file=sys.stderr)


def _slots(model: Classifier, examples: Sequence[Example], asked: int | None) -> int | None:
    """The number that was asked for; or, where a sentence's own tree is deeper than the stack, as many as it needs if
    the model's card recommends that. If not, it is told. None: the model's own."""
    from ordered_memory.classifier import AS_NEEDED

    own = (getattr(model.encoder_config, name, None) for name in ("test_slots", "num_slots"))
    slots = asked or next(filter(None, own), None)
    needs = [max(tree.slots_needed for tree in example.trees) for example in examples if example.trees]
    short = sum(need > slots for need in needs) if slots else 0
    if not short:
        return asked
    whose = f"{short:,} of {len(needs):,} sequences need" if len(needs) > 1 else "this sequence needs"
    if asked is None and model.card.get("recommends", {}).get("num_slots") == AS_NEEDED:
        told = f"{max(needs)} slots, as the model's card recommends: {whose} more than {slots}"
        print(f"{told}; --num-slots {slots} for those of training", file=sys.stderr)
        return max(needs)
    print(
        f"warning: {whose} up to {max(needs)} slots, and the memory has {slots}: ask for --num-slots {max(needs)}",
        file=sys.stderr,
    )
    return asked


def _warn_of_strange_data(model: Classifier, examples: Sequence[Example]) -> None:
    """Says so where the model does not know many of the words: the data may be written in another way than its own."""
    words = Counter(token for example in examples for tokens in example.sentences for token in tokens)
    strange = [(count, word) for word, count in words.items() if word not in model.vocabulary]
    share = sum(count for count, _ in strange) / max(1, words.total())
    if model.vocabulary.unknown is not None and share > MANY_UNKNOWN:
        most = ", ".join(repr(word) for _, word in sorted(strange, key=lambda pair: (-pair[0], pair[1]))[:5])
        print(f"warning: the model does not know {share:.0%} of the words, such as {most}", file=sys.stderr)


def _warn_of_unknown_words(model: Classifier, example: Example) -> None:
    """Says so where the model reads its unknown token in the place of a word."""
    words = (token for tokens in example.sentences for token in tokens)
    unknown = list(dict.fromkeys(word for word in words if word not in model.vocabulary))
    if unknown and model.vocabulary.unknown is not None:
        print(f"warning: the model does not know {', '.join(map(repr, unknown))}", file=sys.stderr)


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
