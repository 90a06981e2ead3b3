"""A trained model that shows its trees to another one; and scouts, of whom the best becomes such a teacher."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.errors import InputError

SCOUTS = "scouts"
"""The folder of their runs, in the directory of the run that sent them."""


@dataclass(frozen=True)
class Scout:
    """A small model that was trained to look for the trees."""

    path: Path
    seed: int
    accuracy: float
    """On validation data, with a hard pointer."""
    steps: int
    """How far it went: the best may have gone on alone."""
    seconds: float

    def figures(self) -> dict[str, Any]:
        """What a result tells of it."""
        return {"seed": self.seed, "accuracy": self.accuracy, "steps": self.steps, "seconds": self.seconds}


def best_of(scouts: Sequence[Scout]) -> Scout:
    """The one with the best trees, among those that went furthest: whoever was chosen to go on stays chosen, also if
    the run was stopped meanwhile."""
    return max(scouts, key=lambda scout: (scout.steps, scout.accuracy))


class Teacher:
    """Parses each batch as its student reads it."""

    def __init__(self, model: Classifier) -> None:
        self.model = model.eval()

    @classmethod
    def load(cls, name: str, student: Classifier) -> "Teacher":
        """A model by its path or name, if it can teach that student: both follow a pointer, over the same tokens."""
        model = Classifier.from_pretrained(name)
        for role, one in (("the teacher", model), ("the student", student)):
            if one.model_name != "ordered-memory":
                raise InputError(f"teacher {name}: {role} is of the kind {one.model_name}, and must be ordered-memory")
        if model.vocabulary.to_dict() != student.vocabulary.to_dict():
            raise InputError(f"teacher {name}: it has another vocabulary than the model that it is to teach")
        return cls(model)

    def show(self, batch: Batch) -> Batch:
        """The batch with the teacher's tree of each row."""
        with torch.inference_mode():
            return batch._replace(trees=self.model.parse(batch, pointer="hard").spans)
