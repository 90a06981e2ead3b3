"""The Universal Transformer: its loop, and halting against a slow version that walks each position by itself."""

import pytest
import torch

from ordered_memory.config import UniversalTransformerConfig
from ordered_memory.encoders import make_encoder
from ordered_memory.encoders.joint import sinusoids
from tests.encoders.test_transformer import HEADS, SIZE, pairs_and_rows, slow_block, slow_sequence

LENGTHS = [3, 1, 4, 2]


def make(halting, norm="before", steps=4, **options):
    torch.manual_seed(2)
    config = UniversalTransformerConfig(
        SIZE, steps, HEADS, feed_forward_size=7, norm=norm, halting=halting, **{"ponder_weight": 1.0} | options
    )
    encoder = make_encoder("universal-transformer", 5, config).double().eval()
    if halting:  # far apart, so that positions halt at different steps
        torch.nn.init.normal_(encoder.halting.weight, std=2.0)
    return encoder


def slow_row(encoder, norm, steps, sentence):
    """The vector of one sentence, and each position's ponder cost: N steps plus the remainder."""
    row = slow_sequence(encoder.input, [sentence])
    positions = encoder.config.positions
    places = sinusoids(torch.arange(len(row), dtype=row.dtype), SIZE) if positions == "sinusoids" else 0.0
    waves = sinusoids(torch.arange(steps, dtype=row.dtype), SIZE)
    probabilities = [[] for _ in row]
    states = [[] for _ in row]
    halted = [False] * len(row)
    for step in range(steps):
        new = slow_block(encoder.block, row + places + waves[step], norm, positions)
        row = torch.stack([old if stop else fresh for stop, old, fresh in zip(halted, row, new, strict=True)])
        for position in range(len(row)):
            if encoder.halting is None or halted[position]:
                continue
            states[position].append(row[position])
            probabilities[position].append(encoder.halting(row[position]).sigmoid()[0])
            halted[position] = float(sum(probabilities[position]).detach()) >= 1 - encoder.config.halting_epsilon
    if encoder.halting is None:
        return encoder.last_norm(row[-1]), None
    costs = [len(chain) + 1 - sum(chain[:-1]) for chain in probabilities]
    weights = [*probabilities[-1][:-1], 1 - sum(probabilities[-1][:-1])]
    average = sum(weight * state for weight, state in zip(weights, states[-1], strict=True))
    return encoder.last_norm(average), costs


@pytest.mark.parametrize("norm", ["before", "after"])
@pytest.mark.parametrize("halting", [False, True])
@pytest.mark.parametrize("options", [{}, {"positions": "distances"}], ids=["sinusoids", "distances"])
def test_it_agrees_with_the_slow_version_in_outputs_and_gradients(options, halting, norm):
    encoder = make(halting, norm, **options)
    x, lengths = pairs_and_rows(LENGTHS)
    rows = [slow_row(encoder, norm, 4, x[:length, row]) for row, length in enumerate(LENGTHS)]
    encoding = encoder(x, lengths)
    slow = torch.stack([vector for vector, _ in rows])
    torch.testing.assert_close(encoding.vector, slow)
    weights = torch.randn_like(slow)
    fast_loss, slow_loss = (encoding.vector * weights).sum(), (slow * weights).sum()
    if halting:
        costs = torch.stack([torch.as_tensor(cost, dtype=x.dtype) for _, costs in rows for cost in costs])
        torch.testing.assert_close(encoding.auxiliary_loss, costs.mean())
        assert len({int(cost) for cost in costs.detach()}) > 1  # some stop sooner than others
        fast_loss, slow_loss = fast_loss + encoding.auxiliary_loss, slow_loss + costs.mean()
    else:
        assert encoding.auxiliary_loss is None
    parameters = [x, *encoder.parameters()]
    gradients = [torch.autograd.grad(loss, parameters, materialize_grads=True) for loss in (fast_loss, slow_loss)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_no_position_takes_a_step_after_all_have_halted():
    x, lengths = pairs_and_rows(LENGTHS)
    encoder = make(halting=True, steps=50, halting_bias=9.0)
    torch.nn.init.zeros_(encoder.halting.weight)
    calls = []
    encoder.block.register_forward_hook(lambda *_: calls.append(1))
    encoding = encoder(x, lengths)
    assert len(calls) == 1
    assert float(encoding.auxiliary_loss.detach()) == 2.0  # one step, and all of it the remainder


def test_the_last_step_takes_what_is_left():
    x, lengths = pairs_and_rows(LENGTHS)
    encoder = make(halting=True, steps=3, halting_bias=-20.0)
    torch.nn.init.zeros_(encoder.halting.weight)
    last = make(halting=False, steps=3)
    last.load_state_dict(encoder.state_dict(), strict=False)
    torch.testing.assert_close(encoder(x, lengths).vector, last(x, lengths).vector, rtol=1e-6, atol=1e-6)


def test_pairs_are_read_as_one():
    config = UniversalTransformerConfig(SIZE, 2, HEADS, feed_forward_size=7)
    encoder = make_encoder("universal-transformer", 5, config, sentences=2).double()
    x, lengths = pairs_and_rows(LENGTHS)
    assert encoder(x, lengths).vector.shape == (2, SIZE)
