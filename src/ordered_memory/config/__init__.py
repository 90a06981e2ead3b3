"""Everything a run can be told, as frozen dataclasses of plain values, and their way to JSON and back.

No torch here, so that `om --help` answers at once.
"""

from ordered_memory.config.checks import parse_duration
from ordered_memory.config.encoders import (
    ENCODER_CONFIGS,
    CooperativeConfig,
    EncoderConfig,
    GumbelTreeConfig,
    LSTMConfig,
    ONLSTMConfig,
    OrderedMemoryConfig,
    RRNetConfig,
    SPINNConfig,
    TransformerConfig,
    TreeCellConfig,
    TreeLSTMConfig,
    TreeRNNConfig,
    UniversalTransformerConfig,
)
from ordered_memory.config.experiment import ClassifierConfig, Experiment, TrainingConfig
from ordered_memory.config.reading import from_dict

__all__ = [
    "ENCODER_CONFIGS",
    "ClassifierConfig",
    "CooperativeConfig",
    "EncoderConfig",
    "Experiment",
    "GumbelTreeConfig",
    "LSTMConfig",
    "ONLSTMConfig",
    "OrderedMemoryConfig",
    "RRNetConfig",
    "SPINNConfig",
    "TrainingConfig",
    "TransformerConfig",
    "TreeCellConfig",
    "TreeLSTMConfig",
    "TreeRNNConfig",
    "UniversalTransformerConfig",
    "from_dict",
    "parse_duration",
]
