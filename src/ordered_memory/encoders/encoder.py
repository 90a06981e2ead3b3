"""What every encoder has in common: embedded tokens in, one vector for each row out, and a parse where it has one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from ordered_memory.memory import Pointer
from ordered_memory.trees import Spans


class Outcome(NamedTuple):
    """How each row's answer turned out, without gradient: what an encoder that samples its trees learns from."""

    loss: Tensor  # (batch,), the cross-entropy of the answer
    right: Tensor  # (batch,), bool
    baseline_loss: Tensor | None  # (batch,), of the answer from `Encoding.baseline`


class Encoding(NamedTuple):
    """What training needs."""

    vector: Tensor  # (batch, output_size)
    auxiliary_loss: Tensor | None = None  # added to the classifier's own
    baseline: Tensor | None = None  # (batch, output_size), another reading of the rows, to compare the answers with
    learn: Callable[[Outcome], Iterator[Tensor]] | None = None
    """Losses from the outcome: the first is added to the classifier's own, each further one is an update by itself."""


class Parse(NamedTuple):
    """What evaluation and pictures need as well."""

    vector: Tensor  # (batch, output_size)
    spans: list[Spans] | None = None  # of each row's induced binary tree, where the encoder induces one
    pointer: Tensor | None = None  # (batch, time, slots), where the encoder has one


class Encoder(nn.Module, ABC):
    """Reads rows of embedded tokens; each file beside this one holds one.

    Of pairs, the first sentences are the first half of the rows and the second ones the other half.
    """

    trees: ClassVar[Literal["none", "gold", "latent"]]
    """Whether it uses no trees, needs gold trees, or induces its own."""
    joint: ClassVar[bool] = False
    """Whether it reads the sentences of a pair as one: it is made with their number, and its vector is the pair's."""
    padded: ClassVar[bool] = True
    """Whether a short row costs as much as the longest of its batch, so that rows of like length belong together."""
    output_size: int
    step_pointer: Pointer = "soft"
    """The pointer of this training step, where the encoder has one; it learns from a soft one only."""
    imitates: bool = False
    """Whether this training step teaches the pointer the trees that come with the batch, where the encoder has one."""

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        """(time, batch, size), padded, each row's length, and for an encoder that needs them each row's gold tree.

        An encoder that induces trees may be given some in training, and then composes along them.
        """

    @abstractmethod
    def parse(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None, **options: Any) -> Parse:
        """The same vector, and the tree behind it. Options are the encoder's own; it refuses what it does not know."""

    def draw(self, embedded: Tensor, lengths: Tensor) -> Parse:
        """As `parse`, along a tree that is drawn by the pointer's weights, where the encoder has one."""
        raise NotImplementedError

    def distances(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None) -> Tensor:
        """Of the pointer from building each row's tree: minus the logarithm of how likely it is to. All but the pointer
        is held."""
        raise NotImplementedError

    def rate_scale(self, name: str) -> float:
        """By how much the learning rate of the parameter of that name differs from the classifier's."""
        return 1.0

    def is_pointer(self, name: str) -> bool:
        """Whether the parameter of that name serves to find the tree, and not to compose along it."""
        return False
