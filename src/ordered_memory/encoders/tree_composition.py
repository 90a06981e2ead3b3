"""Binary trees of a batch as sequences of merges: their spans, and their composition, level by level.

The nodes of a row are numbered: token t is node t, and what merge k makes is node time + k.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ordered_memory.trees import Spans

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Merges:
    """One binary tree for each row, as the order in which it was built."""

    left: Indices  # (time - 1, rows): the nodes that each merge joins, 0 where the row has no more merges
    right: Indices
    lengths: Indices  # (rows,)

    @classmethod
    def from_tensors(cls, left: Tensor, right: Tensor, lengths: Tensor) -> "Merges":
        """What a batched parser has noted; its notes past a row's last merge are of no account."""
        rows = lengths.numpy()
        there = np.arange(len(left))[:, None] < rows - 1
        return cls(np.where(there, left.cpu().numpy(), 0), np.where(there, right.cpu().numpy(), 0), rows)

    @property
    def time(self) -> int:
        return len(self.left) + 1

    @property
    def rows(self) -> int:
        return len(self.lengths)

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """(time - 1, rows): whether the row has this merge."""
        return np.arange(self.time - 1)[:, None] < self.lengths - 1

    @property
    def roots(self) -> Indices:
        """The last node of each row."""
        return np.where(self.lengths > 1, self.time + self.lengths - 2, 0)

    @cached_property
    def levels(self) -> list[tuple[Indices, Indices, Indices]]:
        """Merges of the whole batch, lowest first, all of one height together: the node, its left and right child.

        They are numbers in the flat table of all rows' nodes, node * rows + row.
        """
        columns = np.arange(self.rows)
        height = np.zeros((2 * self.time - 1, self.rows), dtype=np.int64)
        for step, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            height[self.time + step] = 1 + np.maximum(height[left, columns], height[right, columns])
        steps, rows = np.nonzero(self.there)
        heights = height[self.time + steps, rows]
        order = np.argsort(heights, kind="stable")
        ends = np.cumsum(np.bincount(heights, minlength=1)[1:])[:-1]
        flat = ((self.time + steps) * self.rows + rows, self.left[steps, rows] * self.rows + rows)
        parts = [np.split(numbers[order], ends) for numbers in (*flat, self.right[steps, rows] * self.rows + rows)]
        return list(zip(*parts, strict=True)) if len(steps) else []

    @property
    def spans(self) -> list[Spans]:
        """[start, end) of every merge, each row in preorder."""
        columns = np.arange(self.rows)
        start = np.zeros((2 * self.time - 1, self.rows), dtype=np.int32)
        start[: self.time] = np.arange(self.time)[:, None]
        end = start + 1
        for step, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            start[self.time + step], end[self.time + step] = start[left, columns], end[right, columns]
        both = np.stack((start, end), -1)[self.time :]
        rows = [both[: length - 1, row] for row, length in enumerate(self.lengths)]
        return [row[np.lexsort((-row[:, 1], row[:, 0]))] for row in rows]


def compose(cell: nn.Module, leaves: Tensor, merges: Merges) -> Tensor:
    """States of all nodes, (2 * time - 1, rows, size): as many calls of the cell as the highest tree has levels."""
    levels = [tuple(torch.from_numpy(part).to(leaves.device) for part in level) for level in merges.levels]
    nodes = (2 * merges.time - 1) * merges.rows
    return fill_table(cell, levels, nodes, leaves.flatten(0, 1), *cell.parameters()).view(-1, *leaves.shape[1:])


def fill_table(
    cell: Callable[[Tensor, Tensor], Tensor],
    levels: Sequence[tuple[Tensor, ...]],
    nodes: int,
    leaves: Tensor,
    *parameters: Tensor,
) -> Tensor:
    """All nodes, the leaves first: of each level their numbers, and those of their left and right children, which come
    before it. `parameters` are the cell's."""
    table: Tensor = _Composition.apply(cell, levels, nodes, leaves, *parameters)  # type: ignore[no-untyped-call]
    return table


def root_states(states: Tensor, merges: Merges) -> Tensor:
    """(rows, size)"""
    return states[torch.from_numpy(merges.roots), torch.arange(merges.rows)]


class _Composition(torch.autograd.Function):
    """One table for all nodes, written in place; the gradient goes back through it level by level.

    Plain autograd would make, for every level, a gradient as large as the whole table.
    """

    @staticmethod
    def forward(
        ctx: Any,
        cell: Callable[[Tensor, Tensor], Tensor],
        levels: Sequence[tuple[Tensor, ...]],
        nodes: int,
        leaves: Tensor,
        *parameters: Tensor,
    ) -> Tensor:
        table = leaves.new_zeros(nodes, leaves.shape[-1])
        table[: len(leaves)] = leaves
        learning = any(ctx.needs_input_grad)
        ctx.steps, ctx.parameters = [], parameters
        for node, left, right in levels:
            below = table[left], table[right]
            with torch.set_grad_enabled(learning):
                inputs = tuple(part.requires_grad_(learning) for part in below)
                above = cell(*inputs)
            table[node] = above.detach()
            if learning:
                ctx.steps.append((node, left, right, inputs, above))
        ctx.leaves = len(leaves)
        return table

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        table = gradients[0].clone()
        wanted = [parameter for parameter in ctx.parameters if parameter.requires_grad]
        sums = [torch.zeros_like(parameter) for parameter in wanted]
        while ctx.steps:
            node, left, right, inputs, above = ctx.steps.pop()
            first, second, *others = torch.autograd.grad(above, (*inputs, *wanted), table[node])
            table.index_add_(0, left, first)
            table.index_add_(0, right, second)
            for total, part in zip(sums, others, strict=True):
                total += part
        found = iter(sums)
        rest = (next(found) if parameter.requires_grad else None for parameter in ctx.parameters)
        return (None, None, None, table[: ctx.leaves], *rest)
