"""What is measured: a layer, a batch, and how much useful arithmetic there is in it."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from ordered_memory.classifier import Classifier
from ordered_memory.memory import MASK_FLOOR, OrderedMemory
from ordered_memory.tasks.listops import WindowConfig, window

Weights = Literal["random", "sharp", "trained"]

RIVALS: dict[str, dict[str, float]] = {
    "1 row of 250, training": {"EBT-GRC": 3.3, "CRvNN": 34.0},
    "16 rows of 250, training": {"EBT-GRC": 0.5, "CRvNN": 7.3},
}
"""Published speeds of other systems as multiples of the released Ordered Memory's, which computes every cell."""


@dataclass(frozen=True)
class Case:
    """A layer and a batch."""

    name: str
    weights: Weights = "random"
    """As at the start of training; random with the attention scaled up until it points sharply; or a checkpoint's."""
    hidden_size: int = 128
    num_slots: int = 21
    rows: int = 128
    tokens: int = 50
    training: bool = True
    dropout: float = 0.0
    checkpoint: str | None = None
    """Where the trained weights are; the batch is then of real expressions, which it has learned to parse."""

    def layer(self, backend: Literal["native", "readable"], recompute: bool = False) -> OrderedMemory:
        if self.checkpoint is not None:
            om = copy.deepcopy(memory_of(_trained(self.checkpoint)))
            om.backend, om.recompute = backend, recompute
            return om.train(self.training)
        torch.manual_seed(0)
        om = OrderedMemory(
            self.hidden_size,
            self.hidden_size,
            self.num_slots,
            dropout=self.dropout,
            attention_dropout=self.dropout,
            backend=backend,
            recompute=recompute,
        )
        if self.weights == "sharp":
            score = om.get_submodule("directions.0.attention.score")
            with torch.no_grad():
                for name, factor in (("query_norm.weight", 6), ("key_norm.weight", 6), ("weight.weight", 1000)):
                    score.get_parameter(name).mul_(factor)
        return om.train(self.training)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Tokens and lengths: between half the longest and the longest."""
        if self.checkpoint is not None:
            return _embedded(self.checkpoint, self.rows, self.tokens)
        generator = torch.Generator().manual_seed(1)
        lengths = torch.randint((self.tokens + 1) // 2, self.tokens + 1, (self.rows,), generator=generator)
        lengths[0] = self.tokens
        return torch.randn(self.tokens, self.rows, self.hidden_size, generator=generator), lengths

    def step(self, om: OrderedMemory) -> Callable[[], Tensor]:
        """What is timed: forward and backward of a loss on the last output, or forward alone."""
        packed = pack_padded_sequence(*self.batch(), enforce_sorted=False)  # once: padding is none of a step's work

        def run() -> Tensor:
            with torch.set_grad_enabled(self.training):
                om.zero_grad()
                last: Tensor = om.last_state(packed).M_hat[0, :, -1]
                if self.training:
                    last.square().sum().backward()  # type: ignore[no-untyped-call]
            return last

        return run

    def work(self) -> Work:
        """The arithmetic of computed cells, keys and queries; nothing counts for what is skipped."""
        om, (x, lengths) = self.layer("native"), self.batch()
        with torch.no_grad():
            pointer = om.eval().read(x, lengths=lengths).p[0]
        real = torch.arange(len(x))[:, None] < lengths
        reached = pointer.cumsum(-1)
        cells = ((reached >= om.threshold) & real[..., None])[1:].sum().item()
        mask = nn.functional.pad(reached[..., 1:], (0, 1), value=1.0)
        keys = ((mask[:-1] >= MASK_FLOOR) & real[1:, :, None]).sum().item()
        tokens = int(real.sum())
        products = (24 * cells + keys + 2 * tokens) * om.hidden_size**2
        return Work(tokens, cells / tokens, 2.0 * products * (3 if self.training else 1))


@dataclass(frozen=True)
class Work:
    """How much there is to do."""

    tokens: int
    cells: float
    """For each token."""
    operations: float
    """Floating-point operations that are useful: a multiplication and an addition are two."""


@functools.cache
def _trained(checkpoint: str) -> Classifier:
    return Classifier.from_pretrained(checkpoint)


def memory_of(model: Classifier) -> OrderedMemory:
    """The layer within a classifier."""
    memory = model.encoder.get_submodule("memory")
    assert isinstance(memory, OrderedMemory)
    return memory


@functools.cache
def _embedded(checkpoint: str, rows: int, tokens: int) -> tuple[Tensor, Tensor]:
    """Expressions of half the tokens to all of them, of the operators that the model was trained on."""
    model = _trained(checkpoint)
    operators = tuple(model.card["data"]["operators"])
    drawn = window(WindowConfig(operators=operators, size=rows, min_length=(tokens + 1) // 2, max_length=tokens))
    batch = model.collate([model.vocabulary.encode(example.sentences[0]) for example in drawn])
    return model.embedding(batch.tokens).detach(), batch.lengths


def cases(checkpoint: str | None) -> list[Case]:
    """All that `om bench` compares; with a checkpoint, its weights and real expressions too."""
    listops = [
        Case("ListOps size, training"),
        Case("ListOps size, training, dropout", dropout=0.2),
        Case("ListOps size, training", "sharp"),
        Case("ListOps size, inference", training=False),
        Case("ListOps size, inference", "sharp", training=False),
    ]
    logic = [
        Case("logic size, training", "random", 200, 12, 256, 20),
        Case("logic size, training", "sharp", 200, 12, 256, 20),
        Case("logic size, inference", "random", 200, 12, 256, 20, training=False),
    ]
    few = [
        Case("16 rows of 250, training", "sharp", rows=16, tokens=250),
        Case("1 row of 250, training", "sharp", rows=1, tokens=250),
        Case("1 row of 1,000, inference", rows=1, tokens=1000, training=False),
        Case("1 row of 1,000, inference", "sharp", rows=1, tokens=1000, training=False),
    ]
    if checkpoint is None:
        return listops + logic + few
    trained = [
        Case("ListOps size, training", "trained", checkpoint=checkpoint),
        Case("ListOps size, inference", "trained", training=False, checkpoint=checkpoint),
        Case("16 rows of 250, training", "trained", rows=16, tokens=250, checkpoint=checkpoint),
        Case("1 row of 250, training", "trained", rows=1, tokens=250, checkpoint=checkpoint),
        Case("1 row of 1,000, inference", "trained", rows=1, tokens=1000, training=False, checkpoint=checkpoint),
    ]
    return listops + logic + few + trained
