"""Ordered Memory: a recurrent layer whose memory is an ordered stack of sub-trees, and the tools around it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ordered_memory.classifier import Classifier as Classifier
    from ordered_memory.classifier import Prediction as Prediction
    from ordered_memory.errors import InputError as InputError
    from ordered_memory.memory import OrderedMemory as OrderedMemory
    from ordered_memory.memory import State as State
    from ordered_memory.memory import Trace as Trace
    from ordered_memory.trees import Tree as Tree

_HOMES = {
    "Classifier": "classifier",
    "InputError": "errors",
    "OrderedMemory": "memory",
    "Prediction": "classifier",
    "State": "memory",
    "Trace": "memory",
    "Tree": "trees",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    """Loads what is asked for, when it is: torch takes seconds, and `om --help` does without it."""
    if name in _HOMES:
        return getattr(import_module(f"ordered_memory.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'ordered_memory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
