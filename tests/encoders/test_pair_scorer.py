"""The parser from the bottom up: its choices and their probabilities against all merges, written out slowly."""

import itertools
import math

import numpy as np
import pytest
import torch

from ordered_memory.encoders.pair_scorer import PairScorer
from tests.encoders.enumeration import as_merges, flat_gradient, merge_orders


def scorer_and_leaves(time, rows=1, seed=0):
    torch.manual_seed(seed)
    scorer = PairScorer(3, 4, leaf_lstm=True).double()
    torch.nn.init.normal_(scorer.query)
    return scorer, scorer.leaves(torch.randn(time, rows, 3, dtype=torch.float64))


def slowly(scorer, leaves, choose):
    """One row: the merges, their log-probability and the mean entropy, everything composed anew at each step."""
    nodes, order, total, entropies = list(leaves), [], torch.zeros((), dtype=torch.float64), []
    while len(nodes) > 1:
        parents = [scorer.cell(left, right) for left, right in itertools.pairwise(nodes)]
        logs = torch.stack([parent[:4] @ scorer.query for parent in parents]).log_softmax(0)
        place = choose(logs, len(order))
        total = total + logs[place]
        entropies.append(-(logs.exp() * logs).sum())
        nodes[place : place + 2] = [parents[place]]
        order.append(place)
    return tuple(order), total, sum(entropies) / max(1, len(entropies))


LENGTHS = torch.tensor([5, 1, 7, 2, 7, 3])


class TestMerge:
    def test_the_best_merges_are_those_found_slowly(self):
        for seed in range(5):
            scorer, leaves = scorer_and_leaves(7, len(LENGTHS), seed)
            merges = scorer.merge(leaves, LENGTHS, torch.zeros(len(LENGTHS), dtype=torch.bool))
            rows = [leaves[:length, row] for row, length in enumerate(LENGTHS)]
            expected = as_merges([slowly(scorer, row, lambda logs, _: int(logs.argmax()))[0] for row in rows])
            np.testing.assert_array_equal(merges.left, expected.left)
            np.testing.assert_array_equal(merges.right, expected.right)

    def test_drawn_merges_come_as_often_as_their_probability_says(self):
        scorer, leaves = scorer_and_leaves(4)
        rows = 4000
        merges = scorer.merge(leaves.expand(-1, rows, -1), torch.full((rows,), 4), torch.ones(rows, dtype=torch.bool))
        drawn = np.stack((merges.left, merges.right), -1).transpose(1, 0, 2)
        for order in merge_orders(4):
            one = as_merges([order])
            wanted = np.stack((one.left, one.right), -1)[:, 0]
            share = (drawn == wanted).all((1, 2)).mean()
            chance = scorer.policy(leaves, one).log_probability.exp().item()
            assert abs(share - chance) < 5 * math.sqrt(chance * (1 - chance) / rows)

    def test_only_the_rows_that_are_to_be_drawn_are(self):
        scorer, leaves = scorer_and_leaves(7)
        sample = torch.arange(40) < 20
        merges = scorer.merge(leaves.expand(-1, 40, -1), torch.full((40,), 7), sample)
        ways = {tuple(merges.left[:, row]) for row in range(40)}
        best = {tuple(merges.left[:, row]) for row in range(20, 40)}
        assert len(best) == 1 < len(ways)


class TestPolicy:
    @pytest.mark.parametrize("length", [2, 3, 4, 5])
    def test_probabilities_of_all_merges_add_up_to_one(self, length):
        scorer, leaves = scorer_and_leaves(length)
        merges = as_merges(merge_orders(length))
        policy = scorer.policy(leaves.expand(-1, merges.rows, -1), merges)
        assert policy.log_probability.exp().sum().item() == pytest.approx(1)

    def test_log_probability_entropy_and_gradients_are_those_found_slowly(self):
        scorer, leaves = scorer_and_leaves(7, len(LENGTHS))
        merges = scorer.merge(leaves, LENGTHS, torch.ones(len(LENGTHS), dtype=torch.bool))
        policy = scorer.policy(leaves, merges)
        weights = torch.randn(2, len(LENGTHS), dtype=torch.float64)
        loss = torch.zeros((), dtype=torch.float64)
        for row, length in enumerate(LENGTHS.tolist()):
            order = places(merges, row)
            _, total, entropy = slowly(scorer, leaves[:length, row], lambda _, step, order=order: order[step])
            torch.testing.assert_close(policy.log_probability[row], total)
            torch.testing.assert_close(policy.entropy[row], torch.as_tensor(entropy, dtype=torch.float64))
            loss = loss + weights[0, row] * total + weights[1, row] * entropy
        parameters = list(scorer.parameters())
        expected = flat_gradient(loss, parameters, retain_graph=True)
        found = flat_gradient((weights * torch.stack(policy)).sum(), parameters)
        torch.testing.assert_close(found, expected)

    def test_rows_of_one_token_have_no_choice(self):
        scorer, leaves = scorer_and_leaves(1, 2)
        merges = scorer.merge(leaves, torch.tensor([1, 1]), torch.ones(2, dtype=torch.bool))
        assert torch.stack(scorer.policy(leaves, merges)).abs().sum() == 0


def places(merges, row):
    """The merges of a row as places among its neighbours at that time."""
    nodes, order = list(range(merges.lengths[row])), []
    for step in range(merges.lengths[row] - 1):
        order.append(nodes.index(merges.left[step, row]))
        assert nodes[order[-1] + 1] == merges.right[step, row]
        nodes[order[-1] : order[-1] + 2] = [merges.time + step]
    return order
