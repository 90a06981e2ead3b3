"""Scoring: EVALB's own counts on 240 pairs of trees, and the fast way against a plain one."""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.errors import InputError
from ordered_memory.scoring import Counts, by_bucket, count, count_spans, total
from ordered_memory.trees import Tree, induce_spans, induce_trees, left_branching, random_tree, right_branching


@pytest.fixture(scope="module")
def evalb(shared: Path) -> dict[str, Any]:
    return dict(json.loads((shared / "golden/evalb.json").read_text(encoding="utf-8")))


def pair(example: dict[str, Any]) -> tuple[Tree, Tree]:
    return Tree.from_brackets(example["gold_tree"], "ptb"), Tree.from_brackets(example["predicted_tree"], "ptb")


def plain_count(gold: Tree, predicted: Tree, root: bool) -> Counts:
    """The definition, written the slow way."""
    whole = (0, len(gold))
    wanted, found = (
        [span for span in map(tuple, tree.spans.tolist()) if root or span != whole] for tree in (gold, predicted)
    )
    matched = sum((Counter(wanted) & Counter(found)).values())
    crossing = sum(any(a < c < b < d or c < a < d < b for c, d in wanted) for a, b in found)
    return Counts(1, matched, len(wanted), len(found), matched == len(wanted) == len(found), crossing)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """Two trees over the same tokens, often alike, n-ary or with unary chains."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tokens = ["w"] * draw(st.integers(1, 30))
    base = random_tree(tokens, rng)
    trees = []
    for _ in range(2):
        tree = base if rng.random() < 0.5 else random_tree(tokens, rng)
        spans = [span for span in tree.spans[1:].tolist() for _ in range(rng.choice([0, 1, 1, 2]))]
        trees.append(Tree.from_spans(tokens, [(0, len(tokens)), *map(tuple, spans)]))
    return trees[0], trees[1]


def test_every_pair_counts_as_in_evalb(evalb: dict[str, Any]) -> None:
    assert len(evalb["pairs"]) == 240
    for example in evalb["pairs"]:
        gold, predicted = pair(example)
        counts = count(gold, predicted)
        assert len(gold) == example["len"]
        assert [counts.matched, counts.gold, counts.predicted, counts.crossing] == [
            example[name] for name in ("matched", "gold", "test", "cross")
        ]
        if counts.gold:
            assert round(100 * counts.recall, 2) == example["recall"]
            assert round(100 * counts.precision, 2) == example["precision"]


def test_the_corpus_scores_as_in_evalb(evalb: dict[str, Any]) -> None:
    counts = sum((count(*pair(example)) for example in evalb["pairs"]), Counts())
    summary = evalb["summary"]
    assert counts.sentences == summary["Number of Valid sentence"]
    assert round(100 * counts.recall, 2) == summary["Bracketing Recall"]
    assert round(100 * counts.precision, 2) == summary["Bracketing Precision"]
    assert round(100 * counts.f1, 2) == summary["Bracketing FMeasure"]
    assert round(100 * counts.complete, 2) == summary["Complete match"]


@given(st.lists(pairs(), min_size=1, max_size=6), st.booleans())
def test_many_at_once_count_as_one_by_one(trees: list[tuple[Tree, Tree]], root: bool) -> None:
    golds, predictions = zip(*trees, strict=True)
    lengths = [len(gold) for gold in golds]
    rows = count_spans([tree.spans for tree in golds], [tree.spans for tree in predictions], lengths, root)
    expected = [plain_count(gold, predicted, root) for gold, predicted in trees]
    assert [total(row) for row in rows] == expected
    assert [count(gold, predicted, root) for gold, predicted in trees] == expected
    assert total(rows) == sum(expected)


def test_blocks_of_a_million_tokens_do_not_show() -> None:
    tokens = ["w"] * 700_000
    trees = [left_branching(tokens), right_branching(tokens), left_branching("abc"), right_branching(tokens)]
    lengths = [len(tree) for tree in trees]
    gold = [left_branching(tree.tokens).spans for tree in trees]
    rows = count_spans(gold, [tree.spans for tree in trees], lengths)
    inner = 700_000 - 1
    assert rows.tolist() == [
        [1, inner, inner, inner, 1, 0],
        [1, 1, inner, inner, 0, inner - 1],
        [1, 2, 2, 2, 1, 0],
        [1, 1, inner, inner, 0, inner - 1],
    ]


def test_padded_spans_are_taken_as_they_are() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, 20)
    tokens = [["w"] * length for length in lengths]
    golds, predictions = (rng.integers(0, 4, (20, 11)) for _ in range(2))
    rows = count_spans(induce_spans(golds, lengths, 4), induce_spans(predictions, lengths, 4), lengths)
    trees = zip(induce_trees(tokens, golds, 4), induce_trees(tokens, predictions, 4), strict=True)
    assert [total(row) for row in rows] == [count(gold, predicted) for gold, predicted in trees]


def test_duplicates_count_as_often_as_they_stand_there() -> None:
    gold, predicted = Tree.from_brackets("( ( ( a b ) ) c )"), Tree.from_brackets("( ( ( ( a b ) ) ) c )")
    assert count(gold, predicted) == Counts(sentences=1, matched=3, gold=3, predicted=4, exact=0, crossing=0)


def test_root_left_out() -> None:
    gold, predicted = Tree.from_brackets("( ( a b ) c )"), Tree.from_brackets("( ( a ( b c ) ) )")
    assert count(gold, predicted) == Counts(1, 1, 2, 3, 0, 1)
    assert count(gold, predicted, root=False) == Counts(1, 0, 1, 1, 0, 1)


def test_figures() -> None:
    counts = Counts(sentences=4, matched=3, gold=6, predicted=4, exact=1, crossing=0)
    assert (counts.precision, counts.recall, counts.complete) == (0.75, 0.5, 0.25)
    assert counts.f1 == pytest.approx(2 * 0.75 * 0.5 / 1.25)


def test_nothing_to_score_is_not_a_score() -> None:
    lone = Tree.from_spans(["a"], [])
    counts = count(lone, lone)
    assert counts == Counts(sentences=1, exact=1)
    assert all(map(math.isnan, (counts.precision, counts.recall, counts.f1)))
    assert counts.complete == 1.0
    assert math.isnan(Counts().complete)
    assert Counts(sentences=1, gold=3).f1 == 0.0
    assert math.isnan(Counts(sentences=1, gold=3).precision)


def test_buckets_add_up_their_sentences() -> None:
    golds = [left_branching("ab"), left_branching("abc"), left_branching("abcd")]
    predictions = [left_branching("ab"), right_branching("abc"), left_branching("abcd")]
    rows = count_spans([t.spans for t in golds], [t.spans for t in predictions], [2, 3, 4])
    found = by_bucket(rows, ["short", "long", "short"])
    assert list(found) == ["short", "long"]
    assert found == {"short": Counts(2, 4, 4, 4, 2, 0), "long": Counts(1, 1, 2, 2, 0, 1)}
    assert sum(found.values()) == total(rows)
    with pytest.raises(InputError, match="2 buckets for 3 sentences"):
        by_bucket(rows, ["short", "long"])


def test_no_sentences_are_no_counts() -> None:
    rows = count_spans([], [], [])
    assert total(rows) == Counts()
    assert by_bucket(rows, []) == {}


def test_trees_over_other_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="3 tokens and the predicted tree 2"):
        count(left_branching("abc"), left_branching("ab"))
    with pytest.raises(InputError, match="token 2 is 'b' in the gold tree and 'x'"):
        count(left_branching("abc"), left_branching("axc"))
    with pytest.raises(InputError, match="1 gold sentences, 2 predicted"):
        count_spans([[(0, 2)]], [[(0, 2)], [(0, 2)]], [2])
    with pytest.raises(InputError, match=r"sentence 2: predicted span \(0, 3\) does not lie inside 2 tokens"):
        count_spans([[(0, 2)], [(0, 2)]], [[(0, 2)], [(0, 3)]], [2, 2])


def test_counts_add_only_to_counts() -> None:
    with pytest.raises(TypeError):
        Counts() + 1  # type: ignore[operator]
    with pytest.raises(TypeError):
        1 + Counts()
