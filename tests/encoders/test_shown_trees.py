"""Ordered Memory that is shown trees: how far its pointers are from those that build them."""

import math

import numpy as np
import pytest
import torch

from ordered_memory.config import OrderedMemoryConfig
from ordered_memory.encoders.ordered_memory import OrderedMemoryEncoder, distance_from_trees
from ordered_memory.trees import gold_pointers, left_branching, random_tree, right_branching

SLOTS = 7


def pointers_of(trees, time: int) -> torch.Tensor:
    """(time, batch, slots): all weight on the slots that build the trees."""
    pointers = torch.zeros(time, len(trees), SLOTS)
    for row, tree in enumerate(trees):
        for token, slot in enumerate(gold_pointers(tree, SLOTS)[1:], 1):
            pointers[token, row, slot] = 1
    return pointers


def test_the_pointers_that_build_the_trees_are_no_way_off():
    generator = np.random.default_rng(0)
    trees = [random_tree(["x"] * length, generator) for length in (6, 1, 3, 2, 6, 5)]
    lengths = torch.tensor([len(tree) for tree in trees])
    pointers = pointers_of(trees, 6)
    spans = [tree.spans for tree in trees]
    assert distance_from_trees(pointers, lengths, spans) == 0
    even = torch.full_like(pointers, 1 / SLOTS)
    assert distance_from_trees(even, lengths, spans) == pytest.approx(math.log(SLOTS))


def test_each_token_counts_and_padding_does_not():
    left, right = left_branching(["x"] * 3), right_branching(["x"] * 4)
    lengths = torch.tensor([3, 4])
    pointers = pointers_of([left, right], 4)
    pointers[3, 0] = 0.0  # beyond the row's end
    pointers[2, 1] *= 0.5
    distance = distance_from_trees(pointers, lengths, [left.spans, right.spans])
    assert distance == pytest.approx(math.log(2) / 5)  # of two and three tokens


def test_a_slot_out_of_reach_is_far_off_and_not_infinitely():
    tree = left_branching(["x", "y"])
    pointers = torch.zeros(2, 1, SLOTS, requires_grad=True)
    distance = distance_from_trees(pointers, torch.tensor([2]), [tree.spans])
    distance.backward()
    assert 5 < distance.item() < 20
    assert torch.isfinite(pointers.grad).all()


def test_a_tree_deeper_than_the_memory_fills_it():
    deep = right_branching(["x"] * 12)
    pointers = torch.zeros(12, 1, SLOTS)
    pointers[torch.arange(1, 12), 0, (SLOTS - torch.arange(1, 12)).clamp_min(0)] = 1
    assert distance_from_trees(pointers, torch.tensor([12]), [deep.spans]) == 0


def test_shown_trees_are_learned_and_leave_the_vector_as_it_is():
    torch.manual_seed(0)
    encoder = OrderedMemoryEncoder(5, OrderedMemoryConfig(16, SLOTS, dropout=0.0, attention_dropout=0.0))
    encoder.imitates = True
    embedded, lengths = torch.randn(6, 3, 5), torch.tensor([6, 4, 1])
    trees = [random_tree(["x"] * int(length), np.random.default_rng(1)).spans for length in lengths]
    assert torch.allclose(encoder(embedded, lengths, trees).vector, encoder(embedded, lengths).vector, atol=1e-5)
    optimiser = torch.optim.Adam(encoder.parameters(), 0.02)
    distances = []
    for _ in range(150):
        loss = encoder(embedded, lengths, trees).auxiliary_loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        distances.append(loss.item())
    assert distances[-1] < 0.1 * distances[0]
    encoder.eval()
    found = encoder.parse(embedded, lengths).spans
    assert all(np.array_equal(one, other) for one, other in zip(found, trees, strict=True))
