"""What every encoder has in common: embedded tokens in, one vector for each row out, and a parse where it has one."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from ordered_memory.trees import Spans


class Encoding(NamedTuple):
    """What training needs."""

    vector: Tensor  # (batch, output_size)
    auxiliary_loss: Tensor | None = None  # added to the classifier's own


class Parse(NamedTuple):
    """What evaluation and pictures need as well."""

    vector: Tensor  # (batch, output_size)
    spans: list[Spans] | None = None  # of each row's induced binary tree, where the encoder induces one
    pointer: Tensor | None = None  # (batch, time, slots), where the encoder has one


class Encoder(nn.Module, ABC):
    """Reads rows of embedded tokens; each file beside this one holds one."""

    trees: ClassVar[Literal["none", "gold", "latent"]]
    """Whether it uses no trees, needs gold trees, or induces its own."""
    output_size: int

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor) -> Encoding:
        """(time, batch, size), padded, and each row's length."""

    @abstractmethod
    def parse(self, embedded: Tensor, lengths: Tensor, **options: Any) -> Parse:
        """The same vector, and the tree behind it. Options are the encoder's own; it refuses what it does not know."""
