"""The gated cell along given trees, by the engine: a table of nodes that fills up step by step."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ordered_memory.native import engine
from ordered_memory.native.operator import NO_SECOND_DERIVATIVE, supports

Steps = Sequence[tuple[Tensor, Tensor]]
"""Of each step the left and the right children of its nodes, which are numbered on in this order from the leaves."""
Composer = Callable[[Tensor, Steps], Tensor]
"""Leaves, and what is joined, to all nodes."""

_SIZES = ("D", "leaves", "nodes", "steps")
_INDICES = ("ends", "below", "memory")
_ARRAYS = ("parameters", "table", "hidden", "gates", "moments", "grad_table", "grad_parameters")


class Composition(ctypes.Structure):
    """The twin of ``Composition`` in composition.h, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in _SIZES),
        *((name, ctypes.c_void_p) for name in _INDICES),
        ("threads", ctypes.c_int64),
        ("dropout", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in _ARRAYS),
    )


def compose(leaves: Tensor, steps: Steps, norm: nn.LayerNorm, cell: Any) -> Tensor:
    """Leaves and nodes, (leaves + nodes, D); ``cell`` is a ``GatedRecursiveCell``, and ``norm`` follows it.

    The right child, which came last, is the candidate below; the left one is the sub-tree that waits in memory.
    """
    rate = cell.dropout.p if cell.dropout.training else 0.0
    seed = int(torch.randint(2**62, ())) if rate else 0
    parts = (*norm.parameters(), *cell.inner.parameters(), *cell.outer.parameters())
    with torch.autocast("cpu", enabled=False):
        parameters = torch.cat([part.flatten() for part in parts])
    table: Tensor = _Compose.apply(leaves.to(parameters.dtype), parameters, steps, rate, seed)  # type: ignore[no-untyped-call]
    return table


class _Compose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaves: Tensor, parameters: Tensor, steps: Steps, rate: float, seed: int) -> Tensor:
        ctx.indices = _indices(steps, len(leaves))
        nodes, size = len(ctx.indices[1]), leaves.shape[-1]
        table = leaves.new_empty(len(leaves) + nodes, size)
        table[: len(leaves)] = leaves
        kept: list[Tensor] = []
        if any(ctx.needs_input_grad):
            kept = [table.new_empty(nodes, width) for width in (4 * size, 4 * size, 2)]
        ctx.leaves, ctx.rates = len(leaves), (rate, seed)
        ctx.save_for_backward(parameters, table, *kept)
        if nodes:
            _call("compose", ctx, [parameters, table, *kept])
        return table

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # a graph of this is asked for
            raise RuntimeError(NO_SECOND_DERIVATIVE)
        parameters, table, hidden, gates, moments = ctx.saved_tensors
        grad_table = gradient.clone(memory_format=torch.contiguous_format)
        grad_parameters = torch.zeros_like(parameters)
        if len(gates):
            # The engine writes over gates, and the graph may be gone through once more.
            kept = [parameters, table, hidden, gates.clone(), moments]
            _call("compose_backward", ctx, [*kept, grad_table, grad_parameters])
        return grad_table[: ctx.leaves], grad_parameters, None, None, None


def _indices(steps: Steps, leaves: int) -> list[Tensor]:
    """Where each step ends, and the children of all nodes, which the engine takes for granted."""
    ends = torch.tensor([len(left) for left, _ in steps], dtype=torch.int64).cumsum(0)
    none = torch.zeros(0, dtype=torch.int64)
    left, right = (torch.cat([none, *(step[side] for step in steps)]) for side in (0, 1))
    begins = leaves + torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])[: len(steps)]
    known = begins.repeat_interleave(ends.diff(prepend=ends.new_zeros(1)))
    for side in (left, right):
        if len(side) != len(known) or (side < 0).any() or (side >= known).any():
            raise ValueError("a node's children must come before its step")
    return [ends, right, left]


def _call(name: str, ctx: Any, tensors: list[Tensor]) -> None:
    table, (ends, below, _) = tensors[1], ctx.indices
    call = Composition(D=table.shape[1], leaves=ctx.leaves, nodes=len(below), steps=len(ends))
    call.threads, (call.dropout, call.seed) = torch.get_num_threads(), ctx.rates
    pointed = (*zip(_INDICES, ctx.indices, strict=True), *zip(_ARRAYS, tensors, strict=False))
    for field, tensor in pointed:
        setattr(call, field, tensor.data_ptr())
    engine.run(name, table.dtype, call)


def composer(norm: nn.LayerNorm, cell: nn.Module, required: bool = False) -> Composer | None:
    """``compose`` by these parts; none where the engine does not know the cell, or cannot be used."""
    from ordered_memory.memory import GatedRecursiveCell  # which imports this package

    if not isinstance(cell, GatedRecursiveCell) or not supports(norm.weight.device, norm.weight.dtype, required):
        return None
    return functools.partial(compose, norm=norm, cell=cell)
