"""The cooperative parser of Havrylov, Kruszewski and Joulin (2019): a parser learns by PPO to please a composer.

The paper's parser has embeddings of its own. An encoder is given embedded tokens only, so ours reads those of the
composer, but by an LSTM and a linear map of its own, and without gradient: it has no say in what the composer learns.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ordered_memory.config import CooperativeConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Outcome, Parse
from ordered_memory.encoders.pair_scorer import PairScorer, losers
from ordered_memory.encoders.tree_composition import Merges, compose, root_states
from ordered_memory.encoders.tree_lstm_cell import Leaves, TreeLSTMCell
from ordered_memory.trees import Spans

MEMORY = 0.99
"""Of the running deviation of the advantage, from one step to the next."""


class CooperativeEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "latent"
    mean_square: Tensor
    steps: Tensor

    def __init__(self, input_size: int, config: CooperativeConfig) -> None:
        super().__init__()
        self.output_size, self.config = config.hidden_size, config
        self.parser = PairScorer(input_size, config.parser_size, leaf_lstm=True)
        self.leaves = Leaves(input_size, config.hidden_size, lstm=False)
        self.cell = TreeLSTMCell(config.hidden_size)
        self.register_buffer("mean_square", torch.zeros(()))  # of the advantage, running
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))  # behind it

    @property
    def entropy_weight(self) -> float:
        """What is left of it after the steps so far."""
        half_life = self.config.entropy_half_life
        return self.config.entropy_weight * (0.5 ** (int(self.steps) / half_life) if half_life else 1.0)

    def rate_scale(self, name: str) -> float:
        return self.config.parser_rate if name.startswith("parser.") else 1.0

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        if not self.training:
            return Encoding(self._compose(embedded, self._greedy(embedded, lengths)))
        drawn, best = self._draw(embedded, lengths)
        with torch.no_grad():
            baseline = self._compose(embedded, best)
        learn = partial(self._learn, embedded.detach(), drawn)
        return Encoding(self._compose(embedded, drawn), baseline=baseline, learn=learn)

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        merges = self._greedy(embedded, lengths)
        return Parse(self._compose(embedded, merges), merges.spans)

    def _compose(self, embedded: Tensor, merges: Merges) -> Tensor:
        return root_states(compose(self.cell, self.leaves(embedded), merges), merges)[:, : self.output_size]

    @torch.no_grad()
    def _greedy(self, embedded: Tensor, lengths: Tensor) -> Merges:
        sample = torch.zeros(len(lengths), dtype=torch.bool, device=embedded.device)
        return self.parser.merge(self.parser.leaves(embedded), lengths, sample)

    @torch.no_grad()
    def _draw(self, embedded: Tensor, lengths: Tensor) -> tuple[Merges, Merges]:
        """A tree drawn for each row, and the best one: twice as many rows in one run of the parser."""
        rows = len(lengths)
        leaves = self.parser.leaves(embedded).repeat(1, 2, 1)
        sample = torch.arange(2 * rows, device=embedded.device) < rows
        both = self.parser.merge(leaves, lengths.repeat(2), sample)
        drawn, best = (
            Merges(both.left[:, part], both.right[:, part], both.lengths[part])
            for part in (slice(rows), slice(rows, None))
        )
        return drawn, best

    def _learn(self, embedded: Tensor, merges: Merges, outcome: Outcome) -> Iterator[Tensor]:
        """PPO on the trees that were drawn. It ends early once no row is left whose clipped gain has a gradient."""
        assert outcome.baseline_loss is not None  # the encoding has a baseline
        gain = outcome.baseline_loss - outcome.loss
        steps = self.steps + 1
        mean_square = torch.lerp(gain.square().mean().to(self.mean_square), self.mean_square, MEMORY)
        deviation = (mean_square / (1 - MEMORY**steps)).sqrt()
        advantage = gain / deviation.clamp(min=1e-8).to(gain)
        before: Tensor | None = None
        entropy_weight = self.entropy_weight  # of the step: it counts while the updates are made
        others = losers(merges) if merges.time > 1 else None
        for _ in range(self.config.ppo_updates):
            policy = self.parser.policy(self.parser.leaves(embedded), merges, others)
            before = policy.log_probability.detach() if before is None else before
            ratio = (policy.log_probability - before).exp()
            clip = self.config.ppo_clip
            clipped = torch.where(advantage > 0, ratio > 1 + clip, ratio < 1 - clip)
            if clipped.all():
                return
            worth = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
            loss = -worth.mean() - entropy_weight * policy.entropy.mean()
            yield loss
            # Asked to go on, the first update has been applied: only then does the step count.
            self.mean_square.copy_(mean_square)
            self.steps.copy_(steps)
            if not loss.requires_grad:  # all rows are of one token: the parser had nothing to decide
                return
