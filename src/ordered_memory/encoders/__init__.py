"""The compared systems, by name; one file each."""

from typing import Any

from ordered_memory.config import EncoderConfig
from ordered_memory.encoders.cooperative import CooperativeEncoder
from ordered_memory.encoders.encoder import Encoder, Encoding, Outcome, Parse
from ordered_memory.encoders.gumbel_tree import GumbelTreeEncoder
from ordered_memory.encoders.lstm import LSTMEncoder
from ordered_memory.encoders.ordered_memory import OrderedMemoryEncoder
from ordered_memory.encoders.spinn import SPINNEncoder

ENCODERS: dict[str, Any] = {
    "ordered-memory": OrderedMemoryEncoder,
    "lstm": LSTMEncoder,
    "gumbel-tree": GumbelTreeEncoder,
    "rl-spinn": SPINNEncoder,
    "cooperative": CooperativeEncoder,
}


def make_encoder(name: str, input_size: int, config: EncoderConfig, sentences: int = 1) -> Encoder:
    """The encoder of that name for embeddings of that size, and for that many sentences in an example."""
    kind = ENCODERS[name]
    encoder: Encoder = kind(input_size, config, sentences) if kind.joint else kind(input_size, config)
    return encoder


__all__ = ["ENCODERS", "Encoder", "Encoding", "Outcome", "Parse", "make_encoder"]
