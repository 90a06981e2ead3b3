"""The gated cell along given trees, by the engine: against PyTorch, node by node, with every gradient."""

import ctypes

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ordered_memory import native
from ordered_memory.memory import GatedRecursiveCell, TreeRNNCell
from ordered_memory.native import engine

CELL_INPUT, CELL_HIDDEN = 0, 1


def parts(size, dtype=torch.float64, dropout=0.0):
    torch.manual_seed(0)
    norm, cell = nn.LayerNorm(size, dtype=dtype), GatedRecursiveCell(size, dropout, dtype=dtype)
    with torch.no_grad():
        for parameter in (*norm.parameters(), *cell.parameters()):
            parameter.add_(0.2 * torch.randn_like(parameter))
    return norm, cell


def some_steps(leaves, sizes, seed=0):
    """Children of nodes from anywhere before their step; many are shared."""
    generator, known, steps = torch.Generator().manual_seed(seed), leaves, []
    for size in sizes:
        steps.append(tuple(torch.randint(known, (size,), generator=generator) for _ in range(2)))
        known += size
    return steps


def mask(n, rate, seed, site, node):
    values = torch.ones(n, dtype=torch.float64)
    numbers = (ctypes.c_uint64(seed), *(ctypes.c_int64(number) for number in (site, node, 0)))
    engine.library().om_drop(ctypes.c_void_p(values.data_ptr()), ctypes.c_int64(n), ctypes.c_double(rate), *numbers)
    return values


def slow(leaves, steps, norm, cell, rate=0.0, seed=0):
    """One node after the other, by the equations; dropout as the engine's hash has it."""
    rows, node = list(leaves), 0
    size = leaves.shape[1]
    for left, right in steps:
        for memory, below in zip(left.tolist(), right.tolist(), strict=True):
            both = torch.cat([rows[below], rows[memory]]) * mask(2 * size, rate, seed, CELL_INPUT, node).to(leaves)
            hidden = cell.inner(both).relu() * mask(4 * size, rate, seed, CELL_HIDDEN, node).to(leaves)
            v, h, c, u = cell.outer(hidden).chunk(4)
            rows.append(norm(v.sigmoid() * rows[below] + h.sigmoid() * rows[memory] + c.sigmoid() * u))
            node += 1
    return torch.stack(rows)


def gradients(table, inputs):
    weights = torch.randn(table.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.autograd.grad((table * weights.to(table)).sum(), inputs, materialize_grads=True)


def assert_agree(leaves, steps, norm, cell, tolerance=None, rate=0.0):
    inputs = [leaves, *norm.parameters(), *cell.parameters()]
    torch.manual_seed(5)
    seed = int(torch.randint(2**62, ())) if rate else 0
    torch.manual_seed(5)
    fast, wanted = native.compose(leaves, steps, norm, cell), slow(leaves, steps, norm, cell, rate, seed)
    torch.testing.assert_close(fast, wanted, rtol=tolerance, atol=tolerance)
    for one, other in zip(gradients(fast, inputs), gradients(wanted, inputs), strict=True):
        scale = other.abs().max().item() + 1e-3
        torch.testing.assert_close(one / scale, other / scale, rtol=tolerance, atol=tolerance)


@given(
    st.integers(1, 19),
    st.integers(1, 5),
    st.lists(st.integers(0, 9), max_size=5),
    st.integers(0, 2**31),
)
def test_nodes_and_gradients_are_those_of_the_equations(size, leaves, sizes, seed):
    norm, cell = parts(size)
    start = torch.randn(leaves, size, dtype=torch.float64, requires_grad=True)
    assert_agree(start, some_steps(leaves, sizes, seed), norm, cell)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_whatever_the_number_of_threads_and_with_dropout(threads, rate):
    norm, cell = parts(12, dropout=rate)
    start = torch.randn(4, 12, dtype=torch.float64, requires_grad=True)
    torch.set_num_threads(threads)
    try:
        assert_agree(start, some_steps(4, (70, 1, 90, 64)), norm, cell, rate=rate)
    finally:
        torch.set_num_threads(1)


def test_single_precision():
    norm, cell = parts(128, torch.float32)
    start = torch.randn(9, 128, requires_grad=True)
    assert_agree(start, some_steps(9, (60, 50)), norm, cell, tolerance=1e-4)


def test_dropout_rests_at_test():
    norm, cell = parts(8, dropout=0.5)
    start, steps = torch.randn(3, 8, dtype=torch.float64), some_steps(3, (4, 4))
    torch.testing.assert_close(native.compose(start, steps, norm, cell.eval()), slow(start, steps, norm, cell))


def test_gates_far_shut_and_far_open_are_numbers():
    norm, cell = parts(6, torch.float32)
    with torch.no_grad():
        cell.outer.bias.copy_(torch.tensor([1e4, -1e4] * 12))
    start = torch.randn(3, 6, requires_grad=True)
    table = native.compose(start, some_steps(3, (5, 5)), norm, cell)
    assert table.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients(table, [start, *cell.parameters()]))


@pytest.mark.parametrize("child", [-1, 5])
def test_children_that_are_not_there_yet_are_refused(child):
    norm, cell = parts(4)
    ahead = [(torch.tensor([0, 1]), torch.tensor([1, 0])), (torch.tensor([child]), torch.tensor([0]))]
    with pytest.raises(ValueError, match="a node's children must come before its step"):
        native.compose(torch.randn(2, 4, dtype=torch.float64), ahead, norm, cell)


def test_there_is_a_composer_for_the_gated_cell_only_and_where_the_engine_computes():
    norm, cell = parts(4)
    assert native.composer(norm, cell) is not None
    assert native.composer(norm, TreeRNNCell(4)) is None
    assert native.composer(norm.to("meta"), cell) is None


def test_a_graph_can_be_gone_through_twice():
    norm, cell = parts(6)
    start = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    table = native.compose(start, some_steps(3, (5, 4)), norm, cell)
    inputs = [start, *norm.parameters(), *cell.parameters()]
    once, again = (torch.autograd.grad((table**2).sum(), inputs, retain_graph=True) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(once, again, strict=True))
    assert once[1].abs().sum() > 0


def test_leaves_of_another_precision_become_that_of_the_weights():
    norm, cell = parts(6)
    start, steps = torch.randn(3, 6), some_steps(3, (5, 4))
    torch.testing.assert_close(native.compose(start, steps, norm, cell), slow(start.double(), steps, norm, cell))


def test_it_has_no_second_derivative():
    norm, cell = parts(4)
    start = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    table = native.compose(start, some_steps(2, (3,)), norm, cell)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(table.sum(), start, create_graph=True)
