"""Named settings of whole experiments: the paper's, and a small one that is learned in minutes."""

import dataclasses
from typing import Any

from ordered_memory.config import (
    ENCODER_CONFIGS,
    ClassifierConfig,
    EncoderConfig,
    Experiment,
    LSTMConfig,
    OrderedMemoryConfig,
    TrainingConfig,
)
from ordered_memory.errors import InputError
from ordered_memory.tasks.listops import ListOpsConfig

# The paper's appendix; the optimiser and the schedule are the released code's.
LISTOPS_PAPER = Experiment(
    task="listops",
    data=ListOpsConfig(),
    encoder=OrderedMemoryConfig(hidden_size=128, num_slots=21, dropout=0.1, attention_dropout=0.3),
    classifier=ClassifierConfig(embedding_size=128, input_dropout=0.1, output_dropout=0.2, head="linear"),
    training=TrainingConfig(),
)

# The same data and size, and a road to the same place in a tenth of the time. SM is what holds the model up, and it is
# learned from the shortest expressions first, of which the pool holds few ([SM 3 4 ] and its like are 100 of 67,000):
# most of a batch is drawn evenly over short lengths, nested ones among them, and the rest goes through all the data.
LISTOPS = Experiment(
    task="listops",
    data=ListOpsConfig(),
    encoder=OrderedMemoryConfig(hidden_size=128, num_slots=21, dropout=0.0, attention_dropout=0.3),
    classifier=ClassifierConfig(embedding_size=128, input_dropout=0.0, output_dropout=0.0, head="linear"),
    training=TrainingConfig(
        epochs=8,
        short_share=0.6,
        short_length=12,
        learning_rate=2e-3,
        beta1=0.9,
        weight_decay=0.0,
        schedule="cosine",
        warmup=0.01,
        evaluate_every=500,
    ),
)

# Without SM, which takes thousands of steps, and not deep: learned from labels alone within minutes on two cores.
LISTOPS_DEMO = Experiment(
    task="listops",
    data=ListOpsConfig(
        pool_size=40_000,
        test_size=2_000,
        validation_size=1_000,
        max_depth=4,
        operators=("MIN", "MAX", "MED"),
        train_max_length=30,
        test_max_length=30,
    ),
    encoder=OrderedMemoryConfig(hidden_size=64, num_slots=8, dropout=0.0, attention_dropout=0.0),
    classifier=ClassifierConfig(embedding_size=64, input_dropout=0.0, output_dropout=0.0, head="linear"),
    training=TrainingConfig(
        budget="2m", learning_rate=3e-3, beta1=0.9, schedule="cosine", warmup=0.02, evaluate_every=100, stop_at=0.995
    ),
)

PRESETS: dict[str, Experiment] = {"listops": LISTOPS, "listops-paper": LISTOPS_PAPER, "listops-demo": LISTOPS_DEMO}
DEFAULTS: dict[str, str] = {"listops": "listops"}
"""The preset of each task that is taken when none is named."""

# What another model than the preset's own takes in its place, at the same size.
_OTHERS: dict[str, dict[str, EncoderConfig]] = {
    "listops": {"lstm": LSTMConfig(hidden_size=128)},
    "listops-paper": {"lstm": LSTMConfig(hidden_size=128)},
    "listops-demo": {"lstm": LSTMConfig(hidden_size=128)},
}

# What such a model trains with in place of the preset's own settings.
_ADADELTA = {"optimiser": "adadelta", "learning_rate": 1.0, "beta2": 0.9, "epsilon": 1e-6, "clip": 0.5}
_TRAINING: dict[str, dict[str, dict[str, Any]]] = {
    "listops": {"cooperative": {"batch_size": 64, **_ADADELTA}},
    "listops-paper": {
        "gumbel-tree": {"batch_size": 64, "beta1": 0.9},
        "rl-spinn": {"batch_size": 64, "beta1": 0.9, "learning_rate": 2e-3},
        "cooperative": {"batch_size": 64, **_ADADELTA},
    },
}


def preset(task: str, name: str | None = None, model: str = "ordered-memory") -> Experiment:
    """The preset of that name, or the task's own, with that model in it."""
    for kind, given, choices in (("task", task, list(DEFAULTS)), ("model", model, list(ENCODER_CONFIGS))):
        if given not in choices:
            raise InputError(f"{given!r} is no {kind}: there are {', '.join(choices)}")
    name = name or DEFAULTS[task]
    known = [other for other, experiment in PRESETS.items() if experiment.task == task]
    if name not in known:
        raise InputError(f"--preset {name}: {task} has no such preset; there are {', '.join(known)}")
    experiment = PRESETS[name]
    if model == experiment.model:
        return experiment
    encoder = _OTHERS[name].get(model) or ENCODER_CONFIGS[model]()
    training = dataclasses.replace(experiment.training, **_TRAINING.get(name, {}).get(model, {}))
    return dataclasses.replace(experiment, model=model, encoder=encoder, training=training)
