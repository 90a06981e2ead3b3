"""Ordered Memory that is shown trees: what its pointer has to choose from, and how far it is from building them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import one_hot

from ordered_memory.config import OrderedMemoryConfig
from ordered_memory.encoders import SharedTrees
from ordered_memory.encoders.choices import choices
from ordered_memory.encoders.ordered_memory import OrderedMemoryEncoder
from ordered_memory.trees import gold_pointers, left_branching, random_tree

SLOTS = 9
SIZE = 6


class Forced(nn.Module):
    """Stands in for the attention: asks it, writes down what it says of the right slot, and points there itself."""

    def __init__(self, attention, targets):
        super().__init__()
        self.attention, self.targets, self.said = attention, list(targets), []

    def forward(self, x, memory, pointer):
        target = self.targets.pop(0)
        self.said.append(self.attention(x, memory, pointer)[0, target].log())
        return one_hot(torch.tensor([target]), pointer.shape[-1]).to(pointer)


def slow_distance(encoder, tree, x, slots):
    """Token by token, by the readable memory, led along the tree: the sum over the tokens, and the root."""
    direction = encoder.memory.directions[0]
    own = direction.attention
    direction.attention = Forced(own, gold_pointers(tree, slots)[1:].tolist())
    *_, last = direction(x, [1] * len(x), None, slots, "soft")
    said, direction.attention = direction.attention.said, own
    return -sum(said), last.M_hat[0, -1]


@pytest.mark.parametrize(("cell", "backend"), [("gated", "native"), ("gated", "readable"), ("tree-rnn", "readable")])
@pytest.mark.parametrize("attention", ["released", "paper"])
@pytest.mark.parametrize(("shared", "full"), [(False, False), (True, False), (True, True)])
def test_it_is_what_a_memory_led_along_the_trees_would_say(attention, cell, backend, shared, full):
    """Also where it has just the slots that they need, so that it is full at times, and one has to be joined."""
    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    trees = [random_tree(["x"] * length, generator) for length in (8, 1, 5, 2, 8, 7, 8)]
    slots = max(tree.slots_needed for tree in trees) if full else SLOTS
    config = OrderedMemoryConfig(
        SIZE, slots, dropout=0.0, attention_dropout=0.0, attention=attention, cell=cell, threshold=0.0
    )
    encoder = OrderedMemoryEncoder(5, config).double()
    encoder.imitates, encoder.memory.backend = True, backend
    lengths = torch.tensor([len(tree) for tree in trees])
    tokens = torch.randint(3, (8, len(trees)))
    table = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    embedded = table[tokens]
    spans = [tree.spans for tree in trees]
    encoding = encoder(embedded, lengths, SharedTrees(spans, tokens) if shared else spans)
    slow = [slow_distance(encoder, tree, embedded[: len(tree), row], slots) for row, tree in enumerate(trees)]
    wanted = sum(sum_of_row for sum_of_row, _ in slow) / int((lengths - 1).sum())
    torch.testing.assert_close(encoding.auxiliary_loss, wanted)
    torch.testing.assert_close(encoding.vector, torch.stack([root for _, root in slow]))
    weights = torch.randn_like(encoding.vector)
    fast, obvious = (
        distance + (roots * weights).sum()
        for distance, roots in (
            (encoding.auxiliary_loss, encoding.vector),
            (wanted, torch.stack([root for _, root in slow])),
        )
    )
    learned = [table, *encoder.parameters()]
    gradients = (torch.autograd.grad(loss, learned, retain_graph=True) for loss in (fast, obvious))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@given(st.lists(st.tuples(st.integers(1, 10), st.integers(0, 2**31)), min_size=1, max_size=5), st.booleans())
def test_the_choices_written_out_are_the_stack_s(rows, shared):
    """As text: what each choice would make, against a stack that shifts and reduces as the tree says."""
    trees = [random_tree(list("abc" * 4)[:length], np.random.default_rng(seed)) for length, seed in rows]
    lengths, spans = [len(tree) for tree in trees], [tree.spans for tree in trees]
    tokens = torch.full((10, len(trees)), 9)
    for row, tree in enumerate(trees):
        tokens[: len(tree), row] = torch.tensor(["abc".index(token) for token in tree.tokens])
    plan = choices(SharedTrees(spans, tokens) if shared else spans, lengths, SLOTS + 1)
    texts = ["abc"[kind] for kind in tokens.flatten()[plan.leaves]]
    for left, right in plan.steps:
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        texts += [f"( {texts[one]} {texts[other]} )" for one, other in pairs]
    if shared:
        assert len(set(texts)) == len(texts)
    assert [texts[root] for root in plan.roots.tolist()] == [tree.to_brackets() for tree in trees]
    found: dict[int, dict[int, tuple[str, str]]] = {}
    for decision, column, candidate, token in zip(
        plan.decisions.tolist(), plan.columns.tolist(), plan.candidates.tolist(), plan.tokens.tolist(), strict=True
    ):
        found.setdefault(decision, {})[column] = texts[candidate], texts[token]
    decision = 0
    for tree in trees:
        stack: list[str] = []
        for place, (token, following) in enumerate(zip(tree.tokens, tree.tokens[1:], strict=False)):
            folded = [token]
            for waiting in stack:
                folded.append(f"( {waiting} {folded[-1]} )")
            assert found[decision] == {number: (text, following) for number, text in enumerate(folded)}
            joined = int(plan.answers[decision])
            assert joined == tree.right_depths[place] + 1 - tree.right_depths[place + 1]
            stack = [folded[joined], *stack[joined:]]
            decision += 1
    assert decision == len(plan.answers)


def test_a_batch_of_single_tokens_has_nothing_to_decide():
    encoder = OrderedMemoryEncoder(5, OrderedMemoryConfig(SIZE, SLOTS))
    encoder.imitates = True
    trees = [left_branching(["x"]).spans] * 2
    encoding = encoder(torch.randn(1, 2, 5), torch.tensor([1, 1]), trees)
    assert encoding.auxiliary_loss == 0
    encoding.auxiliary_loss.backward()


def test_shown_trees_are_learned_by_the_pointer_alone_where_all_else_is_held():
    torch.manual_seed(0)
    encoder = OrderedMemoryEncoder(5, OrderedMemoryConfig(16, SLOTS, dropout=0.0, attention_dropout=0.0))
    encoder.imitates = True
    embedded, lengths = torch.randn(6, 3, 5), torch.tensor([6, 4, 1])
    trees = [random_tree(["x"] * int(length), np.random.default_rng(1)).spans for length in lengths]
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(encoder.is_pointer(name))
    optimiser = torch.optim.Adam(encoder.parameters(), 0.02)
    distances = []
    for _ in range(150):
        loss = encoder(embedded, lengths, trees).auxiliary_loss
        optimiser.zero_grad()
        loss.backward()
        assert all(encoder.is_pointer(name) or parameter.grad is None for name, parameter in encoder.named_parameters())
        optimiser.step()
        distances.append(loss.item())
    assert distances[-1] < 0.1 * distances[0]
    encoder.eval()
    found = encoder.parse(embedded, lengths).spans
    assert all(np.array_equal(one, other) for one, other in zip(found, trees, strict=True))
