"""Everything a run can be told, as frozen dataclasses of plain values, and their way to JSON and back.

No torch here, so that `om --help` answers at once.
"""

import dataclasses
import difflib
import math
import re
import types
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ordered_memory.errors import InputError
from ordered_memory.tasks import TASKS

Config = TypeVar("Config")


def require(holds: bool, message: str) -> None:
    """Refuse a value in words."""
    if not holds:
        raise InputError(message)


def require_rate(name: str, value: float) -> None:
    require(0 <= value < 1, f"{name} is {value}, and must be at least 0 and less than 1")


def require_positive(name: str, value: float) -> None:
    require(0 < value < math.inf, f"{name} is {value}, and must be greater than 0, and finite")


def require_not_negative(name: str, value: float) -> None:
    require(0 <= value < math.inf, f"{name} is {value}, and must be at least 0, and finite")


def require_divides(name: str, value: int, size: int) -> None:
    require(size % value == 0, f"{name} is {value}, and must divide hidden_size, {size}")


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

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require_positive("num_slots", self.num_slots)
        if self.test_slots is not None:
            require_positive("test_slots", self.test_slots)
        for name in ("dropout", "attention_dropout", "threshold"):
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
    policy_weight: float = 0.1
    """Weight of the policy's gradient beside the classifier's."""
    entropy_weight: float = 0.01
    """Weight of the reward for decisions that are not certain."""

    def __post_init__(self) -> None:
        require_positive("hidden_size", self.hidden_size)
        require(self.depth >= 2, f"depth is {self.depth}, and must be at least 2: with one level nothing can close")
        require_rate("dropout", self.dropout)
        for name in ("policy_weight", "entropy_weight"):
            require_not_negative(name, getattr(self, name))


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

    def __post_init__(self) -> None:
        for name in ("hidden_size", "num_layers", "num_heads", "feed_forward_size"):
            require_positive(name, getattr(self, name))
        require_divides("num_heads", self.num_heads, self.hidden_size)
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
        require_divides("num_heads", self.num_heads, self.hidden_size)
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

    def __post_init__(self) -> None:
        for name in ("hidden_size", "parser_size", "parser_rate", "ppo_updates", "ppo_clip"):
            require_positive(name, getattr(self, name))
        require_rate("entropy_weight", self.entropy_weight)


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


@dataclass(frozen=True)
class ClassifierConfig:
    """What stands around the encoder: embedding before it, head after it."""

    embedding_size: int = 128
    """Size of a token's vector."""
    input_dropout: float = 0.1
    """Dropout on the embeddings."""
    output_dropout: float = 0.2
    """Dropout before each linear map of the head."""
    head: Literal["linear", "mlp"] = "linear"
    """One linear map, or two with an activation between."""
    activation: Literal["relu", "elu"] = "relu"
    """The activation between the head's two linear maps."""
    embedding_range: float | None = None
    """Embeddings start uniform between minus this and this; from a standard normal if not named."""

    def __post_init__(self) -> None:
        require_positive("embedding_size", self.embedding_size)
        require_rate("input_dropout", self.input_dropout)
        require_rate("output_dropout", self.output_dropout)
        if self.embedding_range is not None:
            require_positive("embedding_range", self.embedding_range)


@dataclass(frozen=True)
class TrainingConfig:
    """How to train; the defaults are the paper's and the released code's."""

    seed: int = 0
    """Seed of the weights, of dropout and of the order of the examples."""
    epochs: int = 50
    """Passes over the training set, at most."""
    budget: str | None = None
    """Train for this long instead, such as 90s, 5m or 1h30m; schedules then follow the clock."""
    batch_size: int = 128
    """Examples in a step."""
    short_share: float = 0.0
    """Share of each batch that is drawn from the short examples, evenly over their lengths, in the place of others."""
    short_length: int = 12
    """The most tokens of a short example."""
    short_epochs: float = 0.0
    """Epochs over which the share of short examples falls to zero; 0: it stays."""
    optimiser: Literal["adam", "adamw", "adadelta"] = "adam"
    """Adam with weight decay added to the gradient, or kept apart from it; or Adadelta."""
    learning_rate: float = 1e-3
    """The highest learning rate."""
    beta1: float = 0.0
    """Adam's memory of the gradient."""
    beta2: float = 0.999
    """Adam's or Adadelta's memory of the gradient's square."""
    epsilon: float = 1e-9
    """Adam's or Adadelta's guard against division by zero; Adadelta's first steps grow with it."""
    weight_decay: float = 1.2e-6
    """Pull of the weights towards zero."""
    clip: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    schedule: Literal["plateau", "cosine", "constant"] = "plateau"
    """Halve the rate when validation accuracy has not risen for `halve_after` evaluations; or let it fall to zero
    along a cosine; or leave it."""
    halve_after: int = 2
    """Evaluations without a rise after which the plateau schedule halves the rate."""
    warmup: float = 0.0
    """Share of the training in which the rate grows from zero."""
    dropout_from: float = 0.0
    """Share of the training after which dropout begins; the attention's own is there from the start."""
    evaluate_every: int = 0
    """Steps between evaluations on the validation set; 0: once an epoch."""
    early_stop: int = 0
    """Stop after this many evaluations without a rise of validation accuracy; 0: never."""
    stop_at: float = 1.0
    """Stop once validation accuracy is above this."""
    checkpoint_seconds: float = 30.0
    """Time between saves of the state from which `--resume` goes on."""

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**64, f"seed is {self.seed}, and must be at least 0 and less than 2**64")
        for name in ("epochs", "batch_size", "learning_rate", "epsilon", "clip", "halve_after", "short_length"):
            require_positive(name, getattr(self, name))
        for name in ("beta1", "beta2", "warmup", "short_share", "dropout_from"):
            require_rate(name, getattr(self, name))
        for name in ("weight_decay", "evaluate_every", "early_stop", "checkpoint_seconds", "short_epochs"):
            require_not_negative(name, getattr(self, name))
        if self.budget is not None:
            parse_duration(self.budget)

    @property
    def budget_seconds(self) -> float | None:
        return None if self.budget is None else parse_duration(self.budget)


@dataclass(frozen=True)
class Experiment:
    """One run, whole: what `config.json` of its directory holds and `--config` reads."""

    task: str = "listops"
    model: str = "ordered-memory"
    data: Any = field(default_factory=TASKS["listops"].config_type)
    encoder: Any = field(default_factory=OrderedMemoryConfig)
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Any, where: str = "config") -> "Experiment":
        """The experiment that `to_dict` wrote; a key or value that does not belong is told by its name."""
        require(isinstance(values, dict), f"{where}: not a JSON object")
        task, model = values.get("task", cls.task), values.get("model", cls.model)
        for name, given, known in (("task", task, TASKS), ("model", model, ENCODER_CONFIGS)):
            known_name = isinstance(given, str) and given in known
            require(known_name, f"{where}: {name} is {given!r}, and must be one of {', '.join(known)}")
        parts = {"data": TASKS[task].config_type, "encoder": ENCODER_CONFIGS[model]}
        own_defaults: dict[str, Any] = {name: {} for name in parts}  # of this task and model, not those of the class
        return from_dict(cls, own_defaults | values, where, parts)


def from_dict(kind: type[Config], values: Any, where: str, parts: dict[str, Any] | None = None) -> Config:
    """A dataclass from JSON's values, each key and type checked. `parts` gives the type of fields typed Any."""
    require(isinstance(values, dict), f"{where}: not a JSON object")
    hints = get_type_hints(kind) | (parts or {})
    names = [item.name for item in dataclasses.fields(kind) if item.init]  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            close = difflib.get_close_matches(key, names, n=1)
            known = f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(names)}"
            raise InputError(f"{where}: unknown key {key!r}: {known}")
    made = {key: _value(hints[key], value, f"{where}: {key}") for key, value in values.items()}
    try:
        return kind(**made)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _value(hint: Any, value: Any, where: str) -> Any:
    """The value, if it is of the type that the field names."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, value, where)
    options = get_args(hint)
    if get_origin(hint) is Literal:
        require(value in options, f"{where} is {value!r}, and must be one of {', '.join(map(repr, options))}")
        return value
    if get_origin(hint) in (Union, types.UnionType):
        if value is None and type(None) in options:
            return None
        return _value(next(option for option in options if option is not type(None)), value, where)
    if get_origin(hint) is tuple:
        require(isinstance(value, list | tuple), f"{where} is {value!r}, and must be a list")
        return tuple(_value(options[0], item, where) for item in value)
    fits = isinstance(value, int | float if hint is float else hint) and isinstance(value, bool) == (hint is bool)
    require(fits, f"{where} is {value!r}, and must be of type {hint.__name__}")
    return value


_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def parse_duration(text: str) -> float:
    """Seconds of 90s, 5m, 1h30m or 45 (seconds)."""
    match = _DURATION.fullmatch(text.strip())
    hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match else (0.0, 0.0, 0.0)
    total = 3600 * hours + 60 * minutes + seconds
    require(0 < total < math.inf, f"budget is {text!r}, and must be a time such as 90s, 5m or 1h30m")
    return total
