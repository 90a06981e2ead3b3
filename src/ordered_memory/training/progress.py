"""What a person sees of a training: a bar with rate and time left in a terminal, plain lines elsewhere."""

import math
import time
from collections import deque
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from ordered_memory.config import Experiment
from ordered_memory.training.run_directory import Position
from ordered_memory.training.turns import examples_read

WINDOW = 60.0
"""Seconds between the marks from which rate and time left are told."""


class Mark(NamedTuple):
    """How far a training was at some time."""

    time: float
    step: int
    share: float


class Progress(Protocol):
    """What a training tells while it runs."""

    def start(self, experiment: Experiment, steps_per_epoch: int, position: Position, share: float) -> None: ...

    def step(self, position: Position, share: float) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def measured(self, done: int, total: int) -> None: ...

    def stop(self) -> None: ...

    def tell(self, text: str) -> None: ...


class Silent:
    """Tells nothing."""

    def start(self, experiment: Experiment, steps_per_epoch: int, position: Position, share: float) -> None: ...

    def step(self, position: Position, share: float) -> None: ...

    def evaluated(self, record: dict[str, Any]) -> None: ...

    def measured(self, done: int, total: int) -> None: ...

    def stop(self) -> None: ...

    def tell(self, text: str) -> None: ...


class Live:
    """Tells on the console; every evaluation stays there as a line."""

    def __init__(self, console: Console, interval: float = 30.0) -> None:
        self.console, self.interval = console, interval
        self.bar: Bar | None = None
        self.told = time.perf_counter()

    def start(self, experiment: Experiment, steps_per_epoch: int, position: Position, share: float) -> None:
        config = experiment.training
        goal = f"for {config.budget}" if config.budget else f"{config.epochs} epochs of {steps_per_epoch} steps"
        if config.seeking_steps:
            seeking = f"{config.seeking_steps:,} steps that seek trees"
            goal = f"{goal}, with first {seeking}" if config.budget else f"{seeking}, then {goal}"
        again = f", from step {position.step}" if position.step else ""
        self.console.print(
            f"training {experiment.model} on {experiment.task}, {goal}{again}", highlight=False, soft_wrap=True
        )
        self.told = time.perf_counter()
        self.marks = deque([Mark(self.told, position.step, share)])
        self.config = config
        if self.console.is_terminal:
            self._show(share, "starting")

    def step(self, position: Position, share: float) -> None:
        self._show(share, self._state(position, share, time.perf_counter()))

    def evaluated(self, record: dict[str, Any]) -> None:
        tree = "" if record["f1"] is None else f"  F1 {100 * record['f1']:6.2f}"
        if record.get("f1_words") is not None:
            tree += f" (of words {100 * record['f1_words']:6.2f})"
        loss = "   - " if record["training_loss"] is None else f"{record['training_loss']:.3f}"
        skipped = f"  [red]{record['skipped']} steps not finite, skipped[/]" if record["skipped"] else ""
        self.console.print(
            f"  step {record['step']:>6}  {duration(record['seconds']):>7}  loss {loss}"
            f"  validation accuracy {100 * record['accuracy']:6.2f}{tree}{skipped}",
            highlight=False,
            soft_wrap=True,
        )

    def measured(self, done: int, total: int) -> None:
        self._show(done / total, f"measured {done:,} of {total:,}")

    def _show(self, share: float, state: str) -> None:
        """The state of a longer work: on the bar, or as a line now and then."""
        now = time.perf_counter()
        if self.console.is_terminal:
            if self.bar is None:
                columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"))
                self.bar = Bar(*columns, console=self.console, transient=True)
                self.bar.start()
                self.bar_task = self.bar.add_task(state, total=1.0)
            self.bar.update(self.bar_task, completed=share, description=state)
        elif now - self.told >= self.interval:
            self.told = now
            self.console.print(f"  {state}", highlight=False, soft_wrap=True)

    def stop(self) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def tell(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    def _state(self, position: Position, share: float, now: float) -> str:
        """By the last minute or two: steps of another phase may take ten times as long, or a tenth."""
        if now - self.marks[-1].time >= WINDOW:
            self.marks.append(Mark(now, position.step, share))
            if len(self.marks) > 2:
                self.marks.popleft()
        since = self.marks[0]
        read = examples_read(self.config, position.step) - examples_read(self.config, since.step)
        rate = read / max(1e-9, now - since.time)
        gained = share - since.share
        left = (now - since.time) / gained * (1 - share) if gained > 0 else math.nan
        skipped = f", {position.skipped} skipped" if position.skipped else ""
        return f"step {position.step}{skipped}  {rate:.0f} examples/s  {duration(left)} left"


def duration(seconds: float) -> str:
    """2h05m, 3m20s, 12s."""
    if not math.isfinite(seconds):
        return "?"
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 60}m{whole % 60:02}s" if whole >= 60 else f"{whole}s"
