"""A run, whole: its data, encoder, classifier and training."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from ordered_memory.config.checks import parse_duration, require, require_not_negative, require_positive, require_rate
from ordered_memory.config.encoders import ENCODER_CONFIGS, OrderedMemoryConfig
from ordered_memory.config.reading import from_dict
from ordered_memory.tasks import TASKS

FORMER: dict[str, Any] = {
    "short_until": 0.0,
    "random_until": 0.0,
    "pointer_until": 0.0,
    "turns_until": 0.0,
    "hard_from": 0.0,
    "scouts": 0,
    "scouts_until": 1.0,
    "teacher": None,
    "teacher_until": 1.0,
    "written_draws": 0,
    "label_steps": 0,
    "searches": 1,
    "write_every": 0,
    "renew": False,
    "rounds": 0,
    "turns_steps": 0,
    "turns_sharpness": 1.0,
    "turns_pointer": "sampled",
    "ladder": [],
    "judged": False,
    "climb_steps": 0,
    "climb_sharpness": 1.0,
}
"""Settings of trainings that were, and the values by which they did nothing: with these a run can be read as ever."""


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
    """Embeddings start uniform between minus this and this; if not named from a standard normal, or between minus 0.1
    and 0.1 beside word vectors."""
    vectors: str | None = None
    """A file of word vectors in GloVe's text format that embeddings start from: a path, or a name in the folder glove
    of $ORDERED_MEMORY_DATA; auto: one there of the embedding's size, or none."""
    vectors_sha256: str | None = None
    """The checksum that this file must have; config.json of a run tells what its file had."""
    freeze_vectors: bool = False
    """Whether the embeddings stay as they start: word vectors, and small random ones where a word has none."""
    shared_input_dropout: bool = False
    """Whether all tokens of a sentence share one mask of the dropout on embeddings."""

    def __post_init__(self) -> None:
        require_positive("embedding_size", self.embedding_size)
        require_rate("input_dropout", self.input_dropout)
        require_rate("output_dropout", self.output_dropout)
        if self.embedding_range is not None:
            require_positive("embedding_range", self.embedding_range)
        require(bool(self.vectors or not self.vectors_sha256), "vectors_sha256 is named, yet no file of vectors is")


@dataclass(frozen=True)
class TrainingConfig:
    """How to train; the defaults are the paper's and the released code's."""

    seed: int = 0
    """Seed of the weights, of dropout and of the order of the examples."""
    epochs: int = 50
    """Passes over the training set, at most."""
    budget: str | None = None
    """Train for this long instead, such as 90s, 5m or 1h30m; schedules then follow the clock. What is measured at the
    end comes on top, and can take minutes."""
    batch_size: int = 128
    """Examples in a step."""
    short_share: float = 0.0
    """Share of each batch that is drawn from the short examples, evenly over their lengths, in the place of others."""
    short_length: int = 12
    """The most tokens of a short example, in all its sentences."""
    short_epochs: float = 0.0
    """Epochs over which the share of short examples falls to zero; with a budget, as large a part of it as these are of
    all epochs. 0: it stays."""
    balanced: float = 0.0
    """Share of the training, from its start, in which each label is drawn as often as any other."""
    random_steps: int = 0
    """First steps, in which all but the pointer learns alone, from short examples along random trees: what words and
    phrases mean, whatever the tree. For ordered-memory."""
    random_lean: float = 1.0
    """How far random trees lean to the right: 1 not at all, and the more the further."""
    start_steps: int = 0
    """Steps after these in which the pointer learns to build random trees of short examples, and so where to start
    from: trees that lean far to the right join as late as they can. For ordered-memory."""
    start_lean: float = 1.0
    """How far the random trees that the pointer starts from lean to the right."""
    pointer_steps: int = 0
    """Steps after these in which the pointer learns alone, and all else is held. For ordered-memory."""
    copy_steps: int = 0
    """Steps after these in which a new model learns along the trees that the pointer has found, those of a sample of
    the training examples, cell and pointer both. For ordered-memory."""
    drawn_steps: int = 0
    """Steps after these in which pointer and cell learn from trees that are drawn by the pointer's weights, and count
    the more the likelier the label is along them. For ordered-memory."""
    drawn_rounds: int = 1
    """How often that is done, a new model's copying and the steps along drawn trees: each round begins with the trees
    that the one before it came to. For ordered-memory."""
    draws: int = 8
    """Trees of each sentence that are drawn in such a step."""
    drawn_batch_size: int = 0
    """Examples in such a step; 0: as in others that seek trees. For ordered-memory."""
    drawn_sharpness: float = 1.0
    """What the pointer's scores are multiplied by before these steps: less than 1 makes it less sure, so that other
    trees are drawn too. For ordered-memory."""
    hidden_tokens: float = 0.0
    """Share of the tokens that the cell does not see in these steps, so that it cannot lean on single ones to get along
    with a wrong tree. For ordered-memory."""
    written: bool = False
    """Write down the trees that a hard pointer gives to all training examples, once they are found, for a new model to
    learn along to the end: the cell alone in its share of the steps (--hard-share), and in the others the pointer too,
    which is told what the trees join. For ordered-memory."""
    seeking_batch_size: int = 0
    """Examples in a step of the random ones, the start's, and those in which the pointer learns alone, where many small
    ones find trees sooner than few large ones. 0: as in any other, which is the most. For ordered-memory."""
    pointer_rate: float = 1.0
    """The pointer's learning rate, in times of the rest's. For ordered-memory."""
    sharpen: bool = False
    """At the end, multiply the pointer's scores by 1, 4, 16 or 64, whichever is best on the validation set: a pointer
    that learned along trees never felt what its blur does to a soft memory. For ordered-memory."""
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
    """Pull of the weights towards zero. Where trees are sought first it works only along written ones; a pointer that
    learns apart is spared."""
    clip: float = 1.0
    """Gradients with a larger norm are scaled down to it."""
    schedule: Literal["plateau", "cosine", "constant"] = "plateau"
    """Halve the rate when validation accuracy has not risen for --halve-after evaluations; or let it fall to zero
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
        for name in (
            "epochs",
            "batch_size",
            "learning_rate",
            "epsilon",
            "clip",
            "halve_after",
            "short_length",
            "pointer_rate",
            "draws",
            "drawn_rounds",
            "drawn_sharpness",
        ):
            require_positive(name, getattr(self, name))
        for name in ("beta1", "beta2", "warmup", "short_share", "dropout_from", "hidden_tokens"):
            require_rate(name, getattr(self, name))
        for name in ("weight_decay", "evaluate_every", "early_stop", "checkpoint_seconds", "short_epochs"):
            require_not_negative(name, getattr(self, name))
        for name in (
            "random_steps",
            "start_steps",
            "pointer_steps",
            "copy_steps",
            "drawn_steps",
            "drawn_batch_size",
            "seeking_batch_size",
        ):
            require_not_negative(name, getattr(self, name))
        require(0 <= self.balanced <= 1, f"balanced is {self.balanced}, and must be at least 0 and at most 1")
        for name in ("random_lean", "start_lean"):
            require(getattr(self, name) >= 1, f"{name} is {getattr(self, name)}, and must be at least 1")
        require(
            not (self.balanced and self.short_share),
            "balanced and short_share both choose the examples: set one of them to 0",
        )
        first = self.random_steps + self.start_steps + self.pointer_steps
        for name, found in (("copy_steps", first), ("written", first + self.drawn_steps)):
            require(
                bool(found or not getattr(self, name)),
                f"{name} is set, and no step finds trees before they are: set pointer_steps too",
            )
        require(
            bool(self.drawn_steps or self.drawn_rounds == 1),
            f"drawn_rounds is {self.drawn_rounds}, and there are no steps along drawn trees: set drawn_steps too",
        )
        require(
            bool(self.seeking_steps or not self.seeking_batch_size),
            "seeking_batch_size is set, and there are no steps that seek trees: set pointer_steps too",
        )
        if self.budget is not None:
            parse_duration(self.budget)

    @property
    def seeking_steps(self) -> int:
        """Those in which pointer and cell look for each other."""
        first = self.random_steps + self.start_steps + self.pointer_steps
        return first + self.drawn_rounds * (self.copy_steps + self.drawn_steps)

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
        training = values.get("training")
        if isinstance(training, dict):
            for name in FORMER.keys() & training.keys():
                told = f"{where}: training: {name} is {training[name]!r}: this version has no such setting any more"
                require(training[name] == FORMER[name], told)
            values = values | {"training": {name: training[name] for name in training if name not in FORMER}}
        return from_dict(cls, own_defaults | values, where, parts)
