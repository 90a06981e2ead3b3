"""What the two Transformers share: one joint sequence of all sentences, sinusoids, and the block.

A pair is read as `<start> first <delim> second <extract>`, a sentence as `<start> sentence <extract>`; the state at
`<extract>`, the last position, is the vector.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu, scaled_dot_product_attention

from ordered_memory.config import TransformerConfig, UniversalTransformerConfig

START, DELIMITER, EXTRACT = range(3)
FAR = -1e9
"""A score that hides a key: none other comes near it."""


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
        self.by_distance = config.positions == "distances"
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.query_key_value, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.inner, self.outer = nn.Linear(size, config.feed_forward_size), nn.Linear(config.feed_forward_size, size)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        if self.norm_first:
            x = x + self.attend(self.attention_norm(x), mask)
            return x + self.feed_forward(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attend(x, mask))
        normed: Tensor = self.feed_forward_norm(x + self.feed_forward(x))
        return normed

    def attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        rows, time, size = x.shape
        query, key, value = self.query_key_value(x).view(rows, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.by_distance:
            mixed = attend_by_distance(query, key, value, mask)
        else:
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


def attend_by_distance(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """All (rows, heads, time, size), `mask` as `key_mask` has it. The first half of the heads look to the left and the
    others to the right, both also at the query's own place; a key counts the less the further off it is.

    For all keys of a query, slope * distance and slope * place differ by the same, which softmax does not see: so one
    more number of each key tells it, and tells padding too, and no table of distances is made.
    """
    rows, heads, time, size = query.shape
    slopes = 2.0 ** -(1 + 2 * torch.arange(heads // 2).to(query))  # each head has a reach of its own
    bias = (slopes[:, None] * torch.arange(time).to(query)).expand(rows, -1, -1)

    def look_left(query: Tensor, key: Tensor, value: Tensor, bias: Tensor) -> Tensor:
        key = torch.cat((key, size**0.5 * bias[..., None]), -1)
        query, value = pad(query, (0, 1), value=1.0), pad(value, (0, 1))  # all of one size, or it is not the fast way
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=size**-0.5)[..., :-1]

    half = heads // 2
    left = look_left(query[:, :half], key[:, :half], value[:, :half], bias)
    # To the right is to the left from the end, and there padding comes first.
    query, key, value = (part[:, half:].flip(2) for part in (query, key, value))
    right = look_left(query, key, value, bias if mask is None else bias.masked_fill(~mask[:, :, 0].flip(-1), FAR))
    return torch.cat((left, right.flip(2)), 1)


def last_state(states: Tensor, lengths: Tensor) -> Tensor:
    """(rows, size): the state at each row's last position."""
    return states[torch.arange(len(states), device=states.device), (lengths - 1).to(states.device)]
