"""A parser from the bottom up: every adjacent pair is composed and scored, one is merged, until one node is left.

Gumbel Tree-LSTM and the cooperative parser both score pairs this way (Choi et al. 2018).
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ordered_memory.encoders.tree_composition import Indices, Merges, compose
from ordered_memory.encoders.tree_lstm_cell import Leaves, TreeLSTMCell


class Policy(NamedTuple):
    """How likely a parser finds the merges that were made."""

    log_probability: Tensor  # (rows,), of the whole sequence of merges
    entropy: Tensor  # (rows,), mean over the merges of the entropy of each choice


class PairScorer(nn.Module):
    """Leaves, the cell that composes a pair, and the query that scores what comes out."""

    def __init__(self, input_size: int, hidden_size: int, leaf_lstm: bool) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.leaves = Leaves(input_size, hidden_size, leaf_lstm)
        self.cell = TreeLSTMCell(hidden_size)
        self.query = nn.Parameter(torch.empty(hidden_size).normal_(std=0.01))

    def score(self, states: Tensor) -> Tensor:
        return states[..., : self.hidden_size] @ self.query

    @torch.no_grad()
    def merge(self, leaves: Tensor, lengths: Tensor, sample: Tensor) -> Merges:
        """The trees of a batch: merges are drawn by their probability where `sample` (rows,) says so, else the best.

        A slot holds a node, and the pair of it and the node that follows; a merge changes two pairs, so that only two
        are composed at each step. Slot 0 and the last one are the ends, which pair with nothing.
        """
        time, rows = leaves.shape[:2]
        columns = torch.arange(rows, device=leaves.device)
        twice = columns.repeat(2)
        ends = lengths.to(leaves.device)
        slots = torch.arange(time + 2, device=leaves.device)[:, None].expand(-1, rows)
        after, before, node = (slots + 1).clamp(max=time + 1), (slots - 1).clamp(min=0), slots - 1
        states = torch.cat((torch.zeros_like(leaves[:1]), leaves, torch.zeros_like(leaves[:1])))
        pairs = torch.zeros_like(states)
        pairs[1:time] = self.cell(leaves[:-1], leaves[1:])
        scores = self.score(pairs).masked_fill((slots == 0) | (slots >= ends), -torch.inf)
        left, right = (torch.zeros(time - 1, rows, dtype=torch.int64, device=leaves.device) for _ in range(2))
        for step in range(time - 1):
            noise = torch.empty_like(scores).exponential_().log_()  # the Gumbel distribution's, but for the sign
            slot = torch.where(sample, scores - noise, scores).argmax(0)
            other = after[slot, columns]
            left[step], right[step] = node[slot, columns], node[other, columns]
            node[slot, columns] = time + step
            states[slot, columns] = pairs[slot, columns]
            scores[other, columns] = -torch.inf
            following = after[other, columns]
            after[slot, columns], before[following, columns] = following, slot
            first, second = torch.cat((before[slot, columns], slot)), torch.cat((slot, following))
            fresh = self.cell(states[first, twice], states[second, twice])
            pairs[first, twice] = fresh
            scores[first, twice] = self.score(fresh).masked_fill((first == 0) | (second > ends[twice]), -torch.inf)
        return Merges.from_tensors(left, right, lengths)

    def policy(self, leaves: Tensor, merges: Merges, others: "Losers | None" = None) -> Policy:
        """The probability of these merges, with its gradient: all pairs that ever were, composed in one call. Who asks
        more than once may find the `losers` beforehand."""
        time, rows = merges.time, merges.rows
        if time == 1:
            nothing = leaves.new_zeros(rows)
            return Policy(nothing, nothing)
        states = compose(self.cell, leaves, merges)
        others = others or losers(merges)
        flat = states.flatten(0, 1)
        left, right, place = (torch.from_numpy(part).to(leaves.device) for part in others[:3])
        lost = self.score(self.cell(flat[left], flat[right]))
        scores = torch.cat((self.score(states[time:]), leaves.new_zeros(others.most, rows)))
        scores = scores.flatten().index_copy(0, place, lost).view(-1, rows)  # (candidates, rows)
        alive = torch.from_numpy(others.alive).to(leaves.device)  # (steps, candidates, rows)
        logs = torch.where(alive, scores, -torch.inf).log_softmax(1)
        chosen = logs.diagonal().sum(-1)  # merge k is candidate k
        entropy = -(logs.exp() * logs.masked_fill(~alive, 0)).sum((0, 1))
        made = torch.from_numpy(merges.lengths - 1).clamp(min=1).to(entropy)
        return Policy(chosen, entropy / made)


class Losers(NamedTuple):
    """The pairs that stood beside each merge and were never merged themselves; the merges are candidates too."""

    left: Indices  # (pairs,), in the flat table of nodes
    right: Indices
    place: Indices  # (pairs,), in the flat table of candidates, of which the merges are the first
    most: int  # so many in a row, at most
    alive: NDArray[np.bool_]  # (steps, candidates, rows): which candidates each merge was chosen from


def losers(merges: Merges) -> Losers:
    """Goes through the merges as they were made, and notes which neighbours each new node had."""
    time, rows, columns = merges.time, merges.rows, np.arange(merges.rows)
    nobody = 2 * time - 1
    number = np.arange(2 * time)[:, None] + np.zeros(rows, dtype=np.int64)
    after = np.where(number < merges.lengths - 1, number + 1, nobody)
    before = np.where((number > 0) & (number < merges.lengths), number - 1, nobody)
    consumed = np.full((2 * time, rows), time)
    left_parts, right_parts = [number[:time]], [after[:time].copy()]
    for step, (left, right) in enumerate(zip(merges.left, merges.right, strict=True)):
        there = merges.there[step]
        left, right, node = (np.where(there, part, nobody) for part in (left, right, time + step))
        consumed[left, columns] = consumed[right, columns] = step
        former, following = before[left, columns], after[right, columns]
        before[node, columns], after[node, columns] = former, following
        after[former, columns] = before[following, columns] = node
        left_parts += [former[None], node[None]]
        right_parts += [node[None], following[None]]
    left, right = np.concatenate(left_parts), np.concatenate(right_parts)
    lost = (left != nobody) & (right != nobody) & (consumed[left, columns] != consumed[right, columns])
    pair, row = np.nonzero(lost)
    left, right, rank = left[pair, row], right[pair, row], (lost.cumsum(0) - 1)[pair, row]
    most = int(lost.sum(0).max())

    born = np.maximum(number - time + 1, 0)  # the step from which on a node is there
    first, last = np.full((2, time - 1 + most, rows), -1)
    steps = number[: time - 1]
    children = np.maximum(born[merges.left, columns], born[merges.right, columns])
    first[: time - 1], last[: time - 1] = np.where(merges.there, children, steps), steps  # past the end: a sole choice
    first[time - 1 + rank, row] = np.maximum(born[left, row], born[right, row])
    last[time - 1 + rank, row] = np.minimum(consumed[left, row], consumed[right, row])
    alive = (first <= steps[:, None]) & (steps[:, None] <= last)
    return Losers(left * rows + row, right * rows + row, (time - 1 + rank) * rows + row, most, alive)
