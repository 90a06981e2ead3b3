"""Gumbel Tree-LSTM (Choi et al. 2018): one merge a layer, chosen hard, with the gradient of a soft choice."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ordered_memory.config import GumbelTreeConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.encoders.pair_scorer import PairScorer
from ordered_memory.encoders.tree_composition import Merges, compose, root_states
from ordered_memory.trees import Spans


class GumbelTreeEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "latent"

    def __init__(self, input_size: int, config: GumbelTreeConfig) -> None:
        super().__init__()
        self.output_size, self.temperature = config.hidden_size, config.temperature
        self.scorer = PairScorer(input_size, config.hidden_size, config.leaf_lstm)

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        leaves = self.scorer.leaves(embedded)
        if self.training:
            return Encoding(self._sampled(leaves, lengths)[:, : self.output_size])
        return Encoding(self._greedy(leaves, lengths)[0])

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        vector, merges = self._greedy(self.scorer.leaves(embedded), lengths)
        return Parse(vector, merges.spans)

    def _greedy(self, leaves: Tensor, lengths: Tensor) -> tuple[Tensor, Merges]:
        merges = self.scorer.merge(leaves, lengths, torch.zeros(len(lengths), dtype=torch.bool, device=leaves.device))
        return root_states(compose(self.scorer.cell, leaves, merges), merges)[:, : self.output_size], merges

    def _sampled(self, nodes: Tensor, lengths: Tensor) -> Tensor:
        """The roots, (rows, size). All pairs are composed anew at each layer: the soft choice has a use for them all.

        A row that is down to one node chooses nothing, and so copies itself.
        """
        left_over = lengths.to(nodes.device) - 1
        for layer in range(len(nodes) - 1):
            parents = self.scorer.cell(nodes[:-1], nodes[1:])
            pairs = torch.arange(len(parents), device=nodes.device)[:, None]
            choice = straight_through(self.scorer.score(parents), pairs < left_over - layer, self.temperature)
            reached = choice.cumsum(0)[..., None]  # 0 left of the merge, 1 from there on
            choice = choice[..., None]
            nodes = (1 - reached) * nodes[:-1] + (reached - choice) * nodes[1:] + choice * parents
        return nodes[0]


def straight_through(scores: Tensor, valid: Tensor, temperature: float) -> Tensor:
    """One valid candidate of each row (dimension 0), drawn with Gumbel noise: 1 or 0, with the softmax's gradient."""
    noisy = (scores - torch.empty_like(scores).exponential_().log()) / temperature
    # Where nothing is valid the softmax is over all, so as not to be over nothing; the mask then takes it away.
    soft = noisy.masked_fill(~valid & valid.any(0), -torch.inf).softmax(0) * valid
    hard = torch.zeros_like(soft).scatter_(0, soft.argmax(0, keepdim=True), 1.0) * valid
    return hard + (soft - soft.detach())  # the bracket is exactly zero
