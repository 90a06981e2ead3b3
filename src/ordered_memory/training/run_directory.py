"""A run's directory: its config, its metrics, the best model, and the state from which it goes on after a kill.

config.json     the experiment, whole: `om train --config` runs it again
metrics.jsonl   a line for each evaluation
best/           the model with the best validation accuracy so far
last/           the model, the optimiser, the generator's state, the position, and the trees that were written down, if
                any: `--resume` goes on from here
result.json     once it is finished: the figures
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ordered_memory import atomic
from ordered_memory.classifier import WEIGHTS, Classifier, load_tensors, save_tensors
from ordered_memory.config import Experiment, from_dict
from ordered_memory.errors import InputError
from ordered_memory.training.batching import Dataset
from ordered_memory.training.written import WrittenTrees

CONFIG, METRICS, RESULT = "config.json", "metrics.jsonl", "result.json"
POSITION, OPTIMISER, TREES = "position.json", "optimiser.safetensors", "trees.safetensors"


@dataclass(frozen=True)
class Part:
    """Part of a run that was made by one state of the code on one number of threads."""

    step: int
    """The first one's number."""
    commit: str | None
    cores: int


@dataclass(frozen=True)
class Written:
    """Trees that were written down for a new model to learn along."""

    step: int
    """The first one that learns along them."""
    examples: int
    f1: float | None
    """Of a sample of them, over words; none without gold trees. Nothing hangs on it: it is only told."""


@dataclass
class Position:
    """How far a run is. With the weights, the optimiser and the generator, all that the next step depends on."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches done of this epoch."""
    seconds: float = 0.0
    best_accuracy: float = -1.0
    best_loss: float = 0.0
    """The loss that came with it: of equal accuracies the one with less loss is kept."""
    best_step: int = 0
    since_best: int = 0
    """Evaluations since the best one."""
    since_halving: int = 0
    """Evaluations without a rise since the learning rate was halved."""
    rate_scale: float = 1.0
    """What halving has left of the learning rate."""
    epochs_began: float = 0.0
    """How much of the training was done when trees were found and the epochs began."""
    skipped: int = 0
    """Steps not applied because the loss or the gradient was not finite."""
    training_loss: float = 0.0
    """Sum over the steps since the last evaluation."""
    training_steps: int = 0
    """Steps since the last evaluation."""
    parts: list[Part] = field(default_factory=list)
    """More than one where the run was stopped and resumed in other circumstances."""
    written: list[Written] = field(default_factory=list)
    """Of each time that trees were written down, how good they were."""
    finished: bool = False

    def begin_part(self, commit: str | None, cores: int) -> None:
        """Notes who goes on from here, if it is another than before."""
        if not self.parts or (self.parts[-1].commit, self.parts[-1].cores) != (commit, cores):
            self.parts.append(Part(self.step, commit, cores))


class RunDirectory:
    """Reads and writes one run's files; every write is whole or not at all."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, experiment: Experiment) -> "RunDirectory":
        """A new run; a folder that holds one already is left as it is."""
        cls.require_new(path)
        atomic.write_json(path / CONFIG, experiment.to_dict())
        return cls(path)

    def withdraw(self) -> None:
        """Takes back a new run that cannot begin; what else lies in its folder stays."""
        for name in (CONFIG, ".lock"):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.path.rmdir()

    @staticmethod
    def require_new(path: Path) -> None:
        """Refuse a place where no new run can be."""
        if (path / CONFIG).exists():
            raise InputError(f"{path}: there is a run already: go on with it by --resume, or name another --out")
        there = next(place for place in (path, *path.parents) if place.exists())
        if not there.is_dir():
            raise InputError(f"{there}: not a directory: name another --out")
        if not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"{there}: nothing may be written here: name another --out")

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """A run that is there."""
        if not (path / CONFIG).is_file():
            raise InputError(f"{path}: there is no run here: it holds no {CONFIG}")
        return cls(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second process from training in the same directory."""
        with ExitStack() as stack:
            with atomic.explained(self.path, "locked"):
                file = stack.enter_context((self.path / ".lock").open("w"))
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise InputError(f"{self.path}: another process is training here") from None
            yield

    def experiment(self) -> Experiment:
        return Experiment.from_dict(atomic.read_json(self.path / CONFIG), str(self.path / CONFIG))

    def metrics(self) -> list[dict[str, Any]]:
        """Every evaluation so far; a line cut short by a kill is left out."""
        path = self.path / METRICS
        if not path.exists():
            return []
        records = []
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                records.append(json.loads(line))
            except ValueError:
                break
        return records

    def append(self, record: dict[str, Any]) -> None:
        path = self.path / METRICS
        with atomic.explained(path, "written"), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def save_best(self, model: Classifier) -> None:
        model.save_pretrained(self.path / "best")

    def save_last(
        self,
        model: Classifier,
        optimiser: torch.optim.Optimizer,
        position: Position,
        written: WrittenTrees | None = None,
    ) -> None:
        """The state after this step, with the trees that are learned along, in place of the former one."""

        def fill(folder: Path) -> None:
            model.write_files(folder)
            save_tensors(folder / OPTIMISER, optimiser_tensors(optimiser) | {"generator": torch.get_rng_state()})
            atomic.write_json(folder / POSITION, asdict(position))
            if written is not None:
                save_tensors(folder / TREES, written.tensors())

        atomic.write_directory(self.path / "last", fill)

    def load_last(self, model: Classifier, optimiser: torch.optim.Optimizer) -> Position:
        """Puts model, optimiser and generator back, forgets what was logged after, and says where the run was.

        A run killed before its first save starts anew.
        """
        atomic.recover(self.path / "last")
        atomic.recover(self.path / "best")
        for leftover in self.path.glob(".*.unfinished"):
            leftover.unlink()
        folder = self.path / "last"
        if not folder.exists():
            if (self.path / RESULT).exists():
                raise InputError(
                    f"{folder}: it is missing, so the finished run cannot go on; its result is still there"
                )
            self._forget_after(0)
            return Position()
        where = folder / POSITION
        values = atomic.read_json(where)
        if isinstance(values, dict):
            for name in ("pointer_afresh", "searched", "judged_loss"):  # runs of former versions noted them
                values.pop(name, None)
        position = from_dict(Position, values, str(where))
        _load_state(folder, model, optimiser)
        self._forget_after(position.step)
        return position

    def load_written(self, dataset: Dataset, sentences: int) -> WrittenTrees | None:
        """The trees that the run learns along, if it has written any."""
        path = self.path / "last" / TREES
        if not path.exists():
            return None
        try:
            return WrittenTrees.from_tensors(load_tensors(path), dataset, sentences)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def _forget_after(self, step: int) -> None:
        kept = [record for record in self.metrics() if record["step"] <= step]
        atomic.write_text(self.path / METRICS, "".join(json.dumps(record) + "\n" for record in kept))

    def finish(self, result: dict[str, Any]) -> None:
        atomic.write_json(self.path / RESULT, result)

    def result(self) -> dict[str, Any]:
        values: dict[str, Any] = atomic.read_json(self.path / RESULT)
        return values


def _load_state(folder: Path, model: Classifier, optimiser: torch.optim.Optimizer) -> None:
    """Model, optimiser and generator as they were saved."""
    model.load_state_dict_checked(folder / WEIGHTS)
    tensors = load_tensors(folder / OPTIMISER)
    try:
        torch.set_rng_state(tensors.pop("generator"))
        load_optimiser_tensors(optimiser, tensors)
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise InputError(f"{folder / OPTIMISER}: not the optimiser's state of this model: {error}") from None


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, flat: `number.name` for the parameter of that number."""
    state: dict[int, dict[str, Tensor]] = optimiser.state_dict()["state"]
    return {f"{number}.{name}": value for number, parts in state.items() for name, value in parts.items()}


def load_optimiser_tensors(optimiser: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Puts back what `optimiser_tensors` gave, as copies: what was loaded may still be the file itself."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        number, name = key.split(".", 1)
        if int(number) >= len(parameters) or value.shape not in (torch.Size(), parameters[int(number)].shape):
            raise ValueError(f"{key!r} has shape {tuple(value.shape)}")
        state.setdefault(int(number), {})[name] = value.clone()
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
