"""At the end of a training: how sharp the pointer should be.

A pointer that learned along trees was never told what a little blur does to a soft memory, token after token.
"""

import copy
from collections.abc import Callable

from ordered_memory.classifier import Classifier
from ordered_memory.memory import OrderedMemory
from ordered_memory.training.evaluation import Evaluation

SHARPER = (1, 4, 16, 64)
"""What the scores of a pointer are multiplied by, to see which is best."""
SHARPENED = "sharpened"
"""Where a model's card, and a result, tell by how much it was."""


def memories(model: Classifier) -> list[OrderedMemory]:
    """Its layers that have a pointer."""
    return [module for module in model.modules() if isinstance(module, OrderedMemory)]


def sharpened(model: Classifier, measure: Callable[[Classifier], Evaluation]) -> Classifier:
    """A copy whose pointer has its scores multiplied by what measures best: in accuracy, and then in loss."""
    found: list[tuple[float, float, int, Classifier]] = []
    for factor in SHARPER:
        changed = copy.deepcopy(model)
        for memory in memories(changed):
            memory.sharpen(factor)
        figures = measure(changed)
        found.append((figures.accuracy, -figures.loss, factor, changed))
    _, _, factor, best = max(found, key=lambda one: one[:2])
    best.card |= {SHARPENED: factor}
    return best
