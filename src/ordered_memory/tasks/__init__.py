"""The tasks, by name."""

from ordered_memory.tasks.examples import SPLITS, Example, Split, Task
from ordered_memory.tasks.files import Files
from ordered_memory.tasks.listops import ListOps
from ordered_memory.tasks.logic import Logic

TASKS: dict[str, type[Task]] = {"listops": ListOps, "logic": Logic, "files": Files}

__all__ = ["SPLITS", "TASKS", "Example", "Split", "Task"]
