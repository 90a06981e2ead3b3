"""The tasks, by name."""

from ordered_memory.tasks.examples import SPLITS, Example, Split, Task
from ordered_memory.tasks.files import Files
from ordered_memory.tasks.listops import ListOps
from ordered_memory.tasks.logic import Logic
from ordered_memory.tasks.sst import SST

TASKS: dict[str, type[Task]] = {"listops": ListOps, "logic": Logic, "sst": SST, "files": Files}

__all__ = ["SPLITS", "TASKS", "Example", "Split", "Task"]
