"""Ordered Memory inside a model of your own, in place of nn.LSTM: is a string of brackets balanced so far?

Run it: python examples/layer_in_your_model.py
"""

import torch
from torch import nn

from ordered_memory import OrderedMemory


class Balance(nn.Module):
    """For every prefix of the string: balanced, or not."""

    def __init__(self, size: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2, size)
        self.memory = OrderedMemory(size, size, num_slots=6, batch_first=True)
        self.head = nn.Linear(size, 2)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        output, _ = self.memory(self.embedding(tokens), lengths=lengths)  # (B, T, size), as nn.LSTM's
        return self.head(output)


def brackets(rows: int, longest: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Random strings of ( and ) that never close more than they opened; each prefix is labelled."""
    lengths = torch.randint(4, longest + 1, (rows,))
    tokens, depth = torch.zeros(rows, longest, dtype=torch.long), torch.zeros(rows, dtype=torch.long)
    labels = torch.zeros(rows, longest, dtype=torch.long)
    for time in range(longest):
        closes = (torch.rand(rows) < 0.5) & (depth > 0) | (depth >= 5)
        tokens[:, time] = closes.long()
        depth += 1 - 2 * closes.long()
        labels[:, time] = (depth == 0).long()
    return tokens, lengths, labels


def main(steps: int = 150) -> float:
    torch.manual_seed(0)
    model = Balance()
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    accuracy = 0.0
    for step in range(1, steps + 1):
        tokens, lengths, labels = brackets(rows=32, longest=12)
        real = torch.arange(12) < lengths[:, None]
        logits = model(tokens, lengths)
        loss = nn.functional.cross_entropy(logits[real], labels[real])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        accuracy = (logits[real].argmax(-1) == labels[real]).float().mean().item()
        if step % 25 == 0:
            print(f"step {step:3}  loss {loss.item():.3f}  accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
