"""What the two Transformers share: one joint sequence of all sentences, sinusoids, and the block.

A pair is read as `<start> first <delim> second <extract>`, a sentence as `<start> sentence <extract>`; the state at
`<extract>`, the last position, is the vector.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import relu, scaled_dot_product_attention

from ordered_memory.config import TransformerConfig, UniversalTransformerConfig

START, DELIMITER, EXTRACT = range(3)


class JointInput(nn.Module):
    """Puts the sentences of each example, and learned vectors around them, into one row."""

    def __init__(self, input_size: int, size: int, sentences: int) -> None:
        super().__init__()
        self.sentences = sentences
        self.projection = nn.Linear(input_size, size)
        self.norm = nn.LayerNorm(size)  # embeddings of any scale then stand beside sinusoids of size 1
        kinds = 3 if sentences > 1 else 2  # a lone sentence has no delimiter
        self.special = nn.Parameter(torch.randn(kinds, size))

    def forward(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(time, rows, input_size) to (examples, longest, size), and the length of each example."""
        order, joint_lengths = self.order(embedded.shape[0], lengths)
        tokens = self.norm(self.projection(embedded)).flatten(0, 1)
        table = torch.cat((tokens, self.special))
        return table.index_select(0, order.flatten().to(table.device)).view(*order.shape, -1), joint_lengths

    def order(self, time: int, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """For each place of each joint row, which of the tokens (time * rows) and special vectors stands there."""
        rows = len(lengths)
        sentences = lengths.cpu().view(self.sentences, -1)  # (sentences, examples)
        joint_lengths = sentences.sum(0) + self.sentences + 1
        places = torch.arange(int(joint_lengths.max())).expand(sentences.shape[1], -1)
        special = time * rows
        extract = special + (EXTRACT if self.sentences > 1 else EXTRACT - 1)
        order = torch.full_like(places, extract)  # padding is one of them too: it is masked, and never read
        order[:, 0] = special + START
        begin = torch.ones(sentences.shape[1], 1, dtype=torch.int64)
        for number, length in enumerate(sentences):
            row = number * sentences.shape[1] + torch.arange(sentences.shape[1])[:, None]
            inside = (places >= begin) & (places < begin + length[:, None])
            order = torch.where(inside, (places - begin) * rows + row, order)
            begin = begin + length[:, None] + 1
            if number + 1 < self.sentences:
                order = torch.where(places == begin - 1, special + DELIMITER, order)
        return order, joint_lengths


class Block(nn.Module):
    """Attention and then a feed-forward network, each added to what came in; norms come before them or after.

    Dropout is where the first Transformer has it: on the input's sums and on what each part adds, not inside them.
    """

    def __init__(self, config: TransformerConfig | UniversalTransformerConfig) -> None:
        super().__init__()
        size = config.hidden_size
        self.heads, self.norm_first = config.num_heads, config.norm == "before"
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query_key_value, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.inner, self.outer = nn.Linear(size, config.feed_forward_size), nn.Linear(config.feed_forward_size, size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, turns: Tensor | None) -> Tensor:
        """`turns` are the rotary waves, if positions are told so."""
        if self.norm_first:
            x = x + self.attend(self.attention_norm(x), mask, turns)
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attend(x, mask, turns))
        normed: Tensor = self.feed_forward_norm(x + self.feed_forward(x))
        return normed

    def attend(self, x: Tensor, mask: Tensor | None, turns: Tensor | None) -> Tensor:
        rows, time, size = x.shape
        query, key, value = self.query_key_value(x).view(rows, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if turns is not None:
            query, key = rotated(query, turns), rotated(key, turns)
        mixed = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attended: Tensor = self.dropout(self.output(mixed.transpose(1, 2).reshape(rows, time, size)))
        return attended

    def feed_forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.dropout(self.outer(relu(self.inner(x))))
        return made


def key_mask(lengths: Tensor, time: int, device: torch.device) -> Tensor | None:
    """(rows, 1, 1, time): which keys are there; None where all are."""
    if int(lengths.min()) == time:
        return None
    return (torch.arange(time) < lengths[:, None])[:, None, None].to(device)


def sinusoids(positions: Tensor, size: int) -> Tensor:
    """(positions, size): sines, then cosines, of wave lengths from 2 pi to 10,000 times that."""
    half = (size + 1) // 2
    rates = torch.exp(torch.arange(half).to(positions) * (-math.log(10_000) / max(half - 1, 1)))
    angles = positions[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), -1)[:, :size]


def position_waves(
    x: Tensor, config: TransformerConfig | UniversalTransformerConfig
) -> tuple[Tensor | None, Tensor | None]:
    """The sinusoids of the positions, one of the two: to be added to x, or to turn queries and keys by."""
    positions = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)
    if config.positions == "rotary":
        return None, sinusoids(positions, config.hidden_size // config.num_heads)
    return sinusoids(positions, config.hidden_size), None


def rotated(x: Tensor, waves: Tensor) -> Tensor:
    """Turns each pair of numbers by an angle that grows with the position: a product of two then hangs on the distance.

    x: (..., time, size), waves: (time, size), the sinusoids of the positions.
    """
    (one, other), (sine, cosine) = x.chunk(2, -1), waves.chunk(2, -1)
    return torch.cat((one * cosine - other * sine, one * sine + other * cosine), -1)


def last_state(states: Tensor, lengths: Tensor) -> Tensor:
    """(rows, size): the state at each row's last position."""
    return states[torch.arange(len(states), device=states.device), (lengths - 1).to(states.device)]
