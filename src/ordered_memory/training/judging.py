"""How good the trees that a model finds are, told by labels alone.

Trees are good if what was learned along them holds for what is longer. So a new cell learns along the trees of short
examples, for a while, and is asked for longer ones, along their trees. On examples as long as those that it learned
from a cell gets along with mistakes too, and tells good trees from bad ones hardly at all.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.config import TrainingConfig
from ordered_memory.training.batching import Dataset, drawn_evenly
from ordered_memory.training.optimisation import learning_rate, make_optimiser, update
from ordered_memory.training.turns import by_label
from ordered_memory.training.written import WrittenTrees

SAMPLE = 9_000
"""Training examples whose trees are judged."""
STEPS = 250
"""In which the new cell learns."""
AT_ONCE = 500
"""Longer examples in one batch."""


def loss_on_longer(
    model: Classifier,
    config: TrainingConfig,
    trees: WrittenTrees,
    dataset: Dataset,
    longer: NDArray[np.bool_],
    unless_stopped: Callable[[], None],
) -> float:
    """The loss of a new model on the `longer` ones of the examples that have trees, along these trees, once it has
    learned along those of the others, with all of its dropout; its pointer is not asked."""
    short, asked = trees.examples[~longer], trees.examples[longer]
    kinds = by_label(dataset.labels, short)
    generator = np.random.Generator(np.random.PCG64([config.seed, 4]))
    optimiser = make_optimiser(config, model)
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            parameter.requires_grad_(not group["pointer"])

    def shown(indices: NDArray[np.int64]) -> Batch:
        return trees.show(dataset.batch(indices, model), indices)

    model.train()
    for step in range(STEPS):
        unless_stopped()
        for group in optimiser.param_groups:
            group["lr"] = group["scale"] * learning_rate(config, step / STEPS, 1.0)
        update(model, optimiser, shown(drawn_evenly(kinds, config.batch_size, generator)), config.clip)
    model.eval()
    total = 0.0
    with torch.inference_mode():
        for begin in range(0, len(asked), AT_ONCE):
            unless_stopped()
            batch = shown(asked[begin : begin + AT_ONCE])
            total += float(cross_entropy(model(batch).logits, batch.labels, reduction="sum"))
    return total / len(asked)
