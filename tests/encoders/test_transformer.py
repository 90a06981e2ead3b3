"""The Transformer: the joint sequence, the block against its equations, and that padding and order do not matter."""

import pytest
import torch

from ordered_memory.config import TransformerConfig
from ordered_memory.encoders import make_encoder
from ordered_memory.encoders.joint import JointInput, sinusoids
from ordered_memory.errors import InputError

SIZE, HEADS = 8, 4


def config(norm="before", positions="sinusoids"):
    return TransformerConfig(SIZE, num_layers=2, num_heads=HEADS, feed_forward_size=7, norm=norm, positions=positions)


def slow_sequence(joint, sentences):
    """`<start> first <delim> second <extract>`, one after the other; sentences: (time, input_size) each."""
    special = iter(joint.special)
    parts = [next(special)[None]]
    for number, sentence in enumerate(sentences):
        parts += [next(special)[None]] if number else []
        parts.append(joint.norm(joint.projection(sentence)))
    return torch.cat([*parts, next(special)[None]])


def slow_block(block, x, norm, positions="sinusoids"):
    """One row (time, size), head by head and position by position. Sinusoids were added before."""

    def scores(query, key, head, position):
        made = key @ query / (SIZE // HEADS) ** 0.5
        if positions == "sinusoids":
            return made
        places = torch.arange(len(key))
        looks_left, reach = head < HEADS // 2, 2.0 ** -(1 + 2 * (head % (HEADS // 2)))
        seen = places <= position if looks_left else places >= position
        return torch.where(seen, made - reach * (places - position).abs(), -torch.inf)

    def attend(x):
        query, key, value = (part.view(-1, HEADS, SIZE // HEADS) for part in block.query_key_value(x).chunk(3, -1))
        mixed = [
            torch.cat(
                [
                    scores(query[position, head], key[:, head], head, position).softmax(0) @ value[:, head]
                    for head in range(HEADS)
                ]
            )
            for position in range(len(x))
        ]
        return block.output(torch.stack(mixed))

    def feed_forward(x):
        return block.outer(block.inner(x).relu())

    if norm == "before":
        x = x + attend(block.attention_norm(x))
        return x + feed_forward(block.feed_forward_norm(x))
    x = block.attention_norm(x + attend(x))
    return block.feed_forward_norm(x + feed_forward(x))


def pairs_and_rows(lengths):
    torch.manual_seed(0)
    x = torch.randn(max(lengths), len(lengths), 5, dtype=torch.float64, requires_grad=True)
    return x, torch.tensor(lengths)


@pytest.mark.parametrize("norm", ["before", "after"])
@pytest.mark.parametrize("positions", ["sinusoids", "distances"])
@pytest.mark.parametrize("sentences", [1, 2])
def test_it_agrees_with_the_equations_in_outputs_and_gradients(sentences, positions, norm):
    x, lengths = pairs_and_rows([3, 1, 4, 2, 5, 1])
    encoder = make_encoder("transformer", 5, config(norm, positions), sentences).double().eval()
    fast = encoder(x, lengths).vector
    examples = 6 // sentences
    slow = []
    for example in range(examples):
        rows = [example + number * examples for number in range(sentences)]
        row = slow_sequence(encoder.input, [x[: lengths[row], row] for row in rows])
        if positions == "sinusoids":
            row = row + sinusoids(torch.arange(len(row), dtype=x.dtype), SIZE)
        for block in encoder.blocks:
            row = slow_block(block, row, norm, positions)
        slow.append(encoder.last_norm(row)[-1])
    assert fast.shape == (examples, encoder.output_size)
    torch.testing.assert_close(fast, torch.stack(slow))
    weights = torch.randn_like(fast)
    parameters = [x, *encoder.parameters()]
    gradients = [
        torch.autograd.grad((vector * weights).sum(), parameters, materialize_grads=True)
        for vector in (fast, torch.stack(slow))
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_the_places_of_a_pair():
    """Two pairs of 2+1 and 1+3 tokens; token t of row r is 4 t + r, and 12, 13, 14 are the special vectors."""
    order, lengths = JointInput(5, 6, sentences=2).order(3, torch.tensor([2, 1, 1, 3]))
    assert lengths.tolist() == [6, 7]
    assert order[0, :6].tolist() == [12, 0, 4, 13, 2, 14]
    assert order[1].tolist() == [12, 1, 13, 3, 7, 11, 14]


def test_sinusoids_tell_positions_apart_and_are_rotations():
    waves = sinusoids(torch.arange(200, dtype=torch.float64), 8)
    assert waves[0].tolist() == [0.0] * 4 + [1.0] * 4
    torch.testing.assert_close(waves.square().sum(-1), torch.full((200,), 4.0, dtype=torch.float64))
    assert torch.pdist(waves).min() > 0.1
    assert sinusoids(torch.arange(3.0), 7).shape == (3, 7)
    torch.testing.assert_close(waves[1, 3], torch.tensor(1e-4, dtype=torch.float64).sin())


@pytest.mark.parametrize("positions", ["sinusoids", "distances"])
def test_order_matters(positions):
    x, lengths = pairs_and_rows([4, 4])
    encoder = make_encoder("transformer", 5, config(positions=positions)).double().eval()
    one, other = encoder(x, lengths).vector, encoder(x.flip(0), lengths).vector
    assert (one - other).abs().max() > 1e-3


def test_heads_must_fit():
    with pytest.raises(InputError, match="num_heads is 3, and must divide the hidden size, 128"):
        TransformerConfig(num_heads=3)
    with pytest.raises(InputError, match="num_heads is 1, and with positions told by distances it must be an even"):
        TransformerConfig(num_heads=1, positions="distances")
