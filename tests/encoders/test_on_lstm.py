"""ON-LSTM: the fused step against its equations, and its trees against the recursion from the top."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.config import ONLSTMConfig
from ordered_memory.encoders import make_encoder
from ordered_memory.encoders.on_lstm import split_spans
from ordered_memory.errors import InputError

LENGTHS = torch.tensor([3, 6, 1, 6, 2])
SIZE, CHUNK = 6, 2


def cumax(z):
    return z.softmax(-1).cumsum(-1)


def slow_row(encoder, x):
    """One row by the equations, one token after the other: the last h, and each token's split point."""
    h = c = torch.zeros(SIZE, dtype=x.dtype)
    split_points = []
    for token in x:
        gates = encoder.input(token) + encoder.recurrent(h)
        chunks = SIZE // CHUNK
        forget, write = cumax(gates[:chunks]), 1 - cumax(gates[chunks : 2 * chunks])
        split_points.append(chunks - forget.sum())
        forget, write = forget.repeat_interleave(CHUNK), write.repeat_interleave(CHUNK)
        f, i, o, proposal = gates[2 * chunks :].view(4, SIZE)
        w = forget * write
        c = (f.sigmoid() * w + (forget - w)) * c + (i.sigmoid() * w + (write - w)) * proposal.tanh()
        h = o.sigmoid() * c.tanh()
    return h, torch.stack(split_points)


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return make_encoder("on-lstm", 5, ONLSTMConfig(hidden_size=SIZE, chunk_size=CHUNK)).double()


def test_it_agrees_with_the_equations_in_outputs_and_gradients(encoder):
    x = torch.randn(6, 5, 5, dtype=torch.float64, requires_grad=True)
    fast, split_points = encoder._read(x, LENGTHS)
    rows = [slow_row(encoder, x[:length, row]) for row, length in enumerate(LENGTHS.tolist())]
    torch.testing.assert_close(fast, torch.stack([h for h, _ in rows]))
    for row, (_, wanted) in enumerate(rows):
        torch.testing.assert_close(split_points[row, : len(wanted)], wanted)
    weights = torch.randn_like(fast)
    parameters = [x, *encoder.parameters()]
    one = torch.autograd.grad((fast * weights).sum(), parameters)
    other = torch.autograd.grad(sum((h * weights[row]).sum() for row, (h, _) in enumerate(rows)), parameters)
    for ours, wanted in zip(one, other, strict=True):
        torch.testing.assert_close(ours, wanted)


def test_the_trees_are_those_of_the_split_points(encoder):
    x = torch.randn(6, 5, 5, dtype=torch.float64)
    for row, length in enumerate(LENGTHS.tolist()):
        _, split_points = slow_row(encoder, x[:length, row])
        wanted = top_down(split_points.tolist(), 0, length)
        assert encoder.parse(x, LENGTHS).spans[row].tolist() == wanted


def test_one_dropout_mask_for_the_whole_sentence():
    """Where it is dropped at one step it is dropped at all: of the recurrent weights whole columns get no gradient."""
    torch.manual_seed(1)
    encoder = make_encoder("on-lstm", 5, ONLSTMConfig(hidden_size=SIZE, chunk_size=CHUNK, dropout=0.5)).double()
    encoder(torch.randn(6, 1, 5, dtype=torch.float64), torch.tensor([6])).vector.sum().backward()
    dropped = (encoder.recurrent.weight.grad == 0).all(0)
    assert 0 < dropped.sum() < SIZE


def top_down(heights, start, end):
    """Spans in preorder: the highest split first, the later one of equals."""
    if end - start < 2:
        return []
    split = max(range(start + 1, end), key=lambda position: (heights[position], position))
    return [[start, end], *top_down(heights, start, split), *top_down(heights, split, end)]


@given(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.5, 2.0, 3.25]), min_size=1, max_size=9), min_size=1, max_size=5))
def test_the_highest_split_comes_first(rows):
    lengths = np.array(list(map(len, rows)))
    heights = np.full((len(rows), lengths.max()), 9.0)  # what lies past a row's end does not matter
    for number, row in enumerate(rows):
        heights[number, : len(row)] = row
    found = split_spans(heights, lengths)
    assert [spans.tolist() for spans in found] == [top_down(row, 0, len(row)) for row in rows]


def test_chunks_must_fit():
    with pytest.raises(InputError, match="chunk_size is 5, and must divide the hidden size, 128"):
        ONLSTMConfig(hidden_size=128, chunk_size=5)
