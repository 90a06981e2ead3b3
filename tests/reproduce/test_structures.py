"""Structures of induced trees: each by an example, and by a search through all trees of small statements."""

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.classifier import Classifier
from ordered_memory.config import LSTMConfig, OrderedMemoryConfig
from ordered_memory.errors import InputError
from ordered_memory.reproduce.structures import STRUCTURES, Found, find_structures, main, structure
from ordered_memory.tasks.logic import Logic, LogicConfig
from ordered_memory.tasks.propositions import BRACKETS, RELATIONS, VOCABULARY, tree_of_tokens, tree_of_words
from ordered_memory.trees import Tree, left_branching, right_branching, without_tokens

from .conftest import Demo


@st.composite
def statements(draw: st.DrawFn, depth: int = 3) -> str:
    """Text with brackets."""
    kind = draw(st.sampled_from(["variable", "not", "and", "or"])) if depth else "variable"
    if kind == "variable":
        return draw(st.sampled_from("abcdef"))
    inside = draw(statements(depth - 1))
    return f"( not {inside} )" if kind == "not" else f"( {inside} ( {kind} {draw(statements(depth - 1))} ) )"


def left_attached(text: str) -> str:
    """The same statement with each operator joined to its left argument; written apart from the code under test."""
    words, places = text.split(), iter(range(10_000))
    place = next(places)

    def read() -> str:
        nonlocal place
        word = words[place]
        place = next(places)
        if word != "(":
            return word
        first = read()
        if first == "not":
            made = f"( not {read()} )"
        else:
            assert words[place] == "("
            place = next(places)
            operator, second = read(), read()
            made = f"( ( {first} {operator} ) {second} )"
            place = next(places)
        place = next(places)
        return made

    return read()


def gold_of(text: str) -> Tree:
    return tree_of_words(text.split())


@pytest.mark.parametrize(
    ("statement", "induced", "kind"),
    [
        ("( a ( and b ) )", "( a ( and b ) )", "gold"),
        ("( a ( and b ) )", "( ( a and ) b )", "left"),
        ("( not a )", "( not a )", "gold"),
        ("( ( not a ) ( or b ) )", "( ( ( not a ) or ) b )", "left"),
        ("( ( a ( and b ) ) ( or c ) )", "( ( ( a and ) b ) ( or c ) )", "mixed"),
        ("( a ( and ( b ( or c ) ) ) )", "( ( a and ) ( b ( or c ) ) )", "mixed"),
        ("( not ( a ( and b ) ) )", "( ( not ( a and ) ) b )", "composed"),
        ("( a ( and ( not b ) ) )", "( ( ( a and ) not ) b )", "composed"),
        ("( a ( and ( b ( or c ) ) ) )", "( ( a and ) b ) ( or c )", "other"),
        ("( not ( a ( and b ) ) )", "( ( not a ) ( and b ) )", "other"),
        ("( ( a ( and b ) ) ( or c ) )", "( a ( and ( b ( or c ) ) ) )", "other"),
    ],
)
def test_each_structure(statement: str, induced: str, kind: str) -> None:
    text = induced if induced.count("(") == len(gold_of(statement)) - 1 else f"( {induced} )"
    assert structure(gold_of(statement), Tree.from_brackets(text)) == kind


@given(statements())
def test_gold_and_left_are_known_for_any_statement(text: str) -> None:
    gold = gold_of(text)
    assert structure(gold, gold) == "gold"
    joined = "and" in text or "or" in text
    other = Tree.from_brackets(left_attached(text)) if len(gold) > 1 else gold
    assert structure(gold, other) == ("left" if joined else "gold")


@given(statements())
def test_brackets_leave_the_gold_tree_of_words(text: str) -> None:
    assert without_tokens(tree_of_tokens(text.split()), BRACKETS) == gold_of(text)


@cache
def all_trees(start: int, end: int) -> list[frozenset[tuple[int, int]]]:
    """The spans of every binary tree."""
    if end - start == 1:
        return [frozenset()]
    return [
        left | right | {(start, end)}
        for middle in range(start + 1, end)
        for left in all_trees(start, middle)
        for right in all_trees(middle, end)
    ]


def kinds_of_all_trees(text: str) -> Counter[str]:
    gold = gold_of(text)
    return Counter(structure(gold, Tree.from_spans(gold.tokens, sorted(spans))) for spans in all_trees(0, len(gold)))


def test_the_structures_of_all_trees_of_a_statement() -> None:
    # a and not b: ( a and ) not, and twice an operator `and not`.
    assert kinds_of_all_trees("( a ( and ( not b ) ) )") == {"gold": 1, "left": 1, "composed": 3}
    # not ( a or b ): `not ( a or`, and twice a cut through the argument, `not a`.
    assert kinds_of_all_trees("( not ( a ( or b ) ) )") == {"gold": 1, "left": 1, "composed": 1, "other": 2}
    # ( a and b ) or c has four trees in which `a and b` is a node: each operator goes left or right.
    kinds = kinds_of_all_trees("( ( a ( and b ) ) ( or c ) )")
    assert (kinds["gold"], kinds["left"], kinds["mixed"], kinds.total()) == (1, 1, 2, 14)


def test_trees_of_two_statements_are_refused() -> None:
    with pytest.raises(InputError, match="two trees of one statement"):
        structure(gold_of("( a ( and b ) )"), gold_of("( a ( or b ) )"))


def test_statements_without_a_choice_are_not_counted() -> None:
    found = Found()
    found.add(gold_of("( not a )"), gold_of("( not a )"))
    assert not found.counts
    words = ("a", "and", "b")
    found.add(gold_of("( a ( and b ) )"), left_branching(words))
    found.add(gold_of("( a ( and b ) )"), right_branching(words))
    found.add(gold_of("( a ( and b ) )"), right_branching(words))
    assert found.counts == {"left": 1, "gold": 2}
    assert found.first["left"] == left_branching(words)
    assert [line.split() for line in found.lines()][:2] == [["gold", "2", "66.7%"], ["left", "1", "33.3%"]]


def test_every_statement_with_a_choice_is_counted_once() -> None:
    model = Classifier(VOCABULARY, RELATIONS, "ordered-memory", OrderedMemoryConfig(8, 4), task="logic", sentences=2)
    pairs = Logic(LogicConfig(pairs=300, source="generated")).splits()["test"]
    found = find_structures(model, pairs)
    expected = sum("and" in words or "or" in words for example in pairs for words in example.sentences)
    assert found.counts.total() == expected > 0
    assert set(found.first) == set(found.counts) <= set(STRUCTURES)


def test_a_model_without_trees_is_refused() -> None:
    model = Classifier(VOCABULARY, RELATIONS, "lstm", LSTMConfig(8), task="logic", sentences=2)
    pairs = Logic(LogicConfig(pairs=300, source="generated")).splits()["test"]
    with pytest.raises(InputError, match="lstm induces no trees"):
        find_structures(model, pairs)


def test_the_program_counts_and_draws(logic_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(logic_runs / "ordered-memory", count=20)
    said = capsys.readouterr().out
    counts = [int(line.split()[1]) for line in said.splitlines()[: len(STRUCTURES)]]
    assert 20 < sum(counts) <= 2 * 20, "two statements of each pair, nearly all with an operator"
    assert "╭" in said
    main(logic_runs / "ordered-memory", count=20, svg=tmp_path / "trees.svg")
    drawn = sum(count > 0 for count in counts)
    assert (tmp_path / "trees.svg").read_text().count("<svg") == 1 + drawn
    assert "╭" not in capsys.readouterr().out


def test_the_program_refuses_other_runs(demo: Demo, logic_runs: Path) -> None:
    with pytest.raises(InputError, match="its task is 'listops'"):
        main(demo.folder / "ordered-memory")
    with pytest.raises(InputError, match="--count is 0"):
        main(logic_runs / "ordered-memory", count=0)
