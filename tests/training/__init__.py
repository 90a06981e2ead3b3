"""One tiny experiment that every test of training shares: hundredths of a second an epoch, with dropout everywhere."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ordered_memory.config import (
    ClassifierConfig,
    CooperativeConfig,
    Experiment,
    GumbelTreeConfig,
    LSTMConfig,
    OrderedMemoryConfig,
    SPINNConfig,
    TrainingConfig,
)
from ordered_memory.tasks.listops import ListOpsConfig
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position, RunDirectory


def tiny(model: str = "ordered-memory", **training: Any) -> Experiment:
    """Four steps an epoch."""
    encoders = {
        "ordered-memory": OrderedMemoryConfig(hidden_size=6, num_slots=3, dropout=0.2, attention_dropout=0.2),
        "lstm": LSTMConfig(hidden_size=6, num_layers=2, dropout=0.2),
        "gumbel-tree": GumbelTreeConfig(hidden_size=6),
        "rl-spinn": SPINNConfig(hidden_size=6, tracking_size=4),
        "cooperative": CooperativeConfig(hidden_size=6, parser_size=4, ppo_updates=3),
    }
    return Experiment(
        model=model,
        data=ListOpsConfig(
            pool_size=36, test_size=8, validation_size=8, max_depth=2, max_arguments=3, train_max_length=None
        ),
        encoder=encoders[model],
        classifier=ClassifierConfig(embedding_size=5),
        training=TrainingConfig(**{"epochs": 3, "batch_size": 5, "learning_rate": 0.01, **training}),
    )


def everything_that_lasts(run: Path) -> dict[str, Any]:
    """All that a run leaves behind, byte for byte, but for the times in it."""
    found: dict[str, Any] = {
        str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*.safetensors"))
    }
    lines = (run / "metrics.jsonl").read_text().splitlines()
    found["metrics.jsonl"] = [{**json.loads(line), "seconds": None} for line in lines]
    found["position"] = {**json.loads((run / "last" / "position.json").read_text()), "seconds": None}
    for name in ("config.json", "best/config.json", "last/config.json"):
        found[name] = (run / name).read_bytes()
    result = json.loads((run / "result.json").read_text())
    for part in (result["validation"], result["test"], *result["hard_pointer"].values(), result["position"]):
        part["seconds"] = None
    found["result.json"] = result
    return found


def metrics(folder: Path) -> list[dict[str, Any]]:
    return RunDirectory(folder).metrics()


def last_position(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / "last" / "position.json").read_text())
    return values


class Listener(Silent):
    """Calls back after every step, and counts the stops."""

    def __init__(self, after_step: Callable[[Position], None] = lambda _: None) -> None:
        self.after_step, self.stops = after_step, 0

    def step(self, position: Position, share: float) -> None:  # noqa: ARG002
        self.after_step(position)

    def stop(self) -> None:
        self.stops += 1


def stopping_after(step: int) -> Listener:
    """One that asks the run to stop after that step, as Ctrl-C or a scheduler would."""

    def stop(position: Position) -> None:
        if position.step == step:
            signal.raise_signal(signal.SIGTERM)

    return Listener(stop)
