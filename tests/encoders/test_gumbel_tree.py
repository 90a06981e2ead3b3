"""Gumbel Tree-LSTM: forward is exactly a tree, backward exactly the soft choice's, written out slowly."""

import itertools

import pytest
import torch

from ordered_memory.config import GumbelTreeConfig
from ordered_memory.encoders import make_encoder
from ordered_memory.encoders.gumbel_tree import drawn_softly
from ordered_memory.encoders.tree_composition import compose, root_states
from tests.encoders.enumeration import as_merges, flat_gradient, merge_orders

LENGTHS = torch.tensor([4, 1, 6, 2, 5])


def encoder_and_input(lengths=LENGTHS, **config):
    torch.manual_seed(0)
    encoder = make_encoder("gumbel-tree", 3, GumbelTreeConfig(hidden_size=4, **config)).double().train()
    torch.nn.init.normal_(encoder.scorer.query)
    return encoder, torch.randn(int(lengths.max()), len(lengths), 3, dtype=torch.float64)


class Hard(torch.autograd.Function):
    """The largest one is 1, the others are 0; the gradient goes through as if nothing had been done."""

    @staticmethod
    def forward(_, soft):
        return torch.nn.functional.one_hot(soft.argmax(), len(soft)).to(soft)

    @staticmethod
    def backward(_, gradient):
        return gradient


def slowly(encoder, x, noise):
    """One row, one node at a time: where it is merged, and the root."""
    nodes, order = list(encoder.scorer.leaves(x[:, None])[:, 0]), []
    while len(nodes) > 1:
        parents = [encoder.scorer.cell(left, right) for left, right in itertools.pairwise(nodes)]
        scores = torch.stack([parent[: encoder.output_size] @ encoder.scorer.query for parent in parents])
        choice = Hard.apply(((scores + noise[len(order)][: len(parents)]) / encoder.temperature).softmax(0))
        order.append(int(choice.argmax()))
        nodes = [
            sum(choice[place + 1 :]) * nodes[place] + sum(choice[:place]) * nodes[place + 1] + choice[place] * parent
            for place, parent in enumerate(parents)
        ]
    return order, nodes[0][: encoder.output_size]


def hard(soft):
    """What is drawn: 1 for the most probable one, where there is one."""
    return torch.zeros_like(soft).scatter_(0, soft.argmax(0, keepdim=True), 1.0) * (soft > 0)


class TestDrawnSoftly:
    def test_one_of_the_valid_ones_and_nothing_where_none_is(self):
        valid = torch.arange(5)[:, None] < torch.tensor([5, 3, 1, 0])
        for _ in range(20):
            soft = drawn_softly(torch.randn(5, 4), valid, 0.7)
            torch.testing.assert_close(soft.sum(0), torch.tensor([1.0, 1.0, 1.0, 0.0]))
            assert not soft[~valid].any()
            assert hard(soft).sum(0).tolist() == [1, 1, 1, 0]

    def test_choices_come_as_often_as_the_softmax_says_at_any_temperature(self):
        scores = torch.tensor([0.0, 1.0, -1.0, 5.0])[:, None].expand(-1, 20000)
        valid = torch.tensor([True, True, True, False])[:, None].expand(-1, 20000)
        for temperature in (0.5, 2.0):
            share = hard(drawn_softly(scores, valid, temperature)).mean(1)
            chance = torch.cat((scores[:3, 0].softmax(0), torch.zeros(1)))
            assert ((share - chance).abs() <= 5 * (chance * (1 - chance) / 20000).sqrt()).all()


class TestGradient:
    @pytest.mark.parametrize("config", [{}, {"leaf_lstm": False}, {"temperature": 0.3}])
    def test_forward_and_gradient_are_those_of_one_row_at_a_time(self, config):
        encoder, x = encoder_and_input(**config)
        torch.manual_seed(1)
        vector = encoder(x, LENGTHS).vector
        torch.manual_seed(1)
        shapes = [(pairs, len(LENGTHS)) for pairs in range(len(x) - 1, 0, -1)]
        noise = [-torch.empty(shape, dtype=torch.float64).exponential_().log() for shape in shapes]
        rows = [
            slowly(encoder, x[:length, row], [layer[:, row] for layer in noise])[1]
            for row, length in enumerate(LENGTHS.tolist())
        ]
        torch.testing.assert_close(vector, torch.stack(rows))
        weights, parameters = torch.randn_like(vector), list(encoder.parameters())
        found = flat_gradient((weights * vector).sum(), parameters)
        torch.testing.assert_close(found, flat_gradient((weights * torch.stack(rows)).sum(), parameters))
        assert (
            torch.autograd.grad((weights * encoder(x, LENGTHS).vector).sum(), encoder.scorer.query)[0].abs().sum() > 0
        )

    def test_every_pair_is_composed_once_each_way_and_no_layer_composes_all_of_its_pairs(self):
        def composed(length):
            encoder, x = encoder_and_input(torch.tensor([length]))
            counts = []
            encoder.scorer.cell.register_forward_hook(lambda *call: counts.append(call[2].shape[:-1].numel()))
            encoder(x, torch.tensor([length])).vector.sum().backward()
            return sum(counts)

        short, long, longer = map(composed, (10, 20, 40))
        assert longer - long == 2 * (long - short)  # as the tokens, not as their square

    @pytest.mark.parametrize("length", [3, 4, 5])
    def test_what_is_drawn_is_exactly_one_of_all_trees(self, length):
        lengths = torch.full((200,), length)
        encoder, x = encoder_and_input(lengths)
        x = x[:, :1].expand(-1, 200, -1)
        merges = as_merges(merge_orders(length))
        leaves = encoder.scorer.leaves(x[:, :1].expand(-1, merges.rows, -1))
        roots = root_states(compose(encoder.scorer.cell, leaves, merges), merges)[:, :4]
        distance = (encoder(x, lengths).vector[:, None] - roots).abs().amax(-1)
        assert (distance.min(1).values < 1e-12).all()
        assert len(distance.argmin(1).unique()) > 1


class TestTest:
    def test_the_best_tree_is_that_of_a_choice_without_noise(self):
        encoder, x = encoder_and_input()
        parse = encoder.eval().parse(x, LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            order, vector = slowly(encoder, x[:length, row], torch.zeros(6, 6, dtype=torch.float64))
            torch.testing.assert_close(parse.vector[row], vector)
            assert parse.spans[row].tolist() == as_merges([order]).spans[0].tolist()
