"""Binary TreeLSTM (Tai, Socher and Manning 2015) on gold trees: a forget gate for each child.

A node is its h and its c, side by side; a leaf's h is its embedding, and its c is zero.
"""

import torch
from torch import Tensor, nn

from ordered_memory.config import TreeLSTMConfig
from ordered_memory.encoders.gold_trees import GoldTreeEncoder, fitted


class TreeLSTMCell(nn.Module):
    """[i, f_left, f_right, o, u] = W [h_left; h_right] + b, with forget gates that start open (bias 1)."""

    def __init__(self, size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.size = size
        self.linear = nn.Linear(2 * size, 5 * size)
        self.dropout = nn.Dropout(dropout)
        nn.init.zeros_(self.linear.bias)
        nn.init.ones_(self.linear.bias[size : 3 * size])

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        (h_left, c_left), (h_right, c_right) = left.chunk(2, -1), right.chunk(2, -1)
        mixed = self.linear(self.dropout(torch.cat((h_left, h_right), -1)))
        i, f_left, f_right, o = mixed[:, : 4 * self.size].sigmoid().chunk(4, -1)
        c = i * mixed[:, 4 * self.size :].tanh() + f_left * c_left + f_right * c_right
        return torch.cat((o * c.tanh(), c), -1)


class TreeLSTMEncoder(GoldTreeEncoder):
    def __init__(self, input_size: int, config: TreeLSTMConfig) -> None:
        super().__init__()
        self.output_size = config.hidden_size
        self.leaf_map = fitted(input_size, config.hidden_size)
        self.cell = TreeLSTMCell(config.hidden_size, config.dropout)

    def leaf(self, tokens: Tensor) -> Tensor:
        h = self.leaf_map(tokens)
        return torch.cat((h, torch.zeros_like(h)), -1)

    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        parents: Tensor = self.cell(left, right)
        return parents
