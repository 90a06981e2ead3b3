"""How it is measured: in turn, the shortest of several times, never where the two engines disagree."""

from __future__ import annotations

import dataclasses
import multiprocessing
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ordered_memory.bench.cases import Case, Work, memory_of
from ordered_memory.classifier import Classifier
from ordered_memory.tasks.listops import WindowConfig, window
from ordered_memory.training.evaluation import Evaluation, evaluate

TOLERANCE = 1e-8
"""Largest relative difference, in float64, at which the engine counts as agreeing with `memory.py`."""


@dataclass(frozen=True)
class Speed:
    """Seconds of a step on so many threads."""

    threads: int
    readable: float
    every_cell: float
    """Of `memory.py` with threshold 0. It skips cells row by row too otherwise, which the released code did not."""
    native: float
    share_of_peak: float
    """Useful operations a second, over those that torch's own matrix product reaches on as many threads."""

    @property
    def ratio(self) -> float:
        return self.readable / self.native

    @property
    def ratio_to_every_cell(self) -> float:
        """Times the speed of the released computation, which skips no cell of a row."""
        return self.every_cell / self.native


@dataclass(frozen=True)
class Comparison:
    """All about one case; without speeds where the two disagree."""

    case: Case
    disagreement: float
    work: Work
    speeds: list[Speed] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return self.disagreement < TOLERANCE  # false for nan as well


def compare(case: Case, threads: tuple[int, ...], runs: int) -> Comparison:
    """Both engines on the same batch, in turn, so that both see the same machine."""
    comparison = Comparison(case, disagreement(case), case.work())
    if comparison.agrees:
        for count in threads:
            torch.set_num_threads(count)
            layers = [case.layer("readable"), case.layer("readable"), case.layer("native")]
            layers[1].get_submodule("directions.0").threshold = 0.0  # type: ignore[assignment]
            readable, every_cell, native = best_of(runs, *(case.step(layer) for layer in layers))
            share = comparison.work.operations / native / sgemm_peak()
            comparison.speeds.append(Speed(count, readable, every_cell, native, share))
    return comparison


def best_of(runs: int, *actions: Callable[[], object], seconds: float = 6.0) -> list[float]:
    """Shortest time of each, taken in turn, as often as asked or until so many seconds are over.

    The first turn warms up and does not count, unless it took all the time that there was.
    """
    start = time.perf_counter()
    times = [_seconds(action) for action in actions]
    for number in range(runs):
        if time.perf_counter() - start > seconds:
            break
        turn = [_seconds(action) for action in actions]
        times = turn if number == 0 else list(map(min, times, turn))
    return times


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def sgemm_peak(size: int = 1536) -> float:
    """Floating-point operations a second of torch's matrix product, on the threads that are set."""
    left, right, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    return 2 * size**3 / best_of(8, lambda: torch.mm(left, right, out=out))[0]


def disagreement(case: Case) -> float:
    """Largest relative difference of outputs and gradients between the two, on a few rows, in float64."""
    small = dataclasses.replace(case, rows=min(case.rows, 4), tokens=min(case.tokens, 60), dropout=0.0, training=True)
    found = []
    for om in (small.layer("readable").double().eval(), small.layer("native").double().eval()):
        x, lengths = small.batch()
        x = x.double().requires_grad_()
        output = om(x, lengths=lengths)[0]
        weights = torch.linspace(-1, 1, output.numel(), dtype=x.dtype).view_as(output)
        gradients = torch.autograd.grad((output * weights).sum(), [x, *om.parameters()], materialize_grads=True)
        found.append([output.detach(), *gradients])
    return max(float((a - b).abs().max() / (a.abs().max() + 1e-3)) for a, b in zip(*found, strict=True))


def peak_memory(case: Case, backend: str, recompute: bool = False) -> int:
    """Bytes that one step adds to a fresh process at most."""
    [size] = in_fresh_process(_peak_memory, case, backend, recompute)
    return int(size)


def in_fresh_process(target: Callable[..., None], *arguments: Any) -> list[Any]:
    """Whatever the target sends through its last argument until it ends, or until the system kills it."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(*arguments, sender))
    # A Ctrl-C is this process's to answer: one that starts while it is ignored ignores it too, and prints nothing.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, handler)
    sender.close()
    received = []
    try:
        while True:
            received.append(receiver.recv())
    except EOFError:
        pass
    except KeyboardInterrupt:
        process.kill()
        raise
    finally:
        process.join()
    if process.exitcode and process.exitcode > 0:  # below 0 it is a signal: there was too little memory
        raise RuntimeError(f"a measuring process ended with code {process.exitcode}")
    return received


def _peak_memory(case: Case, backend: Any, recompute: bool, sender: Any) -> None:
    om = case.layer(backend, recompute)
    warm = om(torch.randn(3, 2, om.input_size))[0].sum()
    if case.training:
        warm.backward()
    run = case.step(om)
    before = most_memory()
    run()
    sender.send(most_memory() - before)


def most_memory() -> int:
    """The most bytes that this process has held so far."""
    if sys.platform == "linux":  # where getrusage counts what the parent held before exec
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@dataclass(frozen=True)
class EvaluationSpeed:
    """Seconds of `om evaluate` on real expressions, trees and F1 included; both on the same first few of them."""

    sequences: int
    seconds: float
    """Of the engine, on all."""
    few: int
    readable: float
    native: float

    @property
    def ratio(self) -> float:
        return self.readable / self.native


def evaluation(checkpoint: str, sequences: int, few: int) -> EvaluationSpeed | None:
    """A trained model on test sequences; none where the two do not find the same answers and trees."""
    model = Classifier.from_pretrained(checkpoint)
    operators = tuple(model.card["data"]["operators"])
    drawn = window(WindowConfig(operators=operators, size=sequences, min_length=5, max_length=50))
    memory = memory_of(model)
    found: dict[str, Evaluation] = {}
    for backend in ("native", "readable"):
        memory.backend = backend
        evaluate(model, drawn[:16], lambda _: "all")
        found[backend] = evaluate(model, drawn[:few], lambda _: "all")
    memory.backend = "native"
    whole = evaluate(model, drawn, lambda _: "all")
    one, other = found["native"], found["readable"]
    if one.predictions != other.predictions or one.f1 != other.f1:
        return None
    return EvaluationSpeed(sequences, whole.seconds, few, other.seconds, one.seconds)


GROWTH: dict[str, tuple[int, ...]] = {
    "tokens": (25, 50, 100, 200, 400, 800, 1600, 3200),
    "rows": (1, 4, 16, 64, 128, 256, 1024),
    "num_slots": (6, 12, 24, 48),
    "hidden_size": (64, 128, 200, 256),
}


def growth(name: str, size: int) -> dict[str, float]:
    """Time of a training step and memory of inference for each token, as one size grows and the others stay.

    Pointers are sharp. `nn.LSTM` of the same size stands beside it, for scale.
    """
    changed: dict[str, Any] = {"rows": 8 if name == "tokens" else 64, name: size}
    case = Case(name, "sharp", **changed)
    x, _ = case.batch()
    lstm = nn.LSTM(case.hidden_size, case.hidden_size)
    engine, other = best_of(2, case.step(case.layer("native")), lambda: lstm(x)[0].square().sum().backward())
    work = case.work()
    inference = dataclasses.replace(case, training=False)
    return {
        "size": size,
        "seconds_per_token": engine / work.tokens,
        "cells_per_token": work.cells,
        "lstm_seconds_per_token": other / x[..., 0].numel(),
        "training_memory": peak_memory(case, "native"),
        "inference_memory": peak_memory(inference, "native"),
    }
