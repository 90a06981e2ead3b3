"""ListOps (Nangia and Bowman, 2018): nested lists of digits to be worked out, `[MAX 2 [MIN 4 7 ] 0 ]` is 4."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

import numpy as np

from ordered_memory import atomic
from ordered_memory.errors import InputError
from ordered_memory.tasks.examples import Example, Split, length_bucket, read_lines
from ordered_memory.tasks.listops_generator import (
    DIGITS,
    END,
    OPERATORS,
    Grammar,
    Tokens,
    draw_pool,
    draw_window,
    require_at_least,
)
from ordered_memory.trees import Tree, one_by_one
from ordered_memory.vocabulary import Vocabulary, split_words

VOCABULARY = Vocabulary((*DIGITS, *(f"[{operator}" for operator in OPERATORS), END), ignored=("(", ")"))

_NUMBERS = {digit: int(digit) for digit in DIGITS}
_SAME = {token: token for token in VOCABULARY.tokens}  # one string object for each token, however many are read


def median(numbers: list[int]) -> int:
    """The integer part of the median."""
    ordered = sorted(numbers)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


FUNCTIONS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": median,
    "[SM": lambda numbers: sum(numbers) % 10,
}


@dataclass(frozen=True)
class ListOpsConfig(Grammar):
    """The data of a ListOps run. The pool is cut first: no limit on lengths moves an example to another split."""

    seed: int = 0
    """Seed of the expressions and of the shuffle."""
    pool_size: int = 100_000
    """How many different expressions to draw, for all splits together."""
    test_size: int = 10_000
    """How many of them are the test set: the last ones after the shuffle."""
    validation_size: int = 5_000
    """How many are the validation set, which picks the checkpoint: those just before the test set."""
    train_size: int | None = None
    """How many are the training set, which comes first: all that the others leave if not named. More than those are
    drawn beside the pool, so that the others stay as they are."""
    train_max_length: int | None = 50
    """Training and validation examples of more tokens are dropped; the default is the released script's limit."""
    test_max_length: int | None = None
    """Test examples of more tokens are dropped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(0, seed=self.seed)
        require_at_least(1, test_size=self.test_size, validation_size=self.validation_size)
        if self.pool_size <= self.test_size + self.validation_size:
            raise InputError(
                f"pool_size is {self.pool_size}: nothing is left to train on after "
                f"test_size {self.test_size} and validation_size {self.validation_size}"
            )
        for name in ("train_size", "train_max_length", "test_max_length"):
            if (limit := getattr(self, name)) is not None:
                require_at_least(1, **{name: limit})

    @property
    def validation_from(self) -> int:
        """Where in the pool the validation set begins: what comes before it is there to train on."""
        return self.pool_size - self.test_size - self.validation_size

    @property
    def drawn_to_train(self) -> int:
        """How many examples the training set has before any is dropped for its length."""
        return self.validation_from if self.train_size is None else self.train_size


@dataclass(frozen=True)
class WindowConfig(Grammar):
    """A test set whose lengths lie in a window, drawn from exactly that part of the distribution."""

    seed: int = 0
    """Seed of the expressions."""
    size: int = 1_000
    """How many different expressions to draw."""
    min_length: int = 200
    """Fewest tokens of an expression."""
    max_length: int = 300
    """Most tokens of an expression."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(0, seed=self.seed)
        require_at_least(1, size=self.size, min_length=self.min_length)


class ListOps:
    """The task: the published distribution, in train, validation and test examples."""

    name: ClassVar[str] = "listops"
    config_type: ClassVar[type] = ListOpsConfig
    sentences: ClassVar[int] = 1

    def __init__(self, config: ListOpsConfig | None = None) -> None:
        self.config = config or ListOpsConfig()

    @property
    def vocabulary(self) -> Vocabulary:
        return VOCABULARY

    @property
    def labels(self) -> tuple[str, ...]:
        return DIGITS

    def splits(self) -> dict[Split, list[Example]]:
        """The pool, cut into train, validation and test in this order, and then the too long ones dropped."""
        splits: dict[Split, list[Example]] = {}
        for name, examples in _splits(self.config).items():
            splits[name] = list(examples)
            if not examples:
                raise InputError(f"the {name} split is empty: all its examples are longer than allowed")
        return splits

    def extra_tests(self) -> dict[str, list[Example]]:
        return {}

    def bucket(self, example: Example) -> str:
        """By length; see `length_bucket`."""
        return length_bucket(len(example.sentences[0]))

    @property
    def not_words(self) -> tuple[str, ...]:
        return ()

    def sentence(self, text: str) -> tuple[tuple[str, ...], Tree]:
        """The tokens of an expression, round brackets dropped, and its gold tree."""
        return _expression(text)

    def read(self, path: Path) -> list[Example]:
        """See the function `read`."""
        return read(path)


@lru_cache(maxsize=1)  # a demo of two models and its report ask five times, for seconds each
def _splits(config: ListOpsConfig) -> dict[Split, tuple[Example, ...]]:
    validation_from, test_from = config.validation_from, config.validation_from + config.validation_size
    further = max(0, config.drawn_to_train - validation_from)
    pool = draw_pool(config, config.pool_size, config.seed, further)
    train = (pool[:validation_from] + pool[config.pool_size :])[: config.drawn_to_train]
    return {
        "train": _examples(train, config.train_max_length),
        "validation": _examples(pool[validation_from:test_from], config.train_max_length),
        "test": _examples(pool[test_from : config.pool_size], config.test_max_length),
    }


def window(config: WindowConfig) -> list[Example]:
    """Examples of the config's lengths."""
    expressions = draw_window(config, config.size, config.seed, config.min_length, config.max_length)
    return list(_examples(expressions, None))


def _examples(expressions: Iterable[Tokens], longest: int | None) -> tuple[Example, ...]:
    return tuple(_example(tokens) for tokens in expressions if longest is None or len(tokens) <= longest)


def _example(tokens: Tokens) -> Example:
    return Example((tokens,), DIGITS[_value(tokens)], (Tree(tokens, one_by_one(tokens, FUNCTIONS, END)),))


def evaluate(tokens: Sequence[str]) -> int:
    """The value of an expression, 0 to 9."""
    check(tokens)
    return _value(tokens)


def gold_tree(tokens: Sequence[str]) -> Tree:
    """The official binary tree of an expression: each operator takes its items one by one, `( ( ( [MAX 2 ) 9 ) ] )`."""
    check(tokens)
    return Tree(tuple(tokens), one_by_one(tokens, FUNCTIONS, END))


def check(tokens: Sequence[str], positions: Sequence[int] | None = None) -> None:
    """Refuse what is not one whole expression. `positions` tells where each token stands, if not at 1, 2, 3, ..."""
    places = positions or range(1, len(tokens) + 1)
    if not tokens:
        raise InputError("the expression is empty")
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token not in VOCABULARY:
            raise InputError(f"unknown token {token!r} at token {places[index]}: {VOCABULARY.suggest(token)}")
        if token == END:
            if not opened:
                raise InputError(f"unbalanced: {END} at token {places[index]} closes nothing")
            if opened.pop() == index - 1:
                raise InputError(f"{tokens[index - 1]} at token {places[index - 1]} has no arguments")
        elif index and not opened:
            raise InputError(f"{token} at token {places[index]} comes after the end of the expression")
        elif token in FUNCTIONS:
            opened.append(index)
    if opened:
        raise InputError(f"unbalanced: {tokens[opened[-1]]} at token {places[opened[-1]]} is never closed")


def _value(tokens: Iterable[str]) -> int:
    arguments: list[int] = []
    outer: list[tuple[str, list[int]]] = []  # each open operator, with the arguments read before it
    for token in tokens:
        number = _NUMBERS.get(token)
        if number is not None:
            arguments.append(number)
        elif token == END:
            operator, before = outer.pop()
            before.append(FUNCTIONS[operator](arguments))
            arguments = before
        else:
            outer.append((token, arguments))
            arguments = []
    return arguments[0]


def read(path: Path) -> list[Example]:
    """Examples from a file of lines `label TAB expression`, with the official files' round brackets, with all of them
    but the outermost pair, or without any.

    The gold tree is the one the round brackets show, else the operators'. A label that is not the value is refused.
    """
    return read_lines(path, _parse_line)


def _parse_line(line: str) -> Example:
    columns = line.rstrip("\r").split("\t")
    if len(columns) != 2:
        raise InputError(f"a line has 2 columns, a label and an expression with a tab between, not {len(columns)}")
    label, text = columns
    if label not in _NUMBERS:
        raise InputError(f"the label is {label!r}, and must be a digit from 0 to 9")
    tokens, tree = _expression(text)
    if (value := _value(tokens)) != _NUMBERS[label]:
        raise InputError(f"the label is {label}, but the expression's value is {value}")
    return Example((tokens,), DIGITS[value], (tree,))


def _expression(text: str) -> tuple[Tokens, Tree]:
    """The tokens of an expression and its tree: the one that round brackets show, else the operators'."""
    pieces = split_words(text)
    positions = [position for position, piece in enumerate(pieces, 1) if piece not in VOCABULARY.ignored]
    tokens = tuple(_SAME.get(pieces[position - 1], pieces[position - 1]) for position in positions)
    check(tokens, positions)
    if len(tokens) == len(pieces):
        return tokens, Tree(tokens, one_by_one(tokens, FUNCTIONS, END))
    tree = Tree.from_brackets(f"( {text} )" if _lacks_outermost(pieces) else text)
    if not tree.is_binary:
        raise InputError("each pair of round brackets must hold two items; or leave out all round brackets")
    return tokens, Tree(tokens, tree.spans)


def _lacks_outermost(pieces: Sequence[str]) -> bool:
    """Whether round brackets are balanced, and no pair of them holds the whole."""
    opened = list(accumulate((piece == "(") - (piece == ")") for piece in pieces))
    return min(opened) == opened[-1] == 0 and 0 in opened[:-1]


def write(path: Path, examples: Iterable[Example]) -> None:
    """Write the official format, `label TAB expression`; round brackets show the gold tree where there is one.

    The file appears whole or not at all.
    """
    lines = []
    for example in examples:
        if len(example.sentences) != 1:
            raise InputError(f"{path}: an example has {len(example.sentences)} sentences, and ListOps has one")
        text = example.trees[0].to_brackets() if example.trees else " ".join(example.sentences[0])
        lines.append(f"{example.label}\t{text}\n")
    atomic.write_text(path, "".join(lines))


@dataclass(frozen=True)
class Statistics:
    """What a set of examples looks like. Shares are fractions of 1."""

    count: int
    mean_length: float
    longest: int
    share_up_to_7: float
    share_above_100: float
    mean_depth: float
    deepest: int
    labels: dict[str, float]
    """Share of each label."""
    majority_label: str
    majority_share: float
    """The accuracy of always answering the commonest label."""
    operators: dict[str, float]
    """Share of each operator among all operators."""


def describe(examples: Sequence[Example]) -> Statistics:
    """Count, lengths, depths, labels and operators of some examples."""
    if not examples:
        raise InputError("there are no examples to describe")
    lengths = np.array([len(example.sentences[0]) for example in examples])
    depths = np.array([depth(example.sentences[0]) for example in examples])
    labels = Counter(example.label for example in examples)
    tokens = Counter(token for example in examples for token in example.sentences[0])
    operators = {operator: tokens[f"[{operator}"] for operator in OPERATORS}
    majority = max(DIGITS, key=lambda label: labels[label])
    return Statistics(
        count=len(examples),
        mean_length=float(lengths.mean()),
        longest=int(lengths.max()),
        share_up_to_7=float((lengths <= 7).mean()),
        share_above_100=float((lengths > 100).mean()),
        mean_depth=float(depths.mean()),
        deepest=int(depths.max()),
        labels={label: labels[label] / len(examples) for label in DIGITS},
        majority_label=majority,
        majority_share=labels[majority] / len(examples),
        operators={name: count / max(1, sum(operators.values())) for name, count in operators.items()},
    )


def depth(tokens: Iterable[str]) -> int:
    """Depth of an expression's deepest node; a lone digit has depth 1, as in `max_depth`."""
    here = deepest = 1
    for token in tokens:
        if token in FUNCTIONS:
            here += 1
            deepest = max(deepest, here)
        elif token == END:
            here -= 1
    return deepest
