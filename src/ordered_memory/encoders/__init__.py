"""The compared systems, by name; one file each."""

from typing import Any

from ordered_memory.config import EncoderConfig
from ordered_memory.encoders.encoder import Encoder, Encoding, Parse
from ordered_memory.encoders.lstm import LSTMEncoder
from ordered_memory.encoders.ordered_memory import OrderedMemoryEncoder

ENCODERS: dict[str, Any] = {"ordered-memory": OrderedMemoryEncoder, "lstm": LSTMEncoder}


def make_encoder(name: str, input_size: int, config: EncoderConfig) -> Encoder:
    """The encoder of that name for embeddings of that size."""
    encoder: Encoder = ENCODERS[name](input_size, config)
    return encoder


__all__ = ["ENCODERS", "Encoder", "Encoding", "Parse", "make_encoder"]
