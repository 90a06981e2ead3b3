"""PyTorch's own LSTM: the first compared system, and the one that knows nothing of trees."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from ordered_memory.config import LSTMConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.trees import Spans


class LSTMEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "none"

    def __init__(self, input_size: int, config: LSTMConfig) -> None:
        super().__init__()
        self.output_size = config.hidden_size
        between = config.dropout if config.num_layers > 1 else 0.0  # PyTorch warns where there is no "between"
        self.lstm = nn.LSTM(input_size, config.hidden_size, config.num_layers, dropout=between)

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        # Not packed: on a CPU the backward of a packed LSTM takes a time that grows with the square of the length. What
        # it reads after a row's end has no part in the state that is taken.
        states, _ = self.lstm(embedded)
        last = (lengths - 1).to(states.device)
        return Encoding(states[last, torch.arange(len(lengths), device=states.device)])

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        return Parse(self(embedded, lengths).vector)
