"""RL-SPINN (Yogatama et al. 2016; Nangia and Bowman 2018): shift or reduce, drawn, and learned by REINFORCE.

The actions of a whole batch are drawn first, without gradient. Then every tree is known, and so is all that the
tracking LSTM saw: trees are composed level by level, and the tracker reads its whole sequence in one call.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from ordered_memory.config import SPINNConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Outcome, Parse
from ordered_memory.encoders.tree_composition import Merges, compose, root_states
from ordered_memory.encoders.tree_lstm_cell import Leaves, TreeLSTMCell
from ordered_memory.trees import Spans


class Actions(NamedTuple):
    """What the stack machine did. Steps are 2 * time - 1; node 2 * time - 1 stands for none."""

    merges: Merges
    seen: Tensor  # (steps, 3, rows): the nodes on top of the stack, below it, and at the head of the buffer
    reduced: Tensor  # (steps, rows), bool
    free: Tensor  # (steps, rows), bool: whether both actions were allowed


class SPINNEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "latent"

    def __init__(self, input_size: int, config: SPINNConfig) -> None:
        super().__init__()
        self.output_size, self.rl_weight = config.hidden_size, config.rl_weight
        self.leaves = Leaves(input_size, config.hidden_size, lstm=False)
        self.cell = TreeLSTMCell(config.hidden_size)
        self.tracker = nn.LSTM(3 * config.hidden_size, config.tracking_size)
        self.reduce = nn.Linear(config.tracking_size, 1)  # the odds of reduce against shift
        self.value = nn.Linear(config.tracking_size, 1)  # of the answer being right

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        leaves = self.leaves(embedded)
        actions = self.act(leaves, lengths, sample=self.training)
        states = compose(self.cell, leaves, actions.merges)
        vector = root_states(states, actions.merges)[:, : self.output_size]
        return Encoding(vector, learn=partial(self._learn, states, actions) if self.training else None)

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        leaves = self.leaves(embedded)
        merges = self.act(leaves, lengths, sample=False).merges
        vector = root_states(compose(self.cell, leaves, merges), merges)[:, : self.output_size]
        return Parse(vector, merges.spans)

    @torch.no_grad()
    def act(self, leaves: Tensor, lengths: Tensor, sample: bool) -> Actions:
        """Runs the stack machine on all rows at once: the likelier action at each step, or one drawn."""
        time, rows = leaves.shape[:2]
        device = leaves.device
        columns, ends, nobody = torch.arange(rows, device=device), lengths.to(device), 2 * time - 1
        table = leaves.new_zeros(2 * time, rows, leaves.shape[-1])  # every node's state; the last one's is zero
        table[:time] = leaves
        stack = torch.full((time + 2, rows), nobody, device=device)  # from place 2 on
        size, read, done = torch.zeros(3, rows, dtype=torch.int64, device=device)
        left, right = torch.zeros(2, time - 1, rows, dtype=torch.int64, device=device)
        hidden = cell = leaves.new_zeros(rows, self.tracker.hidden_size)
        notes = []
        for _ in range(2 * time - 1):
            top, below, head = stack[size + 1, columns], stack[size, columns], torch.where(read < ends, read, nobody)
            seen = torch.stack((top, below, head))
            hidden, cell = torch.lstm_cell(
                _view(table, seen, self.output_size), (hidden, cell), *self.tracker.all_weights[0]
            )
            odds = self.reduce(hidden).squeeze(-1)
            wish = torch.rand_like(odds) < odds.sigmoid() if sample else odds > 0
            may_shift, may_reduce = read < ends, size >= 2
            reduce = may_reduce & (wish | ~may_shift)
            shift = may_shift & ~reduce
            notes.append((seen, reduce, may_shift & may_reduce))
            chosen = reduce.nonzero().squeeze(-1)
            number, first, second = done[chosen], below[chosen], top[chosen]
            left[number, chosen], right[number, chosen] = first, second
            table[time + number, chosen] = self.cell(table[first, chosen], table[second, chosen])
            size = size + shift.long() - reduce.long()
            stack[size + 1, columns] = torch.where(reduce, time + done, torch.where(shift, read, top))
            read, done = read + shift, done + reduce
        seen, reduced, free = (torch.stack(part) for part in zip(*notes, strict=True))
        return Actions(Merges.from_tensors(left, right, lengths), seen, reduced, free)

    def track(self, states: Tensor, actions: Actions) -> tuple[Tensor, Tensor]:
        """The log-probability of each action and what the answer is then expected to be worth, both (steps, rows)."""
        table = torch.cat((states, torch.zeros_like(states[:1])))
        tracked, _ = self.tracker(_view(table, actions.seen, self.output_size))
        odds = self.reduce(tracked).squeeze(-1)
        logs = logsigmoid(torch.where(actions.reduced, odds, -odds)) * actions.free  # what is forced is certain
        return logs, self.value(tracked.detach()).squeeze(-1)

    def _learn(self, states: Tensor, actions: Actions, outcome: Outcome) -> Iterator[Tensor]:
        """REINFORCE: actions grow likelier as the answer was better than expected before them; and what is expected."""
        logs, value = self.track(states, actions)
        reward = outcome.right.to(value).expand_as(value)
        advantage = reward - value.detach().sigmoid()
        free = actions.free.to(value)
        value_loss = binary_cross_entropy_with_logits(value, reward, free, reduction="sum") / free.sum().clamp(min=1)
        yield self.rl_weight * -(advantage * logs).sum(0).mean() + value_loss


def _view(table: Tensor, seen: Tensor, hidden_size: int) -> Tensor:
    """The hidden states of the three nodes that the tracker sees, side by side: (..., rows, 3 * hidden_size)."""
    rows = table.shape[1]
    flat = table.flatten(0, 1)[:, :hidden_size]
    numbers = (seen * rows + torch.arange(rows, device=seen.device)).transpose(-1, -2)  # (..., rows, 3)
    return flat[numbers].flatten(-2)
