"""TreeRNN on gold trees: tanh(W [left; right] + b), the leaves being embeddings."""

from torch import Tensor

from ordered_memory.config import TreeRNNConfig
from ordered_memory.encoders.gold_trees import GoldTreeEncoder, fitted
from ordered_memory.memory import TreeRNNCell


class TreeRNNEncoder(GoldTreeEncoder):
    def __init__(self, input_size: int, config: TreeRNNConfig) -> None:
        super().__init__()
        self.output_size = config.hidden_size
        self.leaf_map = fitted(input_size, config.hidden_size)
        self.cell = TreeRNNCell(config.hidden_size, config.dropout)

    def leaf(self, tokens: Tensor) -> Tensor:
        leaves: Tensor = self.leaf_map(tokens)
        return leaves

    def compose(self, left: Tensor, right: Tensor) -> Tensor:
        parents: Tensor = self.cell(left, right)
        return parents
