"""Statements: truth tables against a slow and obvious version, gold trees, and what is said of what is no statement."""

import contextlib
import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.errors import InputError
from ordered_memory.tasks.propositions import (
    ALL_WORLDS,
    BRACKETS,
    RELATIONS,
    TRUE_IN,
    VARIABLES,
    count_operations,
    relate,
    tree_of_tokens,
    tree_of_words,
    worlds_of,
)
from ordered_memory.trees import Tree, gold_pointers, induce_trees, without_tokens

statements = st.recursive(
    st.sampled_from(VARIABLES),
    lambda inner: st.one_of(
        inner.map("( not {} )".format),
        st.builds("( {} ( {} {} ) )".format, inner, st.sampled_from(["and", "or"]), inner),
    ),
    max_leaves=8,
)


def true_in(text: str, world: dict[str, bool]) -> bool:
    """In the one world, read from the outside in."""
    if text in world:
        return world[text]
    inside = text.split()[1:-1]
    if inside[0] == "not":
        return not true_in(" ".join(inside[1:]), world)
    depth, cut = 0, 0
    for cut, token in enumerate(inside, 1):  # noqa: B007 - where the first item ends
        depth += (token == "(") - (token == ")")
        if depth == 0:
            break
    operator, *rest = inside[cut + 1 : -1]
    first, second = true_in(" ".join(inside[:cut]), world), true_in(" ".join(rest), world)
    return (first and second) if operator == "and" else (first or second)


@given(statements)
def test_truth_tables(text):
    found = worlds_of(text.split())
    for number, values in enumerate(itertools.product([False, True], repeat=len(VARIABLES))):
        world = dict(zip(VARIABLES[::-1], values, strict=True))
        assert found >> number & 1 == true_in(text, world)


@pytest.mark.parametrize(
    ("left", "relation", "right"),
    [
        ("( a ( and b ) )", "<", "a"),
        ("a", ">", "( a ( and b ) )"),
        ("( not ( a ( and b ) ) )", "=", "( ( not a ) ( or ( not b ) ) )"),
        ("a", "^", "( not a )"),
        ("( a ( and b ) )", "|", "( not a )"),
        ("a", "#", "b"),
        ("( a ( or b ) )", "v", "( not a )"),
    ],
)
def test_each_relation(left, relation, right):
    worlds = [np.array([worlds_of(text.split())], dtype=np.uint64) for text in (left, right)]
    assert [RELATIONS[place] for place in relate(*worlds)] == [relation]


@given(st.lists(st.tuples(*[st.integers(1, ALL_WORLDS - 1)] * 2), min_size=1), st.randoms())
def test_relations_by_sets_of_worlds(pairs, random):
    pairs += [(left, random.choice([left, left ^ ALL_WORLDS])) for left, _ in pairs]
    found = relate(*np.array(pairs, dtype=np.uint64).T)
    for (left, right), place in zip(pairs, found, strict=True):
        one, other = ({world for world in range(64) if side >> world & 1} for side in (left, right))
        parts = bool(one & other), bool(one - other), bool(other - one), len(one | other) < 64
        names = {
            (True, False, False, True): "=",
            (True, False, True, True): "<",
            (True, True, False, True): ">",
            (False, True, True, False): "^",
            (False, True, True, True): "|",
            (True, True, True, False): "v",
            (True, True, True, True): "#",
        }
        assert RELATIONS[place] == names[parts]


def test_a_variable_is_true_in_half_of_the_worlds():
    assert [worlds.bit_count() for worlds in TRUE_IN.values()] == [32] * 6
    assert len(set(TRUE_IN.values())) == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the statement is empty"),
        ("g", "unknown token 'g' at token 1: "),
        ("( not g )", "unknown token 'g' at token 3: "),
        ("( not (a ) )", "unknown token '(a' at token 3: put a space before a"),
        ("not", "not is no statement"),
        ("( and b )", "is no statement"),
        ("( a ( and b )", "unbalanced: ( at token 1 is never closed"),
        ("( not a ) )", "unbalanced: ) at token 5 closes nothing"),
        (")", "unbalanced: ) at token 1 closes nothing"),
        ("a b", "'b' at token 2 comes after the end of the statement"),
        ("( )", "the brackets at tokens 1 and 2 hold nothing"),
        ("( a )", "the brackets at tokens 1 and 3 hold statement"),
        ("( a b )", "the brackets at tokens 1 and 4 hold statement statement"),
        ("( a and b )", "the brackets at tokens 1 and 5 hold statement and statement"),
        ("( a ( not b ) )", "the brackets at tokens 1 and 7 hold statement statement"),
        ("( not ( and b ) )", "the brackets at tokens 1 and 7 hold not operator with its argument"),
        ("( a or )", "the brackets at tokens 1 and 4 hold statement or"),
        ("( ( and b ) ( or c ) )", "the brackets at tokens 1 and 10 hold operator with its argument operator"),
    ],
)
def test_what_is_no_statement_is_told(text, message):
    with pytest.raises(InputError) as refused:
        worlds_of(text.split())
    assert message in str(refused.value)


@given(st.lists(st.sampled_from([*BRACKETS, "a", "not", "and", "or", "x"]), max_size=9))
def test_nothing_but_an_input_error(tokens):
    with contextlib.suppress(InputError):
        worlds_of(tokens)
        assert tree_of_words(tokens).is_binary


def test_positions_are_those_given():
    with pytest.raises(InputError, match="unknown token 'x' at token 7"):
        worlds_of(["x"], [7])


def test_the_trees_of_a_statement():
    tokens = ["(", "a", "(", "and", "(", "not", "b", ")", ")", ")"]
    assert tree_of_words(tokens) == Tree.from_brackets("( a ( and ( not b ) ) )")
    spans = [(0, 10), (0, 9), (0, 2), (2, 9), (2, 8), (2, 4), (4, 8), (4, 7), (4, 6)]
    assert tree_of_tokens(tokens) == Tree.from_spans(tokens, spans)


@given(statements)
def test_trees_tell_the_same_with_brackets_and_without(text):
    tokens = text.split()
    whole, words = tree_of_tokens(tokens), tree_of_words(tokens)
    assert whole.is_binary
    assert whole.tokens == tuple(tokens)
    assert words.is_binary
    assert words == Tree.from_brackets(text)
    assert without_tokens(whole, BRACKETS) == words
    slots = whole.slots_needed
    assert induce_trees([tokens], [gold_pointers(whole, slots)], slots) == [whole]


@given(statements)
def test_operations(text):
    assert count_operations(tuple(text.split())) == len(re.findall("and|or|not", text))
