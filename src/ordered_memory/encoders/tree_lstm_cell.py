"""The binary TreeLSTM's cell (Tai et al. 2015), and the leaves that it starts from."""

import torch
from torch import Tensor, nn


class TreeLSTMCell(nn.Module):
    """Composes two nodes. A node's state is one vector: hidden state and cell, side by side."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.linear = nn.Linear(2 * hidden_size, 5 * hidden_size)
        nn.init.ones_(self.linear.bias[hidden_size : 3 * hidden_size])  # both forget gates start open

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        left_hidden, left_cell = left.chunk(2, -1)
        right_hidden, right_cell = right.chunk(2, -1)
        gates, update = self.linear(torch.cat((left_hidden, right_hidden), -1)).split(
            (4 * self.hidden_size, self.hidden_size), -1
        )
        enter, keep_left, keep_right, leave = gates.sigmoid().chunk(4, -1)
        cell = enter * update.tanh() + keep_left * left_cell + keep_right * right_cell
        return torch.cat((leave * cell.tanh(), cell), -1)


class Leaves(nn.Module):
    """The states of the tokens: a linear map of each, or of an LSTM's outputs, which know what came before."""

    def __init__(self, input_size: int, hidden_size: int, lstm: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden_size) if lstm else None
        self.linear = nn.Linear(hidden_size if lstm else input_size, 2 * hidden_size)

    def forward(self, embedded: Tensor) -> Tensor:  # (time, rows, size) to (time, rows, 2 * hidden_size)
        states: Tensor = self.linear(embedded if self.lstm is None else self.lstm(embedded)[0])
        return states
