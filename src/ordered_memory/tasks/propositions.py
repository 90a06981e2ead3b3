"""The language of logical inference: statements such as `( a ( and ( not b ) ) )`, and how two of them are related.

A statement is a set of worlds, those in which it is true. Six variables make 64 worlds, so the set is one number of 64
bits, and truth tables cost a bit operation for each word.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordered_memory.errors import InputError
from ordered_memory.trees import Tree, one_by_one
from ordered_memory.vocabulary import Vocabulary

OPEN, CLOSE = "(", ")"
BRACKETS = (OPEN, CLOSE)
VARIABLES = tuple("abcdef")
OPERATORS = ("and", "or", "not")
WORDS = (*VARIABLES, *OPERATORS)
VOCABULARY = Vocabulary((*BRACKETS, *WORDS))

RELATIONS = tuple("<>=^|#v")
"""Entails, is entailed by, is equivalent to, negates, excludes, is independent of, and covers the rest."""

Worlds = NDArray[np.uint64]

ALL_WORLDS = 2**64 - 1
# Variable k is true in the worlds whose number has bit k.
TRUE_IN = {name: sum(1 << world for world in range(64) if world >> bit & 1) for bit, name in enumerate(VARIABLES)}


def relate(left: Worlds, right: Worlds) -> NDArray[np.int64]:
    """The relation of each pair of statements, as its place in `RELATIONS`."""
    everything = np.uint64(ALL_WORLDS)
    disjoint, complete = (left & right) == 0, (left | right) == everything
    found = np.full(left.shape, RELATIONS.index("#"))
    # Neither side is all worlds or none, so that at most one holds, but for "=" and "^", which come last.
    for relation, holds in (
        ("<", left & ~right == 0),
        (">", right & ~left == 0),
        ("|", disjoint),
        ("v", complete),
        ("=", left == right),
        ("^", disjoint & complete),
    ):
        found[holds] = RELATIONS.index(relation)
    return found


def worlds_of(tokens: Sequence[str], positions: Sequence[int] | None = None) -> int:
    """The worlds in which a statement, with its brackets, is true. What is no statement is refused.

    `positions` tells where each token stands, if not at 1, 2, 3, ...
    """
    # An item of the stack is a set of worlds, an operator with its second argument, or a word. Whatever does not fit
    # together fails on the way, and is then told in words: data files are read at the speed of the right ones.
    stack: list[Any] = []
    try:
        for token in tokens:
            if token != CLOSE:
                stack.append(TRUE_IN.get(token, token))
                continue
            right, left = stack.pop(), stack.pop()
            if stack.pop() != OPEN:
                raise ValueError
            if left == "not":
                stack.append(right ^ ALL_WORLDS)
            elif left == "and" or left == "or":
                stack.append((left, right))
            else:
                operator, other = right
                stack.append(left & other if operator == "and" else left | other)
        (worlds,) = stack
        if isinstance(worlds, int):
            return worlds
    except (IndexError, TypeError, ValueError):
        pass
    raise InputError(_what_is_wrong(tokens, positions or range(1, len(tokens) + 1)))


def _what_is_wrong(tokens: Sequence[str], places: Sequence[int]) -> str:
    """In words, why this is no statement."""
    if not tokens:
        return "the statement is empty"
    kinds: list[tuple[str, int]] = []  # what stands there, and where: a bracket, a word, or a part that was closed
    for index, token in enumerate(tokens):
        if token not in VOCABULARY:
            return f"unknown token {token!r} at token {places[index]}: {VOCABULARY.suggest(token)}"
        if token != CLOSE:
            kinds.append(("statement" if token in VARIABLES else token, index))
            continue
        inside: list[str] = []
        while kinds and kinds[-1][0] != OPEN:
            inside.insert(0, kinds.pop()[0])
        if not kinds:
            return f"unbalanced: {CLOSE} at token {places[index]} closes nothing"
        opened = kinds.pop()[1]
        made = _SHAPES.get(tuple(inside))
        if made is None:
            return (
                f"the brackets at tokens {places[opened]} and {places[index]} hold {' '.join(inside) or 'nothing'}: "
                "a statement is a variable, ( not X ), ( X ( and Y ) ) or ( X ( or Y ) )"
            )
        kinds.append((made, opened))
    for kind, index in kinds:
        if kind == OPEN:
            return f"unbalanced: {OPEN} at token {places[index]} is never closed"
    kind, index = kinds[min(1, len(kinds) - 1)]
    if len(kinds) > 1:
        return f"{tokens[index]!r} at token {places[index]} comes after the end of the statement"
    return f"{' '.join(tokens)} is no statement: that is a variable, ( not X ), ( X ( and Y ) ) or ( X ( or Y ) )"


_SHAPES: dict[tuple[str, ...], str] = {
    ("not", "statement"): "statement",
    ("and", "statement"): "operator with its argument",
    ("or", "statement"): "operator with its argument",
    ("statement", "operator with its argument"): "statement",
}


def count_operations(tokens: Sequence[str]) -> int:
    """How many times and, or and not stand in a statement."""
    return sum(map(tokens.count, OPERATORS))


def tree_of_tokens(tokens: Sequence[str]) -> Tree:
    """The gold tree with the brackets as tokens: what a pair of them holds is taken one by one, `( ( ( X ) Y ) )`.

    The data does not say where a bracket belongs, and several binary trees tell the same story. This is the one that a
    stack builds if it never waits, and ListOps has the same. F1 without brackets does not depend on this choice; it is
    what the released code prints, and so the published figure.
    """
    return Tree(tuple(tokens), one_by_one(tokens, (OPEN,), CLOSE))


def tree_of_words(tokens: Sequence[str]) -> Tree:
    """The gold tree over the words alone, as the brackets show it: each pair holds two items."""
    words: list[str] = []
    spans: list[list[int]] = []
    unclosed: list[list[int]] = []
    for token in tokens:
        if token == OPEN:
            spans.append([len(words), 0])
            unclosed.append(spans[-1])
        elif token == CLOSE:
            unclosed.pop()[1] = len(words)
        else:
            words.append(token)
    return Tree(tuple(words), np.array(spans, dtype=np.int32))
