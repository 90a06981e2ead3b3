"""ON-LSTM (Shen, Tan, Sordoni and Courville 2019): an LSTM whose neurons are ordered, and erased from one end.

cumax(z) = cumsum(softmax(z)) is a soft step from 0 to 1. The master gates F = cumax(.) and I = 1 - cumax(.) say from
where on old content is kept, and up to where new content is written; in their overlap the usual gates decide.

Trees come from the master forget gate's expected split point, d = chunks - sum(F): between the tokens where most is
forgotten lies the highest split, and so on within each part. The authors' parser also cuts the token after a split off
from what follows it, which favours right-branching trees (Dyer, Melis and Blunsom 2019); ours splits, and no more.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

from ordered_memory.config import ONLSTMConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.trees import Spans, induce_spans


class ONLSTMEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "latent"

    def __init__(self, input_size: int, config: ONLSTMConfig) -> None:
        super().__init__()
        self.output_size, self.dropout = config.hidden_size, config.dropout
        self.chunks = config.hidden_size // config.chunk_size
        # Gates in one product: F and I of each chunk; then f, i, o and the proposal of each neuron.
        gates = 2 * self.chunks + 4 * config.hidden_size
        self.input, self.recurrent = nn.Linear(input_size, gates), nn.Linear(config.hidden_size, gates, bias=False)

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        return Encoding(self._read(embedded, lengths)[0])

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        vector, distances = self._read(embedded, lengths)
        return Parse(vector, split_spans(distances.detach().cpu().numpy(), lengths.cpu().numpy()))

    def _read(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The last state of each row (batch, size), and each token's expected split point (batch, time)."""
        packed = pack_padded_sequence(embedded, lengths.cpu(), enforce_sorted=False)
        steps = self.input(packed.data).split(packed.batch_sizes.tolist())
        weight = self.recurrent.weight.t()
        h = embedded.new_zeros(len(lengths), self.output_size)
        c = h.view(len(h), self.chunks, -1)
        kept = dropout(torch.ones_like(h), self.dropout, self.training)  # one mask for the whole sentence
        ended, forgets = [], []
        for step in steps:  # the rows that still go on, the longest first
            rows = len(step)
            if rows < len(h):
                ended.append(h[rows:])
                h, c, kept = h[:rows], c[:rows], kept[:rows]
            h, c, forget = self._step(torch.addmm(step, h * kept if self.training else h, weight), c)
            forgets.append(forget)
        last = torch.cat([h, *reversed(ended)])[packed.unsorted_indices]
        split_points = self.chunks - torch.cat(forgets).sum(-1)
        padded = pad_sequence(
            list(torch.split(split_points, packed.batch_sizes.tolist()))
        )  # (batch, time), longest first
        return last, padded[packed.unsorted_indices]

    def _step(self, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One token further: h (rows, size), c (rows, chunks, chunk_size), F (rows, chunks)."""
        rows, chunks, size = len(gates), self.chunks, self.output_size
        masters, usual, output, proposal = torch.split(gates, [2 * chunks, 2 * size, size, size], -1)
        forget, rest = masters.view(rows, 2, chunks).softmax(-1).cumsum(-1).unbind(1)
        both = torch.stack((forget, 1 - rest), 1)[..., None]  # F and I  (rows, 2, chunks, 1)
        overlap = both[:, :1] * both[:, 1:]
        # f' = f w + (F - w) = F + w (f - 1), and i' likewise
        keep, write = torch.addcmul(both, overlap, usual.view(rows, 2, chunks, -1).sigmoid() - 1).unbind(1)
        c = torch.addcmul(keep * c, write, proposal.tanh().view_as(c))
        return output.sigmoid() * c.tanh().view(rows, size), c, forget


def split_spans(heights: NDArray[np.floating], lengths: NDArray[np.int64]) -> list[Spans]:
    """The spans, in preorder, of the trees whose highest split comes first.

    heights: (batch, time), of the split before each token; the first has none. Of two that are equal the later one is
    the higher, as it is with Ordered Memory's pointers.
    """
    ranks = heights.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    return preorder_spans(ranks, lengths, heights.shape[1])


def preorder_spans(heights: NDArray[np.integer], lengths: NDArray[np.int64], bound: int) -> list[Spans]:
    """The same from whole numbers below the bound, one list of spans for each row."""
    found = induce_spans(heights, lengths, bound)
    rows = [row[: length - 1] for row, length in zip(found, lengths, strict=True)]
    return [row[np.lexsort((-row[:, 1], row[:, 0]))] for row in rows]
