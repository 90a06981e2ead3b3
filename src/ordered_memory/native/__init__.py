"""The native engine: the mathematics of ``memory.py`` in C++, for the CPU, built on first use.

``OrderedMemory`` chooses it by itself where it can run (``backend="auto"``); ``status()`` says whether it can, and why.
"""

from ordered_memory.native.build import Status, ensure_built, status
from ordered_memory.native.composition import Composer, Steps, compose, composer
from ordered_memory.native.operator import read, release_memory, supports

__all__ = [
    "Composer",
    "Status",
    "Steps",
    "compose",
    "composer",
    "ensure_built",
    "read",
    "release_memory",
    "status",
    "supports",
]
