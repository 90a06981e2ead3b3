"""PyTorch's own LSTM: the first compared system, and the one that knows nothing of trees."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

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
        packed = pack_padded_sequence(embedded, lengths.cpu(), enforce_sorted=False)
        _, (last, _) = self.lstm(packed)
        return Encoding(last[-1])

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        return Parse(self(embedded, lengths).vector)
