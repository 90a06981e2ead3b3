"""All ways to build a binary tree over a few tokens, and the comparison of an estimate with a sum over them."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ordered_memory.encoders.tree_composition import Merges


def merge_orders(length: int) -> list[tuple[int, ...]]:
    """Every sequence of merges: at each step, the place of the left one of the two neighbours that are joined."""
    return list(itertools.product(*(range(left - 1) for left in range(length, 1, -1))))


def as_merges(orders: Sequence[Sequence[int]], time: int | None = None) -> Merges:
    """One row for each sequence of merges."""
    lengths = np.array([len(order) + 1 for order in orders])
    time = time or int(lengths.max())
    left, right = np.zeros((2, time - 1, len(orders)), dtype=np.int64)
    for row, order in enumerate(orders):
        nodes = list(range(lengths[row]))
        for step, place in enumerate(order):
            left[step, row], right[step, row] = nodes[place : place + 2]
            nodes[place : place + 2] = [time + step]
    return Merges(left, right, lengths)


def actions_of(length: int) -> Iterator[tuple[bool, ...]]:
    """Every sequence of shifts (False) and reduces (True) that builds one tree."""
    for actions in itertools.product((False, True), repeat=2 * length - 1):
        sizes = list(itertools.accumulate(-1 if reduce else 1 for reduce in actions))
        if min(sizes) >= 1 and sizes[-1] == 1:
            yield actions


def within_sampling_error(samples: torch.Tensor, expected: torch.Tensor, most: float = 5.0) -> None:
    """The mean over dimension 0 meets the expected values, each to within so many of its standard errors."""
    error = samples.std(0) / len(samples) ** 0.5
    away = (samples.mean(0) - expected).abs()
    assert (away <= most * error + 1e-9).all(), (away / error.clamp(min=1e-12)).max()
    assert (expected.abs() > 10 * error).any(), "the samples are too few to tell anything"


def flat_gradient(loss: torch.Tensor, parameters: Sequence[torch.Tensor], **options: Any) -> torch.Tensor:
    """The gradient of all parameters as one vector, zero where the loss does not depend on one."""
    found = torch.autograd.grad(loss, parameters, allow_unused=True, **options)
    pairs = zip(found, parameters, strict=True)
    return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])
