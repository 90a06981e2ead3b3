"""The tasks, by name."""

from ordered_memory.tasks.examples import SPLITS, Example, Split, Task
from ordered_memory.tasks.listops import ListOps

TASKS: dict[str, type[Task]] = {"listops": ListOps}

__all__ = ["SPLITS", "TASKS", "Example", "Split", "Task"]
