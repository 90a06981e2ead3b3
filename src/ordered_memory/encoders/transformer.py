"""Transformer (Vaswani et al. 2017) over a joint sequence: the vector is the state at its last position.

The paper that we follow used as many layers as Ordered Memory has slots, and norms after each part: this did not learn.
With norms before, fewer layers and a warm-up it does.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ordered_memory.config import TransformerConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.encoders.joint import Block, JointInput, key_mask, last_state, sinusoids
from ordered_memory.trees import Spans


class TransformerEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "none"
    joint: ClassVar[bool] = True

    def __init__(self, input_size: int, config: TransformerConfig, sentences: int = 1) -> None:
        super().__init__()
        self.config, self.output_size = config, config.hidden_size
        self.input = JointInput(input_size, config.hidden_size, sentences)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.last_norm = nn.LayerNorm(config.hidden_size) if config.norm == "before" else nn.Identity()

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        x, joint_lengths = self.input(embedded, lengths)
        if self.config.positions == "sinusoids":
            x = x + sinusoids(torch.arange(x.shape[1], device=x.device, dtype=x.dtype), self.output_size)
        x = self.dropout(x)
        mask = key_mask(joint_lengths, x.shape[1], x.device)
        for block in self.blocks:
            x = block(x, mask)
        return Encoding(self.last_norm(last_state(x, joint_lengths)))

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        return Parse(self(embedded, lengths).vector)
