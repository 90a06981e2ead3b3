"""Trees: brackets there and back, the paper's algorithm 2 against a literal stack, and shapes with known answers."""

import copy
import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ordered_memory.errors import InputError
from ordered_memory.trees import (
    TRIVIAL,
    Tree,
    balanced,
    binarise,
    escape,
    gold_pointers,
    induce_spans,
    induce_trees,
    left_branching,
    random_tree,
    right_branching,
    unescape,
    without_tokens,
)

LONG = [f"w{index}" for index in range(10_000)]


@st.composite
def binary_trees(draw: st.DrawFn) -> Tree:
    tokens = [f"w{index}" for index in range(draw(st.integers(1, 40)))]
    return random_tree(tokens, np.random.default_rng(draw(st.integers(0, 2**32))))


@st.composite
def any_trees(draw: st.DrawFn) -> Tree:
    """A binary tree with some nodes taken out (n-ary nodes) and some doubled (unary chains), with or without labels."""
    tree = draw(binary_trees())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    spans = [(0, len(tree))] * int(rng.integers(1, 3))
    spans += [span for span in map(tuple, tree.spans[1:].tolist()) for _ in range(rng.choice([0, 1, 1, 2]))]
    spans += [(at, at + 1) for at in range(len(tree)) for _ in range(rng.choice([0, 0, 0, 1, 2]))]
    tokens = rng.choice(["a", "b", "(", ")", "/", "\\", "f**k", "9\u00a01/2", "[MAX", "漢字"], len(tree)).tolist()
    if draw(st.booleans()):
        return Tree.from_spans(tokens, spans)
    labels, leaf_labels = (rng.choice(["S", "NP", "2", "N-1"], len(each)).tolist() for each in (spans, tokens))
    return Tree.from_spans(tokens, spans, labels, leaf_labels)


def literal_algorithm_2(pointers: list[int], num_slots: int) -> list[tuple[int, int]]:
    """The paper's stack, word for word, for one sequence: the span made at each split."""
    made: dict[int, tuple[int, int]] = {}

    def node(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        assert left[1] == right[0]
        made[right[0]] = (left[0], right[1])
        return made[right[0]]

    stack: list[tuple[int, tuple[int, int]]] = []
    heights = [num_slots, *pointers[1:]]
    for position in range(1, len(heights)):
        current = (position - 1, position)
        while stack and stack[-1][0] <= heights[position]:
            current = node(stack.pop()[1], current)
        stack.append((heights[position], current))
    current = (len(heights) - 1, len(heights))
    while stack:
        current = node(stack.pop()[1], current)
    assert current == (0, len(heights))
    return [made[position] for position in range(1, len(heights))]


# ---- the Tree itself


def test_from_spans_sorts_into_preorder_and_keeps_labels_with_their_nodes() -> None:
    tree = Tree.from_spans("abcd", [(2, 4), (0, 2), (0, 4), (0, 4)], labels=["right", "left", "top", "below"])
    assert tree.spans.tolist() == [[0, 4], [0, 4], [0, 2], [2, 4]]
    assert tree.labels == ("top", "below", "left", "right")
    assert tree.spans.dtype == np.int32


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(0, 3), (0, 2), (1, 3)], r"\(1, 3\) crosses span \(0, 2\)"),
        ([(0, 3), (2, 4)], r"\(2, 4\) does not lie inside a sequence of 3"),
        ([(0, 3), (2, 2)], r"\(2, 2\) does not lie inside"),
        ([(0, 2)], r"no root: \(0, 3\)"),
        ([], r"no root: \(0, 3\)"),
        ([0, 3], r"pairs of start and end"),
    ],
)
def test_bad_spans_are_refused(spans: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tree.from_spans("abc", spans)


def test_missing_labels_and_no_tokens_are_refused() -> None:
    with pytest.raises(InputError, match="1 labels for 2 nodes"):
        Tree.from_spans("abc", [(0, 3), (0, 2)], labels=["S"])
    with pytest.raises(InputError, match="2 leaf labels for 3 tokens"):
        Tree.from_spans("abc", [(0, 3)], leaf_labels=["x", "y"])
    for make in (lambda: Tree.from_spans([], []), lambda: left_branching([]), lambda: balanced([])):
        with pytest.raises(InputError, match="at least one token"):
            make()


@given(any_trees())
def test_trees_are_values(tree: Tree) -> None:
    for twin in (copy.deepcopy(tree), pickle.loads(pickle.dumps(tree))):
        assert twin == tree
        assert hash(twin) == hash(tree)
        assert repr(twin) == repr(tree)
        assert not twin.spans.flags.writeable
    assert tree != Tree(("other", *tree.tokens[1:], "more"), tree.spans)


def test_spans_do_not_change_with_the_array_they_came_from() -> None:
    spans = np.array([[0, 2]], dtype=np.int32)
    tree = Tree(("a", "b"), spans)
    spans[0, 1] = 1
    assert tree.spans.tolist() == [[0, 2]]
    with pytest.raises(ValueError, match="read-only"):
        tree.spans[0, 0] = 1


def test_differences_that_equality_must_see() -> None:
    tree = Tree.from_brackets("(S (A a) (B b))", "ptb")
    others = ["(T (A a) (B b))", "(S (A a) (C b))", "(S (A a) (B c))", "(S (S (A a) (B b)))"]
    assert all(tree != Tree.from_brackets(other, "ptb") for other in others)
    assert tree != "(S (A a) (B b))"


@given(any_trees())
def test_children_partition_their_parent(tree: Tree) -> None:
    bounds = tree.spans.tolist()
    for node, ((start, end), children) in enumerate(zip(bounds, tree.children, strict=True)):
        assert all(child < 0 or child > node for child in children)
        parts = [bounds[child] if child >= 0 else [~child, ~child + 1] for child in children]
        assert [parts[0][0], parts[-1][1]] == [start, end]
        assert all(left[1] == right[0] for left, right in pairwise(parts))
    met = [child for children in tree.children for child in children]
    assert sorted(met) == [*range(-len(tree), 0), *range(1, len(bounds))]


@given(any_trees())
def test_depth_and_binary_agree_with_a_walk(tree: Tree) -> None:
    heights = [0] * len(tree.spans)
    for node in reversed(range(len(heights))):
        heights[node] = 1 + max(heights[child] if child >= 0 else 0 for child in tree.children[node])
    assert tree.depth == (heights[0] if heights else 0)
    assert tree.is_binary == all(len(children) == 2 for children in tree.children)


@given(binary_trees())
def test_splits_are_where_the_right_child_begins(tree: Tree) -> None:
    bounds = tree.spans.tolist()
    rights = [children[1] for children in tree.children]
    assert tree.splits.tolist() == [bounds[child][0] if child >= 0 else ~child for child in rights]


def test_only_binary_trees_have_splits() -> None:
    with pytest.raises(InputError, match="binary"):
        _ = Tree.from_brackets("( a b c )").splits
    with pytest.raises(InputError, match="binary"):
        _ = Tree.from_brackets("( ( a ) ( ( b c ) ) )").slots_needed


# ---- brackets


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("a", []),
        ("( a )", [[0, 1]]),
        ("( not a )", [[0, 2]]),
        ("( a ( and b ) )", [[0, 3], [1, 3]]),
        ("( ( [MAX 2 ) 9 )", [[0, 3], [0, 2]]),
        ("( ( ( a ) ) b c )", [[0, 3], [0, 1], [0, 1]]),
    ],
)
def test_plain_brackets(text: str, spans: list[list[int]]) -> None:
    tree = Tree.from_brackets(text)
    assert tree.spans.tolist() == spans
    assert tree.labels is None
    assert tree.leaf_labels is None
    assert tree.to_brackets() == text


def test_ptb_brackets() -> None:
    text = "(S (NP (DT the) (NN cat)) (VP (VBZ -LRB-a\\/b-RRB-)))"
    tree = Tree.from_brackets(text, "ptb")
    assert tree.tokens == ("the", "cat", "(a/b)")
    assert tree.labels == ("S", "NP", "VP")
    assert tree.leaf_labels == ("DT", "NN", "VBZ")
    assert tree.spans.tolist() == [[0, 3], [0, 2], [2, 3]]
    assert tree.to_brackets("ptb") == text
    assert Tree.from_brackets("( (S (A a) (B b)) )", "ptb").labels == ("", "S")
    assert Tree.from_brackets("( a b )").to_brackets("ptb") == "(X (X a) (X b))"


def test_no_break_space_belongs_to_its_token() -> None:
    assert Tree.from_brackets("(2 (2 9\u00a01\\/2) (2 x))", "ptb").tokens == ("9\u00a01/2", "x")
    assert Tree.from_brackets("( 9\u00a01/2\tx )").tokens == ("9\u00a01/2", "x")


@pytest.mark.parametrize(
    ("text", "style", "message"),
    [
        ("", "plain", "empty"),
        (" \n", "ptb", "empty"),
        ("( a b", "plain", r"token 1, '\(': this bracket is never closed"),
        ("( a ( b )", "plain", "token 1, .* never closed"),
        ("( a b ) )", "plain", "token 5, .* more follows"),
        (") a", "plain", "token 1, .* closes nothing"),
        ("( a b ) c", "plain", "token 5, 'c': the tree is complete"),
        ("a b", "plain", "token 2, 'b'"),
        ("( a ( ) )", "plain", "token 3, .* no word inside"),
        ("(NP the cat)", "ptb", "token 3, 'the': a word needs a bracket"),
        ("word", "ptb", "token 1, 'word'"),
        ("(NP (DT the)", "ptb", "token 1, .* never closed"),
        ("(NP (DT the)) (NN cat)", "ptb", "token 8, .* more follows"),
        ("(NP)", "ptb", "token 1, .* no word inside"),
        ("(", "ptb", "token 1, .* never closed"),
        ("a", "lisp", "style must be"),
    ],
)
def test_bad_brackets_name_the_place(text: str, style: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tree.from_brackets(text, style)  # type: ignore[arg-type]


@pytest.mark.parametrize(("token", "style"), [("(", "plain"), ("", "plain"), ("a b", "plain"), ("a\tb", "ptb")])
def test_tokens_that_brackets_cannot_hold_are_refused(token: str, style: str) -> None:
    with pytest.raises(InputError, match="token 2"):
        Tree.from_spans(["a", token], [(0, 2)]).to_brackets(style)  # type: ignore[arg-type]


@pytest.mark.parametrize("label", ["N P", "N(P"])
def test_labels_that_brackets_cannot_hold_are_refused(label: str) -> None:
    with pytest.raises(InputError, match="label"):
        Tree.from_spans("ab", [(0, 2)], labels=[label]).to_brackets("ptb")
    with pytest.raises(InputError, match="leaf label is empty"):
        Tree.from_spans("ab", [(0, 2)], leaf_labels=["", "B"]).to_brackets("ptb")


@given(any_trees())
def test_brackets_there_and_back(tree: Tree) -> None:
    if not set(tree.tokens) & {"(", ")"}:
        assert Tree.from_brackets(tree.to_brackets()) == Tree(tree.tokens, tree.spans)
    labels, leaf_labels = tree.labels or ("X",) * len(tree.spans), tree.leaf_labels or ("X",) * len(tree)
    assert Tree.from_brackets(tree.to_brackets("ptb"), "ptb") == Tree(tree.tokens, tree.spans, labels, leaf_labels)


@given(st.text("()/*\\-a"))
def test_escapes_there_and_back(text: str) -> None:
    assert unescape(escape(text)) == text
    assert not set("()") & set(escape(text))


def test_treebank_lines_there_and_back(shared: Path) -> None:
    lines = (shared / "data/sst/dev.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
    assert len(lines) == 1101
    for line in lines:
        tree = Tree.from_brackets(line, "ptb")
        assert tree.is_binary
        assert tree.to_brackets("ptb") == line


# ---- binarising


@pytest.mark.parametrize(
    ("direction", "expected"),
    [("left", "( ( ( a b ) c ) ( d e ) )"), ("right", "( a ( b ( c ( d e ) ) ) )")],
)
def test_binarise(direction: str, expected: str) -> None:
    tree = Tree.from_brackets("( ( a ) b c ( ( d e ) ) )")
    assert binarise(tree, direction).to_brackets() == expected  # type: ignore[arg-type]


def test_binarise_labels() -> None:
    tree = Tree.from_brackets("(S (NP (A a) (B b) (C c)) (VP (VBZ (D d))))", "ptb")
    assert binarise(tree, "left").to_brackets("ptb") == "(S (NP (@NP (A a) (B b)) (C c)) (D d))"
    chain = Tree.from_brackets("(TOP (S (A a) (B b)))", "ptb")
    assert binarise(chain, "right").to_brackets("ptb") == "(TOP (A a) (B b))"
    with pytest.raises(InputError, match="direction"):
        binarise(tree, "up")  # type: ignore[arg-type]


@given(any_trees(), st.sampled_from(["left", "right"]))
def test_binarise_keeps_what_was_there(tree: Tree, direction: str) -> None:
    made = binarise(tree, direction)  # type: ignore[arg-type]
    assert made.is_binary
    assert made.tokens == tree.tokens
    assert {span for span in map(tuple, tree.spans.tolist()) if span[1] - span[0] > 1} <= set(
        map(tuple, made.spans.tolist())
    )
    assert binarise(made, direction) == made  # type: ignore[arg-type]


# ---- pointers


@given(st.data())
def test_induced_spans_are_those_of_the_literal_stack(data: st.DataObject) -> None:
    num_slots, batch, time = (data.draw(st.integers(1, 6)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 20)))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    pointers = rng.integers(0, num_slots, (batch, time))
    lengths = rng.integers(1, time + 1, batch)
    pointers[np.arange(time) >= lengths[:, None]] = -1  # what stands past the end must not matter
    pointers[:, 0] = 99
    spans = induce_spans(pointers, lengths, num_slots)
    assert spans.shape == (batch, time - 1, 2)
    for row, length in enumerate(lengths.tolist()):
        expected = literal_algorithm_2(pointers[row, :length].tolist(), num_slots)
        assert list(map(tuple, spans[row, : length - 1].tolist())) == expected
        assert not spans[row, length - 1 :].any()


def test_induced_spans_of_more_rows_than_one_block() -> None:
    rng = np.random.default_rng(0)
    pointers, lengths = rng.integers(0, 5, (1100, 9)), rng.integers(1, 10, 1100)
    spans = induce_spans(pointers, lengths, 5)
    for row in (0, 511, 512, 1023, 1024, 1099):
        assert np.array_equal(spans[row : row + 1], induce_spans(pointers[row : row + 1], lengths[row : row + 1], 5))


@given(st.lists(binary_trees(), min_size=1, max_size=5), st.integers(0, 3))
def test_gold_pointers_induce_the_tree_they_came_from(trees: list[Tree], spare: int) -> None:
    num_slots = max(tree.slots_needed for tree in trees) + spare
    pointers = np.zeros((len(trees), max(map(len, trees))), dtype=np.int64)
    for row, tree in enumerate(trees):
        gold = gold_pointers(tree, num_slots)
        assert gold[0] == num_slots
        pointers[row, : len(tree)] = gold
    assert induce_trees([tree.tokens for tree in trees], pointers, num_slots) == trees


@given(binary_trees())
def test_slots_needed_is_tight(tree: Tree) -> None:
    needed = tree.slots_needed
    assert gold_pointers(tree, needed)[1:].min(initial=0) == 0
    with pytest.raises(InputError, match=f"needs {needed} slots"):
        gold_pointers(tree, needed - 1)


def test_slots_needed_of_known_shapes() -> None:
    assert Tree.from_spans(["a"], []).slots_needed == 1
    assert left_branching(LONG).slots_needed == 1
    assert right_branching(LONG).slots_needed == len(LONG) - 1
    assert balanced("abcdefgh").slots_needed == 3


@pytest.mark.parametrize(
    ("pointers", "lengths", "message"),
    [
        ([[0, 3]], [2], "row 0, token 2: there is no slot 3 among 3"),
        ([[0, 1], [0, -1]], [2, 2], "row 1, token 2: there is no slot -1"),
        ([[0, 1]], [3], "row 0 has length 3"),
        ([[0, 1]], [0], "row 0 has length 0"),
        ([[0, 1]], [2, 2], "lengths"),
        ([[0.2, 0.8]], [2], "argmax"),
    ],
)
def test_bad_pointers_are_refused(pointers: list[list[int]], lengths: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        induce_spans(pointers, lengths, 3)


# ---- trivial trees


@pytest.mark.parametrize(
    ("name", "expected"),
    [("left", "( ( ( a b ) c ) d )"), ("right", "( a ( b ( c d ) ) )"), ("balanced", "( ( a b ) ( c d ) )")],
)
def test_trivial_trees(name: str, expected: str) -> None:
    assert TRIVIAL[name]("abcd", np.random.default_rng(0)).to_brackets() == expected


@pytest.mark.parametrize("name", TRIVIAL)
@pytest.mark.parametrize("length", [1, 2, 7, 10_000])
def test_trivial_trees_of_any_length_are_well_formed(name: str, length: int) -> None:
    tree = TRIVIAL[name](LONG[:length], np.random.default_rng(0))
    assert Tree.from_spans(tree.tokens, tree.spans) == tree
    assert tree.is_binary
    assert Tree.from_brackets(tree.to_brackets()) == tree
    assert len(tree.children) == length - 1
    assert binarise(tree, "left") == tree


def test_random_trees_are_seeded_and_uniform_over_the_first_cut() -> None:
    def first_cuts(seed: int) -> NDArray[np.int64]:
        rng = np.random.default_rng(seed)
        return np.bincount([random_tree("abcde", rng).splits[0] for _ in range(4000)], minlength=5)

    counts = first_cuts(3)
    assert np.array_equal(counts, first_cuts(3))
    assert counts[0] == 0
    assert abs(counts[1:] - 1000).max() < 150  # more than five standard deviations


def test_print_shows_the_brackets() -> None:
    assert str(Tree.from_brackets("( a ( b c ) )")) == "( a ( b c ) )"
    assert str(Tree.from_brackets("(S (A a) (B b))", "ptb")) == "(S (A a) (B b))"


class TestWithoutTokens:
    def test_brackets_leave_the_words(self):
        tree = Tree.from_spans(["(", "a", "(", "b", "c", ")", ")"], [(0, 7), (0, 6), (0, 2), (2, 6), (2, 5), (2, 4)])
        assert without_tokens(tree, ("(", ")")) == Tree.from_brackets("( a ( b c ) )")

    def test_nodes_that_vanish_or_repeat_are_gone(self):
        tree = left_branching(["(", "a", ")", ")", "b", ")"])
        assert without_tokens(tree, ("(", ")")) == Tree.from_brackets("( a b )")
        assert without_tokens(tree, ("(", ")", "b")) == Tree(("a",), np.zeros((0, 2)))
        with pytest.raises(InputError, match="at least one token"):
            without_tokens(tree, ("(", ")", "a", "b"))

    @given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
    def test_what_is_left_is_binary_and_has_the_same_nodes(self, dropped, seed):
        tokens = ["-" if drop else str(place) for place, drop in enumerate(dropped)] + ["end"]
        tree = random_tree(tokens, np.random.default_rng(seed))
        left = without_tokens(tree, "-")
        assert left.tokens == tuple(token for token in tokens if token != "-")
        assert left.is_binary
        nodes = {tuple(token for token in tokens[start:end] if token != "-") for start, end in tree.spans}
        assert {left.tokens[start:end] for start, end in left.spans} == {node for node in nodes if len(node) > 1}


def test_bracket_tokens_are_spelt_out_where_a_tree_is_shown():
    tree = left_branching(("(", "a", ")"))
    assert str(tree) == "( ( -LRB- a ) -RRB- )"
    with pytest.raises(InputError, match="str\\(\\), spell it out"):
        tree.to_brackets()
