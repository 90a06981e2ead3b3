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
        # Not packed: on a CPU the backward of a packed LSTM takes a time that grows with the square of the length. The
        # short rows and the long ones are read apart instead, for a pair's sentences may differ much in length.
        order = lengths.argsort(stable=True)
        cut = cheapest_cut(lengths[order])
        parts = [self._last_states(embedded, lengths, rows) for rows in (order[:cut], order[cut:]) if len(rows)]
        return Encoding(torch.cat(parts)[order.argsort().to(embedded.device)])

    def _last_states(self, embedded: Tensor, lengths: Tensor, rows: Tensor) -> Tensor:
        """Of these rows. What is read after a row's end has no part in the state that is taken."""
        last = (lengths[rows] - 1).to(embedded.device)
        states, _ = self.lstm(embedded[: int(lengths[rows].max()), rows.to(embedded.device)])
        taken: Tensor = states[last, torch.arange(len(rows), device=embedded.device)]
        return taken

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        return Parse(self(embedded, lengths).vector)


def cheapest_cut(lengths: Tensor) -> int:
    """How many of these rows, the shortest first, to read apart, so that the least padding is read; 0 if none."""
    rows = torch.arange(len(lengths))
    before = torch.cat((lengths.new_zeros(1), lengths[:-1]))  # the longest of the rows that are read apart
    return int((rows * before + (len(lengths) - rows) * lengths[-1]).argmin())
