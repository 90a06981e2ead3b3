"""RRNet, a recurrent-recursive network (Jacob, Lin, Sordoni and Bengio 2018), which closes nodes while it reads.

What follows what is known of the paper's model: one recurrent network reads the tokens of a node; before each token a
discrete decision says whether to stay in the current node or to close it; a closed node's summary goes up, where the
same weights make the step from one child to the next; decisions are sampled, and learned by REINFORCE with a learned
baseline.

What is ours, for there is no public code: the network is an LSTM; after a node has closed, the same decision is asked
about its parent, up to a bounded number of levels; the decision sees the state of the node, that of its parent and the
coming token, and learns from them without changing them, so that the network itself learns by the classifier's loss;
the reward is the log-probability of the right answer, less the mean of the other rows. At the end all open nodes close,
up to the highest level that was used. At test the likelier decision is taken. A network that never closes a node is an
LSTM.

Its trees are those of the splits between tokens, as high as the number of nodes that were closed there; within a node,
children are joined from the left, as a recurrent network reads them.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from ordered_memory.config import RRNetConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Outcome, Parse
from ordered_memory.encoders.on_lstm import preorder_spans
from ordered_memory.trees import Spans


class Decisions(NamedTuple):
    """Decisions taken together: what each saw, whether it closed the node, and in which row."""

    features: Tensor  # (decisions, 3 * size)
    closed: Tensor  # (decisions,), bool
    rows: Tensor  # (decisions,), counted from the longest row


class SharedCell(nn.Module):
    """The LSTM that reads tokens and summaries alike; its state is h and c, side by side."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.input, self.recurrent = nn.Linear(size, 4 * size), nn.Linear(size, 4 * size, bias=False)

    def forward(self, mixed_input: Tensor, state: Tensor) -> Tensor:
        """`mixed_input` is `self.input` of what is read: of all tokens it is made at once."""
        h, c = state.chunk(2, -1)
        gates = torch.addmm(mixed_input, h, self.recurrent.weight.t())
        size = c.shape[-1]
        i, f, o = gates[:, : 3 * size].sigmoid().chunk(3, -1)
        c = torch.addcmul(f * c, i, gates[:, 3 * size :].tanh())
        return torch.cat((o * c.tanh(), c), -1)


class RRNetEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "latent"

    def __init__(self, input_size: int, config: RRNetConfig) -> None:
        super().__init__()
        self.config, size = config, config.hidden_size
        self.output_size = size
        self.token = nn.Linear(input_size, size)
        self.dropout = nn.Dropout(config.dropout)
        self.cell = SharedCell(size)
        last = nn.Linear(size, 1)
        nn.init.constant_(last.bias, config.closing_bias)
        self.policy = nn.Sequential(nn.Linear(3 * size, size), nn.Tanh(), last)
        self.value = nn.Linear(3 * size, 1)

    def rate_scale(self, name: str) -> float:
        return self.config.policy_rate if name.startswith("policy.") else 1.0

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        packed = pack_padded_sequence(embedded, lengths.cpu(), enforce_sorted=False)
        vector, _, decisions = self._read(packed)
        if not self.training:
            return Encoding(vector)

        def learn(outcome: Outcome) -> Iterator[Tensor]:
            yield self._policy_loss(decisions, -outcome.loss[packed.sorted_indices])

        return Encoding(vector, learn=learn)

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        packed = pack_padded_sequence(embedded, lengths.cpu(), enforce_sorted=False)
        vector, heights, _ = self._read(packed)
        rows = heights.t()[packed.unsorted_indices]
        return Parse(vector, preorder_spans(rows.cpu().numpy(), lengths.cpu().numpy(), self.config.depth))

    def _read(self, packed: PackedSequence) -> tuple[Tensor, Tensor, list[Decisions]]:
        """Each row's vector; before each token (time, rows), how many nodes closed; and the decisions, if it learns."""
        sizes = packed.batch_sizes.tolist()
        tokens = self.token(packed.data)
        inputs = self.cell.input(tokens).split(sizes)
        coming = tokens.detach().split(sizes)
        levels = [tokens.new_zeros(sizes[0], 2 * self.output_size)] * self.config.depth
        heights = torch.zeros(len(sizes), sizes[0], dtype=torch.int64, device=tokens.device)
        ended: list[list[Tensor]] = []
        decisions: list[Decisions] = []
        for time, (mixed_input, token) in enumerate(zip(inputs, coming, strict=True)):
            rows = len(token)
            if rows < len(levels[0]):  # the longest rows come first, and go on
                ended.append([level[rows:] for level in levels])
                levels = [level[:rows] for level in levels]
            if time:
                decisions += self._close_some(levels, token, heights[time])
            levels[0] = self.cell(mixed_input, levels[0])
        whole = [torch.cat(parts) for parts in zip(levels, *reversed(ended), strict=True)]
        return self._close_all(whole, heights.amax(0))[packed.unsorted_indices], heights, decisions

    def _close_some(self, levels: list[Tensor], token: Tensor, heights: Tensor) -> list[Decisions]:
        """Asks, from the lowest level up, which rows close their node; `levels` and `heights` are changed in place."""
        taken, size = [], self.output_size
        rows = torch.arange(len(token), device=token.device)
        states, above = levels[0], levels[1]
        for number in range(self.config.depth - 1):
            with torch.no_grad():
                features = torch.cat((states[:, :size], above[:, :size], token), -1)
                logits = self.policy(features).squeeze(-1)
                closed = torch.rand_like(logits) < logits.sigmoid() if self.training else logits > 0
            if self.training:
                taken.append(Decisions(features, closed, rows))
            chosen = closed.nonzero()[:, 0]
            if len(chosen) == 0:
                break
            rows, token = rows[chosen], token[chosen]
            heights[rows] = number + 1
            states = self._up(states.index_select(0, chosen), above.index_select(0, chosen))
            levels[number] = levels[number].index_fill(0, rows, 0.0)
            levels[number + 1] = levels[number + 1].index_copy(0, rows, states)
            if number + 2 < self.config.depth:
                above = levels[number + 2].index_select(0, rows)
        return taken

    def _close_all(self, levels: list[Tensor], top: Tensor) -> Tensor:
        """The vector of each row (rows, size): all levels close, up to the highest that the row has used."""
        states = levels[0]
        for number in range(int(top.max())):
            rows = (top > number).nonzero()[:, 0]
            states = states.index_copy(0, rows, self._up(states[rows], levels[number + 1][rows]))
        return states[:, : self.output_size]

    def _up(self, closed: Tensor, above: Tensor) -> Tensor:
        """The parent's state after one child more."""
        state: Tensor = self.cell(self.cell.input(self.dropout(closed[:, : self.output_size])), above)
        return state

    def _policy_loss(self, decisions: list[Decisions], reward: Tensor) -> Tensor:
        """REINFORCE, the baseline's own error and the entropy; all decisions in one product."""
        if not decisions:  # rows of one token leave nothing to decide
            return reward.new_zeros(())
        # Beside what other rows got: until the baseline has learned, each reward would speak against all that was done,
        # and a policy that mostly stays would be driven to close.
        others = (reward.sum() - reward) / max(1, len(reward) - 1)
        reward = reward - others
        features, closed, rows = (torch.cat(parts) for parts in zip(*decisions, strict=True))
        logits, values, rewards = self.policy(features).squeeze(-1), self.value(features).squeeze(-1), reward[rows]
        surprise = binary_cross_entropy_with_logits(logits, closed.to(logits), reduction="none")
        reinforce = ((rewards - values).detach() * surprise).sum() / len(reward)
        entropy = binary_cross_entropy_with_logits(logits, logits.sigmoid())
        error = (values - rewards).square().mean()
        loss: Tensor = self.config.policy_weight * reinforce + error - self.config.entropy_weight * entropy
        return loss
