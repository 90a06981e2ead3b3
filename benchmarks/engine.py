"""The native engine against ``memory.py``, side by side in one run: ``python benchmarks/engine.py [--quick]``.

Prints ratios and writes them to a JSON file. Speeds of a case are printed only where both agree on it, outputs and
gradients. "Share of peak" is useful arithmetic (multiply-adds of computed cells, keys and queries; nothing for what is
skipped) for each second, over what torch's own matrix product reaches in the same run on as many threads.
``memory.py`` skips cells row by row too; "all slots" is ``memory.py`` with threshold 0, which computes what the
released code computes once a batch reaches every slot.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ordered_memory import native
from ordered_memory.memory import OrderedMemory


@dataclass(frozen=True)
class Case:
    """A layer and a batch. Sharp pointers stand for a trained model's: attention weights are scaled up."""

    name: str
    hidden_size: int = 128
    num_slots: int = 21
    rows: int = 128
    tokens: int = 50
    sharp: bool = False
    training: bool = True
    dropout: float = 0.0

    def layer(self, backend: str, **options: Any) -> OrderedMemory:
        torch.manual_seed(0)
        options |= {"dropout": self.dropout, "attention_dropout": self.dropout}
        om = OrderedMemory(self.hidden_size, self.hidden_size, self.num_slots, **options)
        if self.sharp:
            score = om.directions[0].attention.score
            with torch.no_grad():
                score.query_norm.weight.mul_(6), score.key_norm.weight.mul_(6), score.weight.weight.mul_(1000)
        om.backend = backend
        return om.train(self.training)

    def batch(self) -> tuple[Tensor, Tensor]:
        """Tokens, and lengths between half the longest and the longest."""
        generator = torch.Generator().manual_seed(1)
        lengths = torch.randint((self.tokens + 1) // 2, self.tokens + 1, (self.rows,), generator=generator)
        lengths[0] = self.tokens
        return torch.randn(self.tokens, self.rows, self.hidden_size, generator=generator), lengths

    def step(self, om: OrderedMemory) -> Callable[[], Tensor]:
        """What is timed: forward and backward of a loss on the last output, or forward alone."""
        x, lengths = self.batch()

        def run() -> Tensor:
            with torch.set_grad_enabled(self.training):
                om.zero_grad()
                last = om(x, lengths=lengths)[1].M_hat[0, :, -1]
                if self.training:
                    last.square().sum().backward()
            return last

        return run

    def work(self) -> tuple[int, float, float]:
        """Tokens, cells for each token, and useful floating-point operations."""
        om, (x, lengths) = self.layer("native"), self.batch()
        with torch.no_grad():
            p = om.read(x, lengths=lengths).p[0]
        real = torch.arange(self.tokens)[:, None] < lengths
        cp = p.cumsum(-1)
        cells = ((cp >= om.threshold) & real[..., None])[1:].sum().item()
        mask = nn.functional.pad(cp[..., 1:], (0, 1), value=1.0)
        keys = ((mask[:-1] >= 1e-5) & real[1:, :, None]).sum().item()
        tokens = int(real.sum())
        products = (24 * cells + keys + 2 * tokens) * self.hidden_size**2
        return tokens, cells / tokens, 2.0 * products * (3 if self.training else 1)


LISTOPS = Case("ListOps, random weights")
CASES = [
    LISTOPS,
    Case("ListOps, random weights, dropout", dropout=0.2),
    Case("ListOps, sharp pointers", sharp=True),
    Case("ListOps, sharp pointers, dropout", sharp=True, dropout=0.2),
    Case("logic, random weights", 200, 12, 256, 20),
    Case("logic, sharp pointers", 200, 12, 256, 20, sharp=True),
    Case("16 rows of 250, sharp pointers", rows=16, tokens=250, sharp=True),
    Case("1 row of 250, sharp pointers", rows=1, tokens=250, sharp=True),
    Case("ListOps, inference, random weights", training=False),
    Case("ListOps, inference, sharp pointers", training=False, sharp=True),
    Case("1 row of 1,000, inference, random weights", rows=1, tokens=1000, training=False),
    Case("1 row of 1,000, inference, sharp pointers", rows=1, tokens=1000, training=False, sharp=True),
]


def best_of(runs: int, *actions: Callable[[], object]) -> list[float]:
    """Shortest time of each, taken in turn so that all see the same machine; each has run once before."""
    for action in actions:
        action()
    times = [float("inf")] * len(actions)
    for _ in range(runs):
        for number, action in enumerate(actions):
            start = time.perf_counter()
            action()
            times[number] = min(times[number], time.perf_counter() - start)
    return times


def sgemm_peak(size: int = 1536) -> float:
    """Floating-point operations a second of torch's matrix product, on the threads that are set."""
    left, right, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    return 2 * size**3 / best_of(8, lambda: torch.mm(left, right, out=out))[0]


def disagreement(case: Case) -> float:
    """Largest relative difference of outputs and gradients between the two, on a few rows, in float64."""
    small = Case(**asdict(case) | {"rows": min(case.rows, 4), "tokens": min(case.tokens, 60), "dropout": 0.0})
    found = []
    for backend in ("readable", "native"):
        om, (x, lengths) = small.layer(backend).double(), small.batch()
        x = x.double().requires_grad_()
        output = om(x, lengths=lengths)[0]
        (output * torch.linspace(-1, 1, output.numel(), dtype=x.dtype).view_as(output)).sum().backward()
        gradients = [parameter.grad for parameter in om.parameters() if parameter.grad is not None]
        found.append([output.detach(), x.grad, *gradients])
    return max(float((a - b).abs().max() / (a.abs().max() + 1e-3)) for a, b in zip(*found, strict=True))


def _peak_memory(case: Case, backend: str, recompute: bool, answer: multiprocessing.SimpleQueue) -> None:
    def most() -> int:
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale

    om = case.layer(backend, recompute=recompute)
    om(torch.randn(3, 2, case.hidden_size))[0].sum().backward()
    before = most()
    case.step(om)()
    answer.put(most() - before)


def peak_memory(case: Case, backend: str, recompute: bool = False) -> int:
    """Bytes that one step adds to a fresh process at most."""
    context = multiprocessing.get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=_peak_memory, args=(case, backend, recompute, answer))
    process.start()
    process.join()
    return int(answer.get())


def compare(case: Case, threads: tuple[int, ...], runs: int) -> dict[str, object]:
    """All about one case, or that the two disagree."""
    error = disagreement(case)
    if not error < 1e-8:
        return {"case": asdict(case), "disagreement": error}
    tokens, cells, flops = case.work()
    result: dict[str, object] = {"case": asdict(case), "disagreement": error, "tokens": tokens, "cells": cells}
    for count in threads:
        torch.set_num_threads(count)
        layers = case.layer("native"), case.layer("readable"), case.layer("readable", threshold=0.0)
        fast, slow, all_slots = best_of(runs, *(case.step(layer) for layer in layers))
        speed = {"native": fast, "readable": slow, "ratio": slow / fast, "all_slots": all_slots / fast}
        result[f"{count} threads"] = speed | {"share_of_peak": flops / fast / sgemm_peak()}
    return result


def growth(quick: bool) -> dict[str, list[dict[str, float]]]:
    """Seconds for each token of the engine, and of nn.LSTM for scale, as one size grows and the others stay."""
    longest, widest = (400, 128) if quick else (3200, 1024)
    sizes = {
        "tokens": [n for n in (25, 50, 100, 200, 400, 800, 1600, 3200) if n <= longest],
        "rows": [n for n in (1, 4, 16, 64, 128, 256, 1024) if n <= widest],
        "num_slots": [6, 12, 24, 48],
        "hidden_size": [64, 128, 200, 256],
    }
    found: dict[str, list[dict[str, float]]] = {}
    for name, values in sizes.items():
        for value in values:
            base = {"rows": 8} if name == "tokens" else {"rows": 64}
            case = Case(name, **{"sharp": True, **base, name: value})
            x, _ = case.batch()
            lstm = nn.LSTM(case.hidden_size, case.hidden_size)

            def run_lstm(x: Tensor = x, lstm: nn.LSTM = lstm) -> None:
                lstm(x)[0].square().sum().backward()

            engine, other = best_of(2, case.step(case.layer("native")), run_lstm)
            tokens, cells, _ = case.work()
            entry = {"size": value, "seconds": engine / tokens, "cells": cells, "lstm": other / x[..., 0].numel()}
            found.setdefault(name, []).append(entry)
    return found


def plot(growths: dict[str, list[dict[str, float]]], path: Path) -> None:
    """Microseconds for each token against each size, as one figure."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(growths), figsize=(4 * len(growths), 3.2), layout="constrained")
    for axis, (name, entries) in zip(axes, growths.items(), strict=True):
        for label, key in (("engine, training", "seconds"), ("nn.LSTM, training", "lstm")):
            axis.loglog([e["size"] for e in entries], [1e6 * e[key] for e in entries], marker="o", label=label)
        axis.set_xlabel(name.replace("_", " "))
    axes[0].set_ylabel("microseconds a token")
    axes[0].legend()
    figure.savefig(path)


def show(result: dict[str, object]) -> None:
    case: dict[str, object] = result["case"]  # type: ignore[assignment]
    if "tokens" not in result:
        print(f"{case['name']}: no speed, for the two DISAGREE by {result['disagreement']:.1e}")
        return
    for name, speed in result.items():
        if isinstance(speed, dict) and "ratio" in speed:
            print(
                f"{case['name']:<44} {name:>9} {result['cells']:6.2f} cells a token {1e3 * speed['readable']:9.1f} ms "
                f"{1e3 * speed['native']:9.1f} ms {speed['ratio']:7.1f} x "
                f"({speed['all_slots']:.1f} x all slots) {speed['share_of_peak']:5.0%} of peak"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer runs and smaller growth")
    parser.add_argument("--cases", default="", help="only cases whose name contains this")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, torch.get_num_threads()], help="how many threads")
    parser.add_argument("--json", type=Path, default=Path("bench.json"), help="where the figures go")
    parser.add_argument("--figure", type=Path, help="draw growth with each size to this file")
    asked = parser.parse_args()
    status = native.status()
    if not status.available:
        sys.exit(f"no engine to measure: {status.reason}")
    threads = tuple(sorted(set(asked.threads)))
    figures: dict[str, object] = {"machine": platform.processor() or platform.machine(), "torch": torch.__version__}
    results = figures["cases"] = []
    for case in CASES:
        if asked.cases in case.name:
            results.append(compare(case, threads, 1 if asked.quick else 4))
            show(results[-1])
    memory = {b: peak_memory(LISTOPS, b) for b in ("readable", "native")}
    memory["native, recompute"] = peak_memory(LISTOPS, "native", recompute=True)
    figures["peak_memory"] = memory
    print(
        "peak memory of a training step:", ", ".join(f"{name} {size / 2**20:.0f} MB" for name, size in memory.items())
    )
    figures["growth"] = growths = growth(asked.quick)
    for name, entries in growths.items():
        print(f"microseconds a token by {name}:", ", ".join(f"{e['size']}: {1e6 * e['seconds']:.1f}" for e in entries))
    if asked.figure:
        plot(growths, asked.figure)
    asked.json.write_text(json.dumps(figures, indent=1) + "\n")
    print(f"written to {asked.json}")


if __name__ == "__main__":
    main()
