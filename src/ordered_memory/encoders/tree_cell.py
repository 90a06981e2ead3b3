"""TreeCell on gold trees: Ordered Memory's gated recursive cell, its tree given instead of induced.

Leaves are LN(Wx + b), and the same LayerNorm follows the cell, as in Ordered Memory.
"""

from torch import Tensor, nn

from ordered_memory import native
from ordered_memory.config import TreeCellConfig
from ordered_memory.encoders.gold_trees import GoldTreeEncoder
from ordered_memory.memory import GatedRecursiveCell


class TreeCellEncoder(GoldTreeEncoder):
    def __init__(self, input_size: int, config: TreeCellConfig) -> None:
        super().__init__()
        self.output_size = config.hidden_size
        self.projection = nn.Linear(input_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)
        self.cell = GatedRecursiveCell(config.hidden_size, config.dropout)

    def leaf(self, tokens: Tensor) -> Tensor:
        leaves: Tensor = self.norm(self.projection(tokens))
        return leaves

    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        # In Ordered Memory the older sub-tree, on the left, waits in memory; the newer one comes from below.
        parents: Tensor = self.norm(self.cell(right, left))
        return parents

    def engine(self) -> native.Composer | None:
        return native.composer(self.norm, self.cell)
