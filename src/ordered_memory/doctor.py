"""What this machine has, which engine runs the model and why, and whether it computes what it should."""

import os
import platform
import sys
from typing import Any

import torch

from ordered_memory import __version__
from ordered_memory.classifier import shipped
from ordered_memory.memory import OrderedMemory
from ordered_memory.native import build


def examine(build_engine: bool = False) -> dict[str, Any]:
    """Findings in plain values, in the order in which a person reads them."""
    return {
        "ordered_memory": __version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else "not available",
        **engine(build_engine),
        "checkpoints": shipped(),
        "check": check(),
    }


def engine(build_engine: bool) -> dict[str, Any]:
    """Which engine is used on the CPU, and why; builds the native one only if told to."""
    status = build.status(build_engine)
    if not status.available and status.path is not None and not build_engine:
        advice = "om doctor --build builds it now"
        return {"engine": "native, to be built at first use", "compiler": status.compiler, "advice": advice}
    if not status.available:
        return {"engine": f"readable, in PyTorch's own operators: {status.reason}", "advice": build.HOW_TO_GET_IT}
    seconds = "" if status.build_seconds is None else f" in {status.build_seconds:.0f} s"
    return {
        "engine": f"native, {status.reason}{seconds}; readable on other devices",
        "library": str(status.path),
        "compiler": status.compiler,
        "flags": " ".join(status.flags),
    }


def check() -> str:
    """The readable layer's gradients against finite differences, and the native engine against the readable layer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        om = OrderedMemory(3, 4, 3, dtype=torch.float64, backend="readable")
        x = torch.randn(6, 2, 3, dtype=torch.float64, requires_grad=True)
        lengths = torch.tensor([6, 2])
        if not torch.autograd.gradcheck(lambda x: om(x, lengths=lengths)[0], (x,), raise_exception=False):
            return "failed: gradients do not agree with finite differences"
    if "library" not in engine(False):
        return "passed"
    results = []
    for backend in ("readable", "native"):
        om.backend = backend
        output, _ = om(x, lengths=lengths)
        gradients = torch.autograd.grad(output.square().sum(), [x, *om.parameters()], materialize_grads=True)
        results.append([output, *gradients])
    agree = all(torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(*results, strict=True))
    return "passed" if agree else "failed: the native engine does not agree with memory.py"
