"""The settings of every system that encodes sentences."""

import math
from dataclasses import dataclass
from typing import Literal

from ordered_memory.config.checks import (
    require,
    require_divides,
    require_not_negative,
    require_positive,
    require_rate,
)


@dataclass(frozen=True)
class OrderedMemoryConfig:
    """Ordered Memory; the defaults are the paper's for ListOps."""

    hidden_size: int = 128
    """Size of a slot, and of the sentence's vector."""
    num_slots: int = 21
    """Slots of the memory: how deep the stack may grow."""
    test_slots: int | None = None
    """Slots when it is not training; as many as in training if not named."""
    dropout: float = 0.1
    """Dropout before each linear map of the cell."""
    attention_dropout: float = 0.3
    """Dropout before each linear map of the attention."""
    attention: Literal["released", "paper"] = "released"
    """Score of a slot: as in the authors' code, which made the published figures, or as the paper prints it."""
    cell: Literal["gated", "tree-rnn"] = "gated"
    """What composes two sub-trees: the gated recursive cell, or the paper's ablation."""
    threshold: float = 1e-5
    """A cell is computed only where the pointer's cumulative probability reaches this; 0 computes all."""
    entropy_weight: float = 0.0
    """Weight of the pointer's entropy in the loss: it makes soft and hard pointer agree; not in the paper."""
    hard_share: float = 0.0
    """Share of the training steps in which the pointer is hard, and learns nothing itself: the cell learns to work with
    whole sub-trees, and the pointer of the other steps to be sharp; not in the paper. It counts once trees are found,
    where they are sought first; along written trees no pointer is asked in these steps."""

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require_positive("num_slots", self.num_slots)
        if self.test_slots is not None:
            require_positive("test_slots", self.test_slots)
        for name in ("dropout", "attention_dropout", "threshold", "hard_share"):
            require_rate(name, getattr(self, name))
        require_not_negative("entropy_weight", self.entropy_weight)


@dataclass(frozen=True)
class LSTMConfig:
    """PyTorch's LSTM; its last state is the sentence's vector."""

    hidden_size: int = 128
    """Size of the state, and of the sentence's vector."""
    num_layers: int = 1
    """Layers, one above the other."""
    dropout: float = 0.0
    """Dropout between layers."""

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require_positive("num_layers", self.num_layers)
        require_rate("dropout", self.dropout)


@dataclass(frozen=True)
class ONLSTMConfig:
    """An LSTM of ordered neurons, which induces trees."""

    hidden_size: int = 128
    """Size of the state, and of the sentence's vector."""
    chunk_size: int = 8
    """Neurons that share a master gate; it divides the hidden size."""
    dropout: float = 0.0
    """Dropout on the state that goes into the next step, the same for all steps of a sentence."""

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require_positive("chunk_size", self.chunk_size)
        require_divides("chunk_size", self.chunk_size, self.hidden_size)
        require_rate("dropout", self.dropout)


@dataclass(frozen=True)
class RRNetConfig:
    """A recurrent-recursive network, which closes nodes while it reads; decisions are learned by REINFORCE."""

    hidden_size: int = 128
    """Size of a node's state, and of the sentence's vector."""
    depth: int = 8
    """Levels of nodes: a tree is at most this deep."""
    dropout: float = 0.0
    """Dropout on the summaries that go up."""
    closing_bias: float = -1.0
    """The bias of the decision to close at the start; the further below 0, the more it reads as an LSTM does."""
    policy_weight: float = 0.1
    """Weight of the policy's gradient beside the classifier's."""
    policy_rate: float = 1.0
    """The policy's learning rate, as a share of the network's."""
    entropy_weight: float = 0.01
    """Weight of the reward for decisions that are not certain."""

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require(self.depth >= 2, f"depth is {self.depth}, and must be at least 2: with one level nothing can close")
        require_rate("dropout", self.dropout)
        require_positive("policy_rate", self.policy_rate)
        require(math.isfinite(self.closing_bias), f"closing_bias is {self.closing_bias}, and must be finite")
        for name in ("policy_weight", "entropy_weight"):
            require_not_negative(name, getattr(self, name))


def require_heads(config: "TransformerConfig | UniversalTransformerConfig") -> None:
    require_divides("num_heads", config.num_heads, config.hidden_size)
    fits = config.positions != "distances" or config.num_heads % 2 == 0
    require(fits, f"num_heads is {config.num_heads}, and with positions told by distances it must be an even number")


@dataclass(frozen=True)
class TransformerConfig:
    """A Transformer over the joint sequence of all sentences; the last position's state is the vector."""

    hidden_size: int = 128
    """Size of a position's state, and of the vector."""
    num_layers: int = 4
    """Layers, one above the other."""
    num_heads: int = 8
    """Heads of the attention; their number divides the hidden size."""
    feed_forward_size: int = 512
    """Size of the hidden layer of the feed-forward network."""
    dropout: float = 0.1
    """Dropout on the input, and on what each part adds."""
    norm: Literal["before", "after"] = "before"
    """Normalise before each part, which trains well, or after it, as the first Transformer did."""
    positions: Literal["sinusoids", "distances"] = "sinusoids"
    """Sinusoids of each position on the input, as the first Transformer had them; or half of the heads look to the left
    and half to the right, and a key counts the less the further off it is (after Press et al. 2022)."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "num_layers", "num_heads", "feed_forward_size"):
            require_positive(name, getattr(self, name))
        require_heads(self)
        require_rate("dropout", self.dropout)


@dataclass(frozen=True)
class UniversalTransformerConfig:
    """A Transformer of one block, looped, over the joint sequence of all sentences."""

    hidden_size: int = 128
    """Size of a position's state, and of the vector."""
    num_steps: int = 6
    """Times that the block is applied; with halting, at most."""
    num_heads: int = 8
    """Heads of the attention; their number divides the hidden size."""
    feed_forward_size: int = 512
    """Size of the hidden layer of the feed-forward network."""
    dropout: float = 0.1
    """Dropout on each step's input, and on what each part adds."""
    norm: Literal["before", "after"] = "before"
    """Normalise before each part, which trains well, or after it, as the first Transformer did."""
    positions: Literal["sinusoids", "distances"] = "sinusoids"
    """Sinusoids of each position on the input, as the first Transformer had them; or half of the heads look to the left
    and half to the right, and a key counts the less the further off it is (after Press et al. 2022)."""
    halting: bool = False
    """Let each position decide when to stop."""
    halting_epsilon: float = 0.01
    """A position stops when its summed halting probability reaches 1 minus this."""
    halting_bias: float = -1.0
    """The bias of the halting probability at the start; less than 0 gives more steps."""
    ponder_weight: float = 0.01
    """Weight of the ponder cost: the mean number of steps, and the remainder."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "num_steps", "num_heads", "feed_forward_size"):
            require_positive(name, getattr(self, name))
        require_heads(self)
        for name in ("dropout", "halting_epsilon"):
            require_rate(name, getattr(self, name))
        require(math.isfinite(self.halting_bias), f"halting_bias is {self.halting_bias}, and must be finite")
        require_not_negative("ponder_weight", self.ponder_weight)


@dataclass(frozen=True)
class TreeConfig:
    hidden_size: int = 128
    """Size of a node, and of the sentence's vector."""
    dropout: float = 0.0
    """Dropout before each linear map of the composition."""

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require_rate("dropout", self.dropout)


@dataclass(frozen=True)
class TreeRNNConfig(TreeConfig):
    """One linear map and tanh, on gold trees."""


@dataclass(frozen=True)
class TreeLSTMConfig(TreeConfig):
    """The binary TreeLSTM, on gold trees."""


@dataclass(frozen=True)
class TreeCellConfig(TreeConfig):
    """Ordered Memory's gated recursive cell, on gold trees."""


@dataclass(frozen=True)
class GumbelTreeConfig:
    """Gumbel Tree-LSTM (Choi et al. 2018): merges chosen by straight-through Gumbel-softmax."""

    hidden_size: int = 128
    """Size of a node's hidden state, and of the sentence's vector."""
    leaf_lstm: bool = True
    """Whether an LSTM reads the tokens before they become leaves."""
    temperature: float = 1.0
    """Of the soft choice whose gradient is taken; the lower, the harder."""

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require_positive("temperature", self.temperature)


@dataclass(frozen=True)
class SPINNConfig:
    """RL-SPINN (Yogatama et al. 2016): shift or reduce, learned by REINFORCE."""

    hidden_size: int = 128
    """Size of a node's hidden state, and of the sentence's vector."""
    tracking_size: int = 64
    """Size of the LSTM that decides between shift and reduce."""
    rl_weight: float = 1.0
    """Weight of REINFORCE beside the cross-entropy."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "tracking_size", "rl_weight"):
            require_positive(name, getattr(self, name))


@dataclass(frozen=True)
class CooperativeConfig:
    """The cooperative parser of Havrylov et al. (2019): trees learned by PPO, beside the composer."""

    hidden_size: int = 128
    """Size of a node's hidden state, and of the sentence's vector."""
    parser_size: int = 128
    """Size of a node's hidden state in the parser."""
    parser_rate: float = 0.1
    """The parser's learning rate, as a share of the composer's."""
    ppo_updates: int = 15
    """Updates of the parser from each batch, at most."""
    ppo_clip: float = 0.2
    """How far a tree's probability may move before its gain is clipped."""
    entropy_weight: float = 1e-4
    """Weight of the parser's entropy, which keeps it trying other trees."""
    entropy_half_life: int = 0
    """Steps after which that weight is half as large, and after as many again a quarter; 0: it stays."""

    def __post_init__(self) -> None:
        for name in ("hidden_size", "parser_size", "parser_rate", "ppo_updates", "ppo_clip"):
            require_positive(name, getattr(self, name))
        require_rate("entropy_weight", self.entropy_weight)
        require_not_negative("entropy_half_life", self.entropy_half_life)


EncoderConfig = (
    OrderedMemoryConfig
    | LSTMConfig
    | ONLSTMConfig
    | RRNetConfig
    | TransformerConfig
    | UniversalTransformerConfig
    | TreeRNNConfig
    | TreeLSTMConfig
    | TreeCellConfig
    | GumbelTreeConfig
    | SPINNConfig
    | CooperativeConfig
)
ENCODER_CONFIGS: dict[str, type[EncoderConfig]] = {
    "ordered-memory": OrderedMemoryConfig,
    "lstm": LSTMConfig,
    "on-lstm": ONLSTMConfig,
    "rrnet": RRNetConfig,
    "transformer": TransformerConfig,
    "universal-transformer": UniversalTransformerConfig,
    "tree-rnn": TreeRNNConfig,
    "tree-lstm": TreeLSTMConfig,
    "tree-cell": TreeCellConfig,
    "gumbel-tree": GumbelTreeConfig,
    "rl-spinn": SPINNConfig,
    "cooperative": CooperativeConfig,
}
