"""Ordered Memory as an encoder: the bottom candidate after the last token, where all sub-trees are reduced to one."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ordered_memory import native
from ordered_memory.config import OrderedMemoryConfig
from ordered_memory.encoders.choices import Choices, candidates, choices, distances_of
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.encoders.shared_trees import compose_along
from ordered_memory.memory import OrderedMemory, Pointer
from ordered_memory.trees import Spans, induce_spans


class OrderedMemoryEncoder(Encoder):
    trees: ClassVar[Literal["none", "gold", "latent"]] = "latent"
    padded: ClassVar[bool] = False

    def __init__(self, input_size: int, config: OrderedMemoryConfig) -> None:
        super().__init__()
        self.output_size, self.test_slots = config.hidden_size, config.test_slots
        self.entropy_weight = config.entropy_weight
        self.memory = OrderedMemory(
            input_size,
            config.hidden_size,
            config.num_slots,
            dropout=config.dropout,
            attention_dropout=config.attention_dropout,
            attention=config.attention,
            cell=config.cell,
            threshold=config.threshold,
        )

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        if trees is not None and self.imitates:
            return Encoding(*self._imitate(trees, embedded, lengths))
        if trees is not None:
            return Encoding(self._along(trees, embedded, lengths))
        if self.training and self.step_pointer != "soft":
            state = self.memory.last_state(embedded, lengths=lengths, pointer=self.step_pointer)
            return Encoding(state.M_hat[0, :, -1])
        return Encoding(*self._own(embedded, lengths))

    def _own(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor | None]:
        """The vector of its own soft pointer, and what that costs where blur does."""
        if self.training and self.entropy_weight:
            reading = self.memory.read(embedded, lengths=lengths)
            return reading.state.M_hat[0, :, -1], self.entropy_weight * pointer_entropy(reading.p[0], lengths)
        state = self.memory.last_state(embedded, lengths=lengths, num_slots=self._slots(None))
        return state.M_hat[0, :, -1], None

    def _along(self, trees: Sequence[Spans], embedded: Tensor, lengths: Tensor) -> Tensor:
        """What the memory would come to if its pointer built these trees: no pointer is asked."""
        return compose_along(trees, embedded, lengths, self._leaf, self._compose, self._engine)

    def _imitate(self, trees: Sequence[Spans], embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """The same, and how far the pointer is from building them."""
        plan = choices(trees, lengths.tolist(), self._most_slots)
        leaves, values = self._candidates(plan, embedded)
        distances = self._distances(plan, leaves, values)
        return values[plan.roots.to(embedded.device)], distances.sum() / max(1, len(distances))

    def draw(self, embedded: Tensor, lengths: Tensor) -> Parse:
        return self.parse(embedded, lengths, pointer="sampled", num_slots=self._most_slots)

    def distances(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None) -> Tensor:
        assert trees is not None
        plan = choices(trees, lengths.tolist(), self._most_slots)
        with torch.no_grad():
            leaves, values = self._candidates(plan, embedded)
        rows = torch.repeat_interleave(lengths - 1).to(embedded.device)  # of each decision
        return embedded.new_zeros(len(trees)).index_add(0, rows, self._distances(plan, leaves, values))

    @property
    def _most_slots(self) -> int:
        """As many as trees are found with."""
        return self.test_slots or self.memory.num_slots

    def _candidates(self, plan: Choices, embedded: Tensor) -> tuple[Tensor, Tensor]:
        """The different tokens' leaves, and all that pointers can choose from."""
        leaves = self._leaf(embedded.flatten(0, 1)[plan.leaves.to(embedded.device)])
        if (engine := self._engine) is not None:
            return leaves, engine(leaves, plan.steps)
        parameters = [*self._direction.cell.parameters(), *self._direction.norm.parameters()]
        return leaves, candidates(plan, leaves, self._compose, parameters)

    def _distances(self, plan: Choices, leaves: Tensor, values: Tensor) -> Tensor:
        """Of the pointer from each decision."""
        score = self._direction.attention.score
        tokens, slots = score.of_token(leaves), score.of_slot(values)
        of_choices = tokens[plan.tokens.to(leaves.device)], slots[plan.candidates.to(leaves.device)]
        return distances_of(plan, score.join(*of_choices, self._most_slots))

    def _leaf(self, tokens: Tensor) -> Tensor:
        leaves: Tensor = self._direction.norm(self._direction.projection(tokens))
        return leaves

    def _compose(self, left: Tensor, right: Tensor) -> Tensor:
        # The older sub-tree, on the left, waits in memory; the newer one comes from below.
        parents: Tensor = self._direction.norm(self._direction.cell(right, left))
        return parents

    @property
    def _engine(self) -> native.Composer | None:
        """What makes all nodes at once, in the place of `_compose`, as the layer's backend says."""
        backend, direction = self.memory.backend, self._direction
        return None if backend == "readable" else native.composer(direction.norm, direction.cell, backend == "native")

    @property
    def _direction(self) -> Any:
        return self.memory.directions[0]

    def parse(  # type: ignore[override]
        self,
        embedded: Tensor,
        lengths: Tensor,
        trees: Sequence[Spans] | None = None,
        pointer: Pointer = "soft",
        num_slots: int | None = None,
    ) -> Parse:
        slots = self._slots(num_slots)
        reading = self.memory.read(embedded, lengths=lengths, pointer=pointer, num_slots=slots)
        weights = reading.p[0].transpose(0, 1)  # (batch, time, slots)
        rows = lengths.cpu().numpy()
        found = induce_spans(weights.argmax(-1).cpu().numpy(), rows, weights.shape[-1])
        spans = [row[: length - 1] for row, length in zip(found, rows, strict=True)]
        return Parse(
            reading.state.M_hat[0, :, -1], [row[np.lexsort((-row[:, 1], row[:, 0]))] for row in spans], weights
        )

    def is_pointer(self, name: str) -> bool:
        return ".attention." in name

    def _slots(self, asked: int | None) -> int | None:
        """What was asked for, or at test the config's own number; None is the number of training."""
        return asked if asked is not None or self.training else self.test_slots


def pointer_entropy(pointers: Tensor, lengths: Tensor) -> Tensor:
    """The mean entropy of the pointers of all tokens but the first, which points nowhere: (time, batch, slots)."""
    # Below the clamp there is no gradient: that of p log p has no bound at zero, where most slots are.
    entropy = torch.special.entr(pointers.clamp_min(1e-6)).sum(-1)
    counted = (torch.arange(1, len(entropy))[:, None] < lengths.cpu()).to(entropy)
    mean: Tensor = (entropy[1:] * counted).sum() / counted.sum().clamp_min(1)
    return mean
