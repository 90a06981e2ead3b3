"""Gold trees: the level-by-level batch against a plain recursion, outputs and gradients, for each composition."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.config import TreeCellConfig, TreeLSTMConfig, TreeRNNConfig
from ordered_memory.encoders import make_encoder
from ordered_memory.encoders.shared_trees import SharedTrees, schedule
from ordered_memory.encoders.tree_cell import TreeCellEncoder
from ordered_memory.errors import InputError
from ordered_memory.trees import Tree, balanced, left_branching, random_tree, right_branching

SIZE = 4
CONFIGS = {
    "tree-rnn": TreeRNNConfig(hidden_size=SIZE),
    "tree-lstm": TreeLSTMConfig(hidden_size=SIZE),
    "tree-cell": TreeCellConfig(hidden_size=SIZE),
}


def words(length):
    return tuple(map(str, range(length)))


def recursion(tree, leaf, join):
    """The value of the root, by the definition: Tree's own children, from the leaves up."""
    values = {}
    for node in reversed(range(len(tree.children))):
        left, right = (leaf(~child) if child < 0 else values[child] for child in tree.children[node])
        values[node] = join(left, right)
    return values[0] if values else leaf(0)


def slow_vector(name, encoder, tree, x):
    """One sentence, x: (time, input_size), by the equations."""
    if name == "tree-rnn":
        linear = encoder.cell.linear
        return recursion(
            tree, lambda t: encoder.leaf_map(x[t]), lambda left, right: torch.tanh(linear(torch.cat((left, right))))
        )
    if name == "tree-cell":
        inner, outer, norm = encoder.cell.inner, encoder.cell.outer, encoder.norm

        def join(left, right):
            v, h, c, u = outer(inner(torch.cat((right, left))).relu()).view(4, SIZE)
            return norm(v.sigmoid() * right + h.sigmoid() * left + c.sigmoid() * u)

        return recursion(tree, lambda t: norm(encoder.projection(x[t])), join)

    def join_lstm(left, right):
        i, f_left, f_right, o, u = encoder.cell.linear(torch.cat((left[0], right[0]))).view(5, SIZE)
        c = i.sigmoid() * u.tanh() + f_left.sigmoid() * left[1] + f_right.sigmoid() * right[1]
        return o.sigmoid() * c.tanh(), c

    return recursion(tree, lambda t: (encoder.leaf_map(x[t]), torch.zeros(SIZE, dtype=x.dtype)), join_lstm)[0]


@pytest.mark.parametrize("input_size", [SIZE, 3])
@pytest.mark.parametrize(("name", "native"), [*((name, True) for name in CONFIGS), ("tree-cell", False)])
def test_the_batch_agrees_with_the_recursion_in_outputs_and_gradients(name, native, input_size, monkeypatch):
    if not native:
        monkeypatch.setattr(TreeCellEncoder, "engine", lambda _: None)
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    encoder = make_encoder(name, input_size, CONFIGS[name]).double()
    trees = [random_tree(words(length), generator) for length in (5, 1, 9, 2, 9)]
    trees += [left_branching(words(8)), right_branching(words(7)), balanced(words(6))]
    lengths = torch.tensor([len(tree) for tree in trees])
    x = torch.randn(9, len(trees), input_size, dtype=torch.float64, requires_grad=True)
    fast = encoder(x, lengths, [tree.spans for tree in trees]).vector
    slow = torch.stack([slow_vector(name, encoder, tree, x[:, row]) for row, tree in enumerate(trees)])
    torch.testing.assert_close(fast, slow)
    wanted = [x, *encoder.parameters()]
    weights = torch.randn_like(fast)
    gradients = [torch.autograd.grad((vector * weights).sum(), wanted) for vector in (fast, slow)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def written_out(plan, names):
    """Composition as text: what the schedule would build, given the text of each place in (time * batch)."""
    leaves = [names[place] for place in plan.leaves.tolist()]
    below: list[str] = []
    for level in plan.levels:
        taken = [below[place] for place in level.taken.tolist()]
        pairs = zip(taken[: level.nodes], taken[level.nodes : 2 * level.nodes], strict=True)
        below = [f"( {left} {right} )" for left, right in pairs] + leaves[: level.leaves] + taken[2 * level.nodes :]
        del leaves[: level.leaves]
    assert not leaves
    return [below[place] for place in plan.roots.tolist()]


ROWS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2**31)), min_size=1, max_size=6)


@given(ROWS)
def test_any_trees_are_composed_as_their_brackets_say(rows):
    trees = [random_tree(words(length), np.random.default_rng(seed)) for length, seed in rows]
    plan = schedule([tree.spans for tree in trees], [len(tree) for tree in trees])
    names = [str(place // len(trees)) for place in range(12 * len(trees))]
    assert written_out(plan, names) == [tree.to_brackets() for tree in trees]


@given(ROWS, st.integers(1, 3))
def test_shared_sub_trees_are_composed_once_and_as_their_brackets_say(rows, kinds):
    generators = [np.random.default_rng(seed) for _, seed in rows]
    trees = [
        random_tree([str(kind) for kind in generator.integers(kinds, size=length)], generator)
        for (length, _), generator in zip(rows, generators, strict=True)
    ]
    tokens = np.zeros((12, len(trees)), dtype=np.int64)
    for row, tree in enumerate(trees):
        tokens[: len(tree), row] = [int(token) for token in tree.tokens]
    plan = schedule(
        SharedTrees([tree.spans for tree in trees], torch.from_numpy(tokens)), [len(tree) for tree in trees]
    )
    assert written_out(plan, [str(token) for token in tokens.flatten()]) == [tree.to_brackets() for tree in trees]
    different = {
        Tree(tree.tokens[start:end], tree.spans[inside] - start).to_brackets()
        for tree in trees
        for start, end in tree.spans.tolist()
        for inside in [(tree.spans[:, 0] >= start) & (tree.spans[:, 1] <= end)]
    }
    assert sum(level.nodes for level in plan.levels) == len(different)
    assert len(plan.leaves) == len({token for tree in trees for token in tree.tokens})


@pytest.mark.parametrize("name", CONFIGS)
def test_sharing_changes_neither_outputs_nor_gradients(name):
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    encoder = make_encoder(name, 3, CONFIGS[name]).double()
    trees = [random_tree(words(length), generator) for length in (9, 1, 4, 9, 9, 2)] * 2
    tokens = torch.randint(3, (9, 12), generator=torch.Generator().manual_seed(1))
    embedding = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    lengths, spans = torch.tensor([len(tree) for tree in trees]), [tree.spans for tree in trees]
    weights = torch.randn(12, SIZE, dtype=torch.float64)
    answers = []
    for given_trees in (spans, SharedTrees(spans, tokens)):
        vector = encoder(embedding[tokens], lengths, given_trees).vector
        answers.append((vector, *torch.autograd.grad((vector * weights).sum(), [embedding, *encoder.parameters()])))
    for one, other in zip(*answers, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("make", [left_branching, right_branching])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_very_deep_tree_is_only_longer(name, make):
    """Gradients too: nothing recurses, and the graph is freed level by level."""
    encoder = make_encoder(name, SIZE, CONFIGS[name])
    x = torch.randn(1200, 2, SIZE, requires_grad=True)
    vector = encoder(x, torch.tensor([1200, 2]), [make(words(1200)).spans, make(words(2)).spans]).vector
    (vector * torch.randn(SIZE)).sum().backward()  # a plain sum of what a LayerNorm gives is the same whatever comes in
    assert torch.isfinite(x.grad).all()
    assert x.grad[0, 1].abs().sum() > 0


def test_work_grows_with_the_nodes_only():
    """Each node is composed once, and each leaf is read once, however uneven the depths."""
    trees = [left_branching(words(40)), balanced(words(40)), right_branching(words(3)), left_branching(words(1))]
    plan = schedule([tree.spans for tree in trees], [len(tree) for tree in trees])
    assert sum(level.leaves for level in plan.levels) == len(plan.leaves) == 84
    assert len(plan.levels) == 1 + max(tree.depth for tree in trees)
    assert sum(level.nodes for level in plan.levels) == 80
    assert sum(len(level.taken) for level in plan.levels) == 160  # each child once: nothing is kept


class TestForgetGates:
    def test_they_start_open(self):
        bias = make_encoder("tree-lstm", SIZE, CONFIGS["tree-lstm"]).cell.linear.bias
        assert bias.view(5, SIZE).tolist() == [[0.0] * 4, [1.0] * 4, [1.0] * 4, [0.0] * 4, [0.0] * 4]


class TestRefusal:
    @pytest.mark.parametrize(
        ("trees", "message"),
        [
            (None, "there are no gold trees, and the model reads them"),
            ([left_branching(words(3)).spans], "1 gold trees for 2 rows"),
            ([left_branching(words(3)).spans, left_branching(words(4)).spans], "row 1: .* no binary tree of 3 tokens"),
            ([np.array([[0, 3]]), left_branching(words(3)).spans], "row 0: .*binarise"),
            ([left_branching(words(3)).spans, np.array([[0, 3], [0, 3]])], "row 1: "),
            ([left_branching(words(3)).spans, np.array([[0, 3], [1, 2]])], "row 1: "),
            ([left_branching(words(3)).spans, np.array([[0, 3], [1, 4]])], "row 1: "),
        ],
    )
    def test_what_is_no_binary_tree_of_the_row(self, trees, message):
        with pytest.raises(InputError, match=message):
            schedule(trees, [3, 3])

    def test_the_row_is_counted_past_those_of_one_token(self):
        lone, chain = np.zeros((0, 2), dtype=np.int32), np.array([[0, 3], [0, 3]])
        with pytest.raises(InputError, match="row 2: "):
            schedule([lone, left_branching(words(3)).spans, chain], [1, 3, 3])
