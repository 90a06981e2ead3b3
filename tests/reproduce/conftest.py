"""One small demo and two small runs of logic, made once for all tests of this folder."""

import dataclasses
import io
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from rich.console import Console

from ordered_memory import presets
from ordered_memory.config import ClassifierConfig, Experiment, LSTMConfig, OrderedMemoryConfig, TrainingConfig
from ordered_memory.reproduce.demo import run_demo
from ordered_memory.tasks.listops import ListOpsConfig
from ordered_memory.tasks.logic import LogicConfig
from ordered_memory.training.loop import train
from ordered_memory.training.progress import Silent

TINY = Experiment(
    data=ListOpsConfig(
        pool_size=420, test_size=120, validation_size=60, max_depth=3, operators=("MIN", "MAX"), train_max_length=20
    ),
    encoder=OrderedMemoryConfig(hidden_size=8, num_slots=4),
    classifier=ClassifierConfig(embedding_size=8),
    training=TrainingConfig(epochs=3, batch_size=32, learning_rate=1e-2, evaluate_every=4),
)


class Demo(NamedTuple):
    folder: Path
    answer: dict[str, Any]
    said: str


def a_console(width: int = 120) -> Console:
    """A console that writes into memory."""
    return Console(file=io.StringIO(), width=width)


def said(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture(autouse=True)
def _small_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(presets.PRESETS, "listops-demo", TINY)
    monkeypatch.setitem(presets._OTHERS, "listops-demo", {"lstm": LSTMConfig(hidden_size=8)})
    monkeypatch.setitem(presets._TRAINING, "listops-demo", {})  # or the LSTM would train by the clock


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The folder of a finished demo, what it returned and what it said. Only to be read."""
    folder, console = tmp_path_factory.mktemp("demo") / "runs", a_console()
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_small(monkeypatch)
        answer = run_demo(folder, console)
    return Demo(folder, answer, said(console))


@pytest.fixture(scope="session")
def logic_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs `ordered-memory` and `lstm` on pairs of split C; they know nothing. Only to be read."""
    folder = tmp_path_factory.mktemp("logic")
    memory = Experiment(
        task="logic",
        data=LogicConfig(split="C", pairs=1_500, source="generated"),
        encoder=OrderedMemoryConfig(hidden_size=8, num_slots=4),
        classifier=ClassifierConfig(embedding_size=8),
        training=TrainingConfig(epochs=1, evaluate_every=0),
    )
    lstm = dataclasses.replace(memory, model="lstm", encoder=LSTMConfig(hidden_size=8))
    for experiment in (memory, lstm):
        train(experiment, folder / experiment.model, Silent())
    return folder


def other_data() -> Experiment:
    return dataclasses.replace(TINY, data=dataclasses.replace(TINY.data, seed=5))
