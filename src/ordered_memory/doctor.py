"""What this machine has, and whether the model computes on it what it should."""

import os
import platform
import sys
from typing import Any

import torch

from ordered_memory import __version__
from ordered_memory.classifier import shipped
from ordered_memory.memory import OrderedMemory


def examine() -> dict[str, Any]:
    """Findings in plain values, in the order in which a person reads them."""
    return {
        "ordered_memory": __version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else "not available",
        "engine": "readable: memory.py, in PyTorch's own operators, on every device",
        "checkpoints": shipped(),
        "check": check(),
    }


def check() -> str:
    """Gradients of a small layer against finite differences, in double precision."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        om = OrderedMemory(3, 4, 3, dtype=torch.float64)
        x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
        lengths = torch.tensor([4, 2])
        right = torch.autograd.gradcheck(lambda x: om(x, lengths=lengths)[0], (x,), raise_exception=False)
    return "passed" if right else "failed: gradients do not agree with finite differences"
