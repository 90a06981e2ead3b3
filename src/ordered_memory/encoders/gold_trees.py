"""Encoders that compose each sentence along its gold tree."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from torch import Tensor, nn

from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.encoders.shared_trees import compose_along
from ordered_memory.native import Composer
from ordered_memory.trees import Spans


class GoldTreeEncoder(Encoder):
    """What a leaf is and how two become one is the subclass's."""

    trees: ClassVar[Literal["none", "gold", "latent"]] = "gold"
    padded: ClassVar[bool] = False

    @abstractmethod
    def leaf(self, tokens: Tensor) -> Tensor:
        """(tokens, input_size) to (tokens, size of a node)."""

    @abstractmethod
    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        """The parents of two nodes each; all are (nodes, size of a node)."""

    def engine(self) -> Composer | None:
        """What makes all nodes at once, in the place of `compose`, if anything does."""
        return None

    def forward(self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None) -> Encoding:
        roots = compose_along(trees, embedded, lengths, self.leaf, self.compose, self.engine())
        return Encoding(roots[:, : self.output_size])

    def parse(  # type: ignore[override]
        self, embedded: Tensor, lengths: Tensor, trees: Sequence[Spans] | None = None
    ) -> Parse:
        return Parse(self(embedded, lengths, trees).vector)


def fitted(input_size: int, hidden_size: int) -> nn.Module:
    """Leaves are the embeddings themselves; where these have another size, a linear map of them."""
    return nn.Identity() if input_size == hidden_size else nn.Linear(input_size, hidden_size)
