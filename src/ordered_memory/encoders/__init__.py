"""The compared systems, by name; one file each."""

from typing import Any

from ordered_memory.config import EncoderConfig
from ordered_memory.encoders.cooperative import CooperativeEncoder
from ordered_memory.encoders.encoder import Encoder, Encoding, Outcome, Parse
from ordered_memory.encoders.gumbel_tree import GumbelTreeEncoder
from ordered_memory.encoders.lstm import LSTMEncoder
from ordered_memory.encoders.on_lstm import ONLSTMEncoder
from ordered_memory.encoders.ordered_memory import OrderedMemoryEncoder
from ordered_memory.encoders.rrnet import RRNetEncoder
from ordered_memory.encoders.shared_trees import SharedTrees
from ordered_memory.encoders.spinn import SPINNEncoder
from ordered_memory.encoders.transformer import TransformerEncoder
from ordered_memory.encoders.tree_cell import TreeCellEncoder
from ordered_memory.encoders.tree_lstm import TreeLSTMEncoder
from ordered_memory.encoders.tree_rnn import TreeRNNEncoder
from ordered_memory.encoders.universal_transformer import UniversalTransformerEncoder

ENCODERS: dict[str, Any] = {
    "ordered-memory": OrderedMemoryEncoder,
    "lstm": LSTMEncoder,
    "on-lstm": ONLSTMEncoder,
    "rrnet": RRNetEncoder,
    "transformer": TransformerEncoder,
    "universal-transformer": UniversalTransformerEncoder,
    "tree-rnn": TreeRNNEncoder,
    "tree-lstm": TreeLSTMEncoder,
    "tree-cell": TreeCellEncoder,
    "gumbel-tree": GumbelTreeEncoder,
    "rl-spinn": SPINNEncoder,
    "cooperative": CooperativeEncoder,
}


def make_encoder(name: str, input_size: int, config: EncoderConfig, sentences: int = 1) -> Encoder:
    """The encoder of that name for embeddings of that size, and for that many sentences in an example."""
    kind = ENCODERS[name]
    encoder: Encoder = kind(input_size, config, sentences) if kind.joint else kind(input_size, config)
    return encoder


__all__ = ["ENCODERS", "Encoder", "Encoding", "Outcome", "Parse", "SharedTrees", "make_encoder"]
