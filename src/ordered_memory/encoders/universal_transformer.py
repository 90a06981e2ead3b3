"""Universal Transformer (Dehghani et al. 2019): one block, looped, and each position may halt when it is ready.

Sinusoids of the position and of the step are added before every step; if attention hangs on distances, the step's only.
With halting, each position adds up its halting probabilities; at the step where their sum reaches 1 - epsilon it stops,
and that step weighs what is left to 1. A position's result is its states' average with these weights; its last state
stays for others to attend to. The ponder cost, steps taken and the remainder, is what makes halting worth while (Graves
2016).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ordered_memory.config import UniversalTransformerConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.encoders.joint import Block, JointInput, key_mask, last_state, sinusoids
from ordered_memory.trees import Spans


class UniversalTransformerEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "none"
    joint: ClassVar[bool] = True

    def __init__(self, input_size: int, config: UniversalTransformerConfig, sentences: int = 1) -> None:
        super().__init__()
        self.config, self.output_size = config, config.hidden_size
        self.input = JointInput(input_size, config.hidden_size, sentences)
        self.dropout = nn.Dropout(config.dropout)
        self.block = Block(config)
        self.last_norm = nn.LayerNorm(config.hidden_size) if config.norm == "before" else nn.Identity()
        self.halting = nn.Linear(config.hidden_size, 1) if config.halting else None
        if self.halting is not None:
            nn.init.constant_(self.halting.bias, config.halting_bias)

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        x, joint_lengths = self.input(embedded, lengths)
        numbers = torch.arange(max(x.shape[1], self.config.num_steps), device=x.device, dtype=x.dtype)
        waves = sinusoids(numbers, self.output_size)
        signals = waves[: self.config.num_steps, None]  # (steps, 1 or time, size)
        if self.config.positions == "sinusoids":
            signals = signals + waves[: x.shape[1]]
        block = partial(self.block, mask=key_mask(joint_lengths, x.shape[1], x.device))
        if self.halting is not None:
            return self._until_halted(x, signals, block, joint_lengths)
        for signal in signals:
            x = block(self.dropout(x + signal))
        return Encoding(self.last_norm(last_state(x, joint_lengths)))

    def _until_halted(self, x: Tensor, signals: Tensor, block: Callable[[Tensor], Tensor], lengths: Tensor) -> Encoding:
        assert self.halting is not None
        inside = torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None]
        running, average = inside, torch.zeros_like(x)
        spent, ponder = x.new_zeros(inside.shape), x.new_zeros(inside.shape)
        for number, signal in enumerate(signals, 1):
            x = torch.where(running[..., None], block(self.dropout(x + signal)), x)
            probability = self.halting(x).squeeze(-1).sigmoid()
            ends = running & ((spent + probability >= 1 - self.config.halting_epsilon) | (number == len(signals)))
            weight = torch.where(ends, 1 - spent, torch.where(running, probability, 0.0))
            average = average + weight[..., None] * x
            # The number of steps has no gradient; the remainder has, and falls as earlier probabilities rise.
            ponder = torch.where(ends, number + 1 - spent, ponder)
            spent, running = spent + weight, running & ~ends
            if not running.any():
                break
        cost = self.config.ponder_weight * ponder[inside].mean()
        return Encoding(self.last_norm(last_state(average, lengths)), auxiliary_loss=cost)

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        return Parse(self(embedded, lengths).vector)
