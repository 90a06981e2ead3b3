"""The engine's functions, called by their names."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from ordered_memory.native import build

PRECISIONS = {torch.float32: "float", torch.float64: "double"}


def library() -> ctypes.CDLL:
    """The engine, built if need be."""
    found, status = build.load()
    if found is None:
        raise build.BuildError(f"the native engine cannot be used: {status.reason}. {build.HOW_TO_GET_IT}")
    found.om_error.restype = ctypes.c_char_p
    return found


def run(name: str, dtype: torch.dtype, call: ctypes.Structure, *more: Any) -> None:
    """Calls a function of the engine; ``call`` is the twin of the structure that it takes."""
    found, structure = library(), type(call).__name__
    if getattr(found, f"om_{structure.lower()}_size")() != ctypes.sizeof(call):
        raise build.BuildError(f"the native engine's {structure} and ours do not fit together")
    if getattr(found, f"om_{name}_{PRECISIONS[dtype]}")(ctypes.byref(call), *more) != 0:
        raise RuntimeError(f"the native engine failed: {found.om_error().decode()}")
