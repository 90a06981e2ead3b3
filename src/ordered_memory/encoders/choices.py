"""A pointer that learns from trees, as a parser learns from a treebank.

A memory whose pointer builds a given tree goes through states that the tree alone decides. Before each token it can
choose how many of the sub-trees that wait are joined to what came last; the tree says how many are right. So all
choices of a batch are laid out at once, each different candidate is composed once, and what is left to learn is one
classification for each token. Nothing is soft, and no step waits for another.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from ordered_memory.encoders.shared_trees import Text, grouped, numbered, steps_of
from ordered_memory.encoders.tree_composition import fill_table
from ordered_memory.trees import Spans


class Choices(NamedTuple):
    """What the pointers of memories that build these trees have to choose from."""

    leaves: Tensor  # where the different tokens stand in (time * batch)
    steps: list[tuple[Tensor, Tensor]]  # left and right children of further candidates; they are numbered in this order
    candidates: Tensor  # (choices,): what would be on top of the stack
    tokens: Tensor  # (choices,): which of the different tokens comes next
    decisions: Tensor  # (choices,): which decision it is one of
    columns: Tensor  # (choices,): how many sub-trees are joined
    answers: Tensor  # (decisions,): how many the tree joins
    roots: Tensor  # (rows,): the candidate that is the whole tree


def choices(trees: Sequence[Spans], lengths: Sequence[int], num_slots: int) -> Choices:
    """Of one binary tree for each row. Where so many sub-trees wait that the memory is full, one has to be joined."""
    text = Text.of(trees, lengths)
    tokens, nodes = len(text.rows), len(text.starts)
    left, right = text.children()
    middles = text.middles
    # The sub-trees that wait when a token comes are those to the left of where it lies on the right.
    inside = text.ends - middles
    above = np.repeat(np.arange(nodes), inside)
    last = np.arange(len(above)) - np.repeat(np.cumsum(inside) - inside, inside) + middles[above]
    depths = text.depths()
    order = np.lexsort((-depths[tokens + above], last))  # of each token the nearest first
    above, last = above[order], last[order]
    begins = np.searchsorted(last, np.arange(tokens))
    ranks = np.arange(len(last)) - begins[last]  # how many were joined already
    # The token joined with one more of them: the joins are counted on from the last node.
    joins = tokens + nodes + np.arange(len(last))
    all_left = np.concatenate((left, left[above]))
    all_right = np.concatenate((right, np.where(ranks == 0, last, joins - 1)))
    groups = [*grouped(-depths[tokens:]), *(nodes + group for group in grouped(ranks))]
    numbers, first = numbered(text.kinds(trees), all_left, all_right, groups)

    # Every token but a row's last leaves a choice: itself alone, or joined with one, with two, ...
    waiting = np.bincount(last, minlength=tokens)
    followed = np.append(text.rows[1:] == text.rows[:-1], False)
    decisions = np.cumsum(followed) - 1
    least = np.maximum(waiting + 1 - num_slots, 0)
    chosen = np.maximum(waiting + 1 - np.append(waiting[1:], 0), least)
    alone = np.flatnonzero(followed & (least == 0))
    joined = np.flatnonzero(followed[last] & (ranks + 1 >= least[last]))
    owner = np.concatenate((alone, last[joined]))

    def tensor(values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values))

    return Choices(
        leaves=text.leaves(numbers),
        steps=steps_of(numbers, all_left, all_right, first),
        candidates=tensor(numbers[np.concatenate((alone, joins[joined]))]),
        tokens=tensor(numbers[owner + 1]),
        decisions=tensor(decisions[owner]),
        columns=tensor(np.concatenate((np.zeros_like(alone), ranks[joined] + 1))),
        answers=tensor(chosen[followed]),
        roots=tensor(numbers[text.roots]),
    )


Compose = Callable[[Tensor, Tensor], Tensor]


def candidates(plan: Choices, leaves: Tensor, compose: Compose, parameters: Sequence[Tensor]) -> Tensor:
    """All of them, composed from the different tokens' leaves; `parameters` are those of `compose`."""
    ends = np.cumsum([len(leaves), *(len(left) for left, _ in plan.steps)]).tolist()
    numbers = (torch.arange(begin, end) for begin, end in pairwise(ends))
    levels = [
        tuple(part.to(leaves.device) for part in (number, *children))
        for number, children in zip(numbers, plan.steps, strict=True)
    ]
    return fill_table(compose, levels, ends[-1], leaves, *parameters)


def distances_of(plan: Choices, scores: Tensor) -> Tensor:
    """The cross-entropy of each decision, row after row, given the score of each choice."""
    device = scores.device
    if len(plan.answers) == 0:  # every row is one token: there is nothing to decide
        return scores
    table = scores.new_full((len(plan.answers), int(plan.columns.max()) + 1), -torch.inf)
    table = table.index_put((plan.decisions.to(device), plan.columns.to(device)), scores)
    return cross_entropy(table, plan.answers.to(device), reduction="none")
