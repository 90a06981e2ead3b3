"""Merges: levels, spans, and the composition of a whole batch against one node at a time."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ordered_memory.encoders.tree_composition import Merges, compose, root_states
from ordered_memory.encoders.tree_lstm_cell import Leaves, TreeLSTMCell
from ordered_memory.trees import Tree
from tests.encoders.enumeration import as_merges, merge_orders


@st.composite
def orders(draw):
    """Sequences of merges of some rows."""
    lengths = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))
    return [tuple(draw(st.integers(0, left - 2)) for left in range(length, 1, -1)) for length in lengths]


def slowly(cell, leaves, order):
    """One merge after the other, on a list of nodes: all states in the order in which they were made, and spans."""
    nodes = [(leaf, (place, place + 1)) for place, leaf in enumerate(leaves)]
    made = []
    for place in order:
        (left, (start, _)), (right, (_, end)) = nodes[place : place + 2]
        nodes[place : place + 2] = [(cell(left, right), (start, end))]
        made.append(nodes[place])
    return made, nodes[0][0]


class TestCell:
    def test_the_equations(self):
        cell = TreeLSTMCell(3).double()
        h_l, c_l, h_r, c_r = torch.randn(4, 3, dtype=torch.float64)
        i, f_l, f_r, o, u = (cell.linear.weight @ torch.cat((h_l, h_r)) + cell.linear.bias).view(5, 3)
        c = i.sigmoid() * u.tanh() + f_l.sigmoid() * c_l + f_r.sigmoid() * c_r
        expected = torch.cat((o.sigmoid() * c.tanh(), c))
        torch.testing.assert_close(cell(torch.cat((h_l, c_l)), torch.cat((h_r, c_r))), expected)

    def test_forget_gates_start_open(self):
        bias = TreeLSTMCell(50).linear.bias
        assert (bias[50:150] == 1).all()
        assert (torch.cat((bias[:50], bias[150:])).abs() < 0.2).all()

    @pytest.mark.parametrize("lstm", [False, True])
    def test_leaves_know_only_what_came_before(self, lstm):
        leaves = Leaves(3, 4, lstm)
        x = torch.randn(5, 2, 3)
        other = x.clone()
        other[2] = 0.0
        same = (leaves(x) == leaves(other)).all(-1).all(-1)
        assert same.tolist() == [True, True, False, not lstm, not lstm]
        assert leaves(x).shape == (5, 2, 8)


class TestMerges:
    @pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
    def test_all_orders_give_all_binary_trees(self, length):
        tokens = [str(place) for place in range(length)]
        ways = merge_orders(length)
        assert len(ways) == math.factorial(length - 1)
        trees = {Tree(tuple(tokens), spans) for spans in as_merges(ways).spans}
        catalan = math.comb(2 * length - 2, length - 1) // length
        assert len(trees) == catalan
        for tree in trees:
            assert Tree.from_spans(tokens, tree.spans) == tree
            assert tree.is_binary

    @given(orders())
    def test_spans_in_preorder(self, ways):
        for row, spans in enumerate(as_merges(ways).spans):
            made, _ = slowly(lambda *_: None, range(len(ways[row]) + 1), ways[row])
            tokens = [str(place) for place in range(len(ways[row]) + 1)]
            assert Tree(tuple(tokens), spans) == Tree.from_spans(tokens, [span for _, span in made])

    @given(orders())
    def test_each_level_needs_only_those_below(self, ways):
        merges = as_merges(ways)
        known = {node * merges.rows + row for row in range(merges.rows) for node in range(merges.lengths[row])}
        for node, left, right in merges.levels:
            assert known.issuperset([*left, *right])
            assert known.isdisjoint(node)
            known.update(node)
        assert len(known) == sum(2 * merges.lengths - 1)

    def test_a_balanced_batch_takes_few_levels(self):
        assert len(as_merges([(0, 1, 2, 3, 0, 1, 0), (0,)]).levels) == 3

    def test_notes_past_a_rows_end_are_dropped(self):
        left, right = torch.tensor([[0, 0], [4, 7]]), torch.tensor([[1, 1], [2, 9]])
        merges = Merges.from_tensors(left, right, torch.tensor([3, 2]))
        np.testing.assert_array_equal(merges.left, [[0, 0], [4, 0]])
        np.testing.assert_array_equal(merges.right, [[1, 1], [2, 0]])


class TestCompose:
    @settings(max_examples=25)
    @given(orders())
    def test_outputs_and_gradients_are_those_of_one_node_at_a_time(self, ways):
        torch.manual_seed(0)
        cell, merges = TreeLSTMCell(2).double(), as_merges(ways)
        leaves = torch.randn(merges.time, merges.rows, 4, dtype=torch.float64, requires_grad=True)
        states = compose(cell, leaves, merges)
        weights = torch.randn_like(states)
        loss, roots = torch.zeros((), dtype=torch.float64), []
        for row, order in enumerate(ways):
            made, root = slowly(cell, leaves[:, row].unbind(), order)
            roots.append(root)
            for step, (state, _) in enumerate(made):
                torch.testing.assert_close(states[merges.time + step, row], state)
                loss = loss + (state * weights[merges.time + step, row]).sum()
            loss = loss + (leaves[:, row] * weights[: merges.time, row]).sum()
        torch.testing.assert_close(root_states(states, merges), torch.stack(roots))
        inputs = (leaves, *cell.parameters())
        expected = torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)
        # What stands past a row's last merge is nobody's.
        found = torch.autograd.grad((states * weights).sum(), inputs)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)

    def test_nothing_is_kept_where_no_gradient_is_asked_for(self):
        cell, merges = TreeLSTMCell(2), as_merges([(0, 0), (1, 0)])
        with torch.inference_mode():
            assert not compose(cell, torch.randn(3, 2, 4), merges).requires_grad

    def test_frozen_parameters_get_none(self):
        cell, merges = TreeLSTMCell(2), as_merges([(0, 0), (1, 0)])
        cell.linear.weight.requires_grad_(False)
        compose(cell, torch.randn(3, 2, 4), merges).sum().backward()
        assert cell.linear.weight.grad is None
        assert cell.linear.bias.grad.abs().sum() > 0
