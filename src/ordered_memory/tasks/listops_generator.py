"""ListOps expressions drawn from the published distribution: freely, or exactly within a window of lengths.

A node is an operator with probability 1/4, and a digit otherwise or at the greatest depth. Operators, their number of
arguments and digits are uniform. Everything here is tokens; values and gold trees are `listops.py`'s.
"""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ordered_memory.errors import InputError

DIGITS = tuple("0123456789")
OPERATORS = ("MIN", "MAX", "MED", "SM")
END = "]"
OPERATOR_PROBABILITY = 0.25

PATIENCE = 100_000
"""After this many draws without a new expression we take it that there are hardly any left."""

RAREST = 1e-280
"""A window less probable than this is refused: below, double precision has no digits left."""

Tokens = tuple[str, ...]
Weights = NDArray[np.float64]


@dataclass(frozen=True)
class Grammar:
    """Which expressions there are. The defaults are the published ones."""

    max_depth: int = 20
    """Greatest depth of a node; the whole expression has depth 1, its arguments 2."""
    min_arguments: int = 2
    """Fewest arguments of an operator."""
    max_arguments: int = 5
    """Most arguments of an operator."""
    operators: tuple[str, ...] = OPERATORS
    """Operators to use, out of MIN, MAX, MED (median) and SM (sum modulo 10)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "operators", tuple(self.operators))  # JSON knows lists only
        require_at_least(1, max_depth=self.max_depth, min_arguments=self.min_arguments)
        if self.max_arguments < self.min_arguments:
            raise InputError(f"max_arguments is {self.max_arguments}, below min_arguments, {self.min_arguments}")
        if not self.operators:
            raise InputError(f"operators: at least one of {' '.join(OPERATORS)} is needed")
        for operator in self.operators:
            if operator not in OPERATORS:
                raise InputError(f"operators: {operator!r} is not one of {' '.join(OPERATORS)}")
        if len(set(self.operators)) < len(self.operators):
            raise InputError(f"operators: one is there twice: {' '.join(self.operators)}")

    @property
    def operator_tokens(self) -> Tokens:
        return tuple(f"[{operator}" for operator in self.operators)


def require_at_least(least: int, **values: int) -> None:
    """Refuse a value below `least`, by its name."""
    for name, value in values.items():
        if value < least:
            raise InputError(f"{name} is {value}, and must be at least {least}")


def random_numbers(seed: int) -> Callable[[], float]:
    """Uniform numbers in [0, 1), the same for a seed on every machine and every version of Python."""
    require_at_least(0, seed=seed)  # random.Random takes -1 for 1
    return random.Random(seed).random


def draw_pool(grammar: Grammar, size: int, seed: int, further: int = 0) -> list[Tokens]:
    """Distinct expressions, drawn until there are `size` of them, shuffled; then so many `further` ones, none of which
    is among them. The first `size` are the same however many follow."""
    uniform = random_numbers(seed)
    draws = free_draws(grammar, uniform)
    expressions = _distinct(draws, size)
    for last in range(len(expressions) - 1, 0, -1):  # Fisher and Yates; random.shuffle may change between versions
        other = int(uniform() * (last + 1))
        expressions[last], expressions[other] = expressions[other], expressions[last]
    return expressions + _distinct(draws, further, expressions)


def draw_window(grammar: Grammar, size: int, seed: int, min_length: int, max_length: int) -> list[Tokens]:
    """Distinct expressions of `min_length` to `max_length` tokens, both included."""
    sampler = WindowSampler(grammar, min_length, max_length)
    uniform = random_numbers(seed)
    return _distinct(iter(lambda: sampler.draw(uniform), None), size)


def _distinct(draws: Iterator[Tokens], size: int, known: Sequence[Tokens] = ()) -> list[Tokens]:
    """The first `size` different ones that are not `known`, in the order they came."""
    seen = set(known)
    expressions: list[Tokens] = []
    repeated = 0
    while len(expressions) < size:
        expression = next(draws)
        if expression in seen:
            repeated += 1
            if repeated == PATIENCE:
                raise InputError(
                    f"only {len(expressions):,} different expressions found, not {size:,}: "
                    "ask for fewer, or allow more depth, arguments, operators or lengths"
                )
            continue
        seen.add(expression)
        expressions.append(expression)
        repeated = 0
    return expressions


def free_draws(grammar: Grammar, uniform: Callable[[], float]) -> Iterator[Tokens]:
    """Expressions without end, each token drawn from left to right."""
    operators, fewest = grammar.operator_tokens, grammar.min_arguments
    kinds, counts, depth_limit = len(operators), grammar.max_arguments - fewest + 1, grammar.max_depth - 1
    while True:
        tokens: list[str] = []
        missing: list[int] = []  # for each open operator, the arguments still to come
        while True:
            if len(missing) < depth_limit and uniform() < OPERATOR_PROBABILITY:
                tokens.append(operators[int(uniform() * kinds)])
                missing.append(fewest + int(uniform() * counts))
                continue
            tokens.append(DIGITS[int(uniform() * 10)])
            while missing:
                missing[-1] -= 1
                if missing[-1]:
                    break
                missing.pop()
                tokens.append(END)
            if not missing:
                break
        yield tuple(tokens)


class WindowSampler:
    """Draws from the distribution of expressions given that the length lies in a window, without a draw in vain.

    The probability of each length is worked out for every depth, from the deepest up; then an expression is drawn from
    the root down: its length, the number of arguments, and the length of each argument given what is left for it.
    Sums of positive terms only, so that the far tails keep their digits, where a Fourier transform would lose them.
    The tables cost time in the square of `max_length`: nothing up to 2,000 tokens, a few seconds at 10,000.
    """

    def __init__(self, grammar: Grammar, min_length: int, max_length: int) -> None:
        require_at_least(1, min_length=min_length)
        if max_length < min_length:
            raise InputError(f"max_length is {max_length}, below min_length, {min_length}")
        self.grammar = grammar
        self.min_length = min_length
        # siblings[depth][count][length]: probability that `count` nodes of that depth have `length` tokens together
        self._siblings = sibling_lengths(grammar, max_length)
        self._tables: dict[tuple[int, int, int], list[float]] = {}
        self._roots = np.cumsum(self._siblings[1][1][min_length:])
        if not self._roots.size or self._roots[-1] < RAREST:
            raise InputError(
                f"no expression of {min_length} to {max_length} tokens can be drawn with max_depth {grammar.max_depth} "
                f"and {grammar.min_arguments} to {grammar.max_arguments} arguments: there is none, or it is too rare "
                f"(below {RAREST:.0e}); allow more depth, arguments or lengths"
            )

    @property
    def probability(self) -> float:
        """The share of free draws that would fall into the window."""
        return float(self._roots[-1])

    def draw(self, uniform: Callable[[], float]) -> Tokens:
        """One expression."""
        operators = self.grammar.operator_tokens
        kinds = len(operators)
        tokens: list[str] = []
        pending = [(1, self.min_length + _pick(self._roots, uniform()))]  # (depth, length), the next one last
        while pending:
            depth, length = pending.pop()
            if length == 1:
                tokens.append(DIGITS[int(uniform() * 10)])
            elif length == 0:
                tokens.append(END)
            else:
                tokens.append(operators[int(uniform() * kinds)])
                pending.append((depth, 0))
                pending.extend((depth + 1, argument) for argument in self._arguments(depth + 1, length - 2, uniform))
        return tuple(tokens)

    def _arguments(self, depth: int, total: int, uniform: Callable[[], float]) -> list[int]:
        """Lengths of an operator's arguments, `total` together. They are exchangeable, so any order will do."""
        count = self.grammar.min_arguments + _pick(self._table(depth, 0, total), uniform())
        lengths: list[int] = []
        for remaining in range(count, 1, -1):
            if total == remaining:  # only digits are left: by far the commonest case
                return lengths + [1] * remaining
            lengths.append(1 + _pick(self._table(depth, remaining, total), uniform()))
            total -= lengths[-1]
        lengths.append(total)
        return lengths

    def _table(self, depth: int, count: int, total: int) -> Sequence[float] | Weights:
        """Cumulative weights of the first argument's length (from 1 up) if `count` of them have `total` tokens.

        With `count` 0, those of the number of arguments. Small tables are asked for again and again, and kept.
        """
        key = (depth, count, total)
        if kept := self._tables.get(key):
            return kept
        sums = self._siblings[depth]
        if count == 0:
            counts = range(self.grammar.min_arguments, self.grammar.max_arguments + 1)
            table = np.cumsum([_at(sums[number], total) for number in counts])
        else:
            first, others = sums[1], sums[count - 1]
            shortest, longest = max(1, total - len(others) + 1), min(total - 1, len(first) - 1)
            table = np.zeros(longest)
            table[shortest - 1 :] = first[shortest : longest + 1] * others[total - longest : total - shortest + 1][::-1]
            table = np.cumsum(table)
        if table.size > 256:
            return table
        return self._tables.setdefault(key, table.tolist())


def sibling_lengths(grammar: Grammar, longest: int) -> list[list[Weights]]:
    """[depth][count][length]: the probability that `count` nodes at a depth have `length` tokens together.

    Depths and counts from 1; arrays end at the greatest length there is, or at `longest`.
    """
    counts = range(grammar.min_arguments, grammar.max_arguments + 1)
    by_depth: list[list[Weights]] = [[] for _ in range(grammar.max_depth + 1)]
    node = np.array([0.0, 1.0])  # at the greatest depth: a digit, one token
    for depth in range(grammar.max_depth, 0, -1):
        sums = [np.ones(1), node]
        for _ in range(grammar.max_arguments - 1 if depth > 1 else 0):  # the root has no siblings
            sums.append(np.convolve(sums[-1], node)[: longest + 1])
        by_depth[depth] = sums
        if depth > 1:
            node = np.zeros(min(len(sums[-1]) + 2, longest + 1))
            for count in counts:
                inner = sums[count][: max(len(node) - 2, 0)]
                node[2 : 2 + len(inner)] += inner * (OPERATOR_PROBABILITY / len(counts))
            node[1] += 1 - OPERATOR_PROBABILITY
    return by_depth


def _at(weights: Weights, index: int) -> float:
    return float(weights[index]) if index < len(weights) else 0.0


def _pick(cumulative: Sequence[float] | Weights, uniform: float) -> int:
    """The index whose share of the cumulative weights holds `uniform`, a number in [0, 1)."""
    total = cumulative[-1]
    if isinstance(cumulative, np.ndarray):
        index = int(cumulative.searchsorted(uniform * total, side="right"))
    else:
        index = bisect_right(cumulative, uniform * total)
    # The product may round up to the total: then the last index that has a weight.
    return index if index < len(cumulative) else bisect_left(cumulative, total)
