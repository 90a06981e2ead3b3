"""A trained ListOps model on what it was never shown: longer expressions, more arguments, deeper nesting.

Each test set is drawn from a seed and never kept. The pointer is measured soft, as it is in training, and hard.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ordered_memory import __version__, atomic
from ordered_memory.classifier import Classifier
from ordered_memory.errors import InputError
from ordered_memory.provenance import commit
from ordered_memory.reproduce.plan import listops_rows
from ordered_memory.tasks.listops import ListOps, WindowConfig, window
from ordered_memory.training.evaluation import evaluate
from ordered_memory.training.run_directory import RESULT

SEED = 3_000
"""Of the test sets: far from the seeds of training data. New: by those of seed 1,000 a recipe was chosen."""
VALIDATION_SEED = 2_000
VALIDATION_SHARE = 0.2
"""How large the validation sets are beside the test sets."""


def _lengths(low: int, high: int, size: int = 1_000, **changes: Any) -> WindowConfig:
    return WindowConfig(seed=SEED, size=size, min_length=low, max_length=high, **changes)


TESTS: dict[str, WindowConfig] = {
    **{f"{low}-{low + 100}": _lengths(low, low + 100) for low in range(200, 1000, 100)},
    "2,000": _lengths(1_900, 2_100, 300),
    "5,000": _lengths(4_900, 5_100, 100),
    "10,000": _lengths(9_900, 10_100, 50),
    # The published sets: depth at most 9, 100 to 1,000 tokens.
    "10 arguments": _lengths(100, 1_000, max_depth=9, max_arguments=10),
    "15 arguments": _lengths(100, 1_000, max_depth=9, max_arguments=15),
    # Few arguments make length into depth: far beyond the 20 levels of training.
    "deep": _lengths(200, 400, max_depth=60, max_arguments=2),
    "Long Range Arena": _lengths(500, 2_000, max_depth=10, max_arguments=10),
}
"""Every test set by its name. Those above 1,000 tokens are smaller: they cost as many tokens."""
VALIDATION: dict[str, WindowConfig] = {
    name: dataclasses.replace(config, seed=VALIDATION_SEED, size=round(VALIDATION_SHARE * config.size))
    for name, config in TESTS.items()
}
"""The same lengths and shapes drawn from another seed: recipes and pointers are chosen by these, never by the tests."""

LONGEST = dict.fromkeys(("transformer", "universal-transformer", "gumbel-tree", "cooperative"), 5_100)
"""Tokens above which a model is not measured: the time of these grows faster than the length."""


def too_long(model: str, name: str) -> bool:
    """Whether a test set has longer expressions than that model is measured on."""
    return model in LONGEST and TESTS[name].max_length > LONGEST[model]


def _as_json(config: WindowConfig) -> Any:
    return json.loads(json.dumps(dataclasses.asdict(config)))


def measure(
    model: Classifier,
    names: Sequence[str] = tuple(TESTS),
    pointers: Sequence[str] = ("soft", "hard"),
    told: Callable[[str, str, dict[str, Any]], None] = lambda *_: None,
    sets: dict[str, WindowConfig] = TESTS,
) -> dict[str, Any]:
    """Figures of each set and pointer. Where an expression is deeper than the model's stack it gets more slots."""
    if unknown := [name for name in names if name not in sets]:
        raise InputError(f"{unknown[0]!r} is no test set: there are {', '.join(sets)}")
    task, found = ListOps(), {}
    slots_of_model = getattr(model.encoder_config, "num_slots", None)
    for name in names:
        examples = window(sets[name])
        entry: dict[str, Any] = {"data": _as_json(sets[name])}
        options: list[tuple[str, dict[str, Any]]] = [("none", {})]
        if slots_of_model is not None:
            needed = max(tree.slots_needed for example in examples for tree in example.trees or ())
            entry["num_slots"] = max(needed, slots_of_model)
            options = [(kind, {"pointer": kind, "num_slots": entry["num_slots"]}) for kind in pointers]
        for kind, chosen in options:
            figures = evaluate(model, examples, task.bucket, **chosen)
            entry[kind] = {key: value for key, value in figures.to_dict().items() if key != "buckets"}
            entry[kind] |= {"cores": torch.get_num_threads(), "commit": commit(), "version": __version__}
            told(name, kind, entry[kind])
        found[name] = entry
    return {
        "task": "listops",
        "model": model.model_name,
        "seed": model.card.get("training", {}).get("seed"),
        "weights": _digest(model),
        "tests": found,
    }


def _digest(model: Classifier) -> str:
    """By which figures of another model, trained anew under the same name, are told from its own."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def measure_into(
    path: Path,
    model: Classifier,
    names: Sequence[str],
    told: Callable[[str, str, dict[str, Any]], None],
    pointers: Sequence[str] = ("hard", "soft"),
    sets: dict[str, WindowConfig] = TESTS,
) -> dict[str, Any]:
    """As `measure`, one test set after another into a file; what it holds of the same sets is told, and left as it is.

    Of the pointers the first is measured on every test set before the next.
    """
    known: dict[str, Any] | None = atomic.read_json(path) if path.exists() else None
    digest = _digest(model)
    if known is not None and known.get("weights", digest) != digest:  # there are files from before it was noted
        raise InputError(f"{path}: its figures are of another model of that name: move it away to measure this one")
    if not hasattr(model.encoder_config, "num_slots"):
        pointers = pointers[:1]  # it has none
    for pointer, name in itertools.product(pointers, names):
        there = {} if known is None else known["tests"].get(name, {})
        if there.get("data") != _as_json(sets[name]):
            there = {}
        if kind := next((kind for kind in (pointer, "none") if kind in there), None):
            told(f"{name}, measured before", kind, there[kind])
            continue
        new = measure(model, [name], [pointer], told, sets)
        new["tests"][name] = there | new["tests"][name]
        if known is not None:
            new = known | new | {"tests": known["tests"] | new["tests"]}
        known = new
        atomic.write_json(path, known)
    if known is None:
        raise InputError("no test set was named")
    return known


PREFIX = "generalisation-"


def result_name(checkpoint: str, model: Classifier) -> str:
    """What a model's file of figures is called: as its run in the plan, or else after its folder and seed."""
    name = Path(checkpoint).resolve().name
    known = {row.name(seed) for row in listops_rows() for seed in row.seeds}
    task, _, run = model.card.get("run", "").partition("/")  # a shipped model's card knows its run
    if task == "listops" and run in known:
        name = run
    seed = model.card.get("training", {}).get("seed")
    return f"{PREFIX}{name if name in known else f'{name}-seed{seed}'}.json"


def finished_runs(runs: Path) -> tuple[list[Path], list[Path]]:
    """The runs of the compared systems that are finished, and those that are not: each where it is, or should be."""
    planned = [runs / row.name(seed) for row in listops_rows() if row.group == "systems" for seed in row.seeds]
    finished = [path for path in planned if (path / RESULT).is_file()]
    if not finished:
        raise InputError(
            f"{runs}: no compared system has a finished run here. Of runs made elsewhere there are figures only, no "
            f"models: om train listops --model lstm --out {runs / 'lstm-seed0'} makes one that will be measured"
        )
    return finished, [path for path in planned if path not in finished]


@dataclass(frozen=True)
class Measured:
    """The figures of one system, of all its seeds."""

    title: str
    model: str
    records: list[dict[str, Any]]
    """What `measure` gave for each seed."""

    @property
    def seeds(self) -> str:
        return " ".join(str(record["seed"]) for record in self.records)

    def accuracies(self, name: str, pointer: str) -> list[float]:
        """Of a test set, for each seed that was measured on it."""
        entries = (record["tests"].get(name, {}).get(pointer) for record in self.records)
        return [entry["accuracy"] for entry in entries if entry is not None]


def titles() -> dict[str, str]:
    """What each row of the plan is called, by its key."""
    return {row.key: row.title for row in listops_rows()}


def load_measured(folder: Path) -> dict[str, Measured]:
    """What was measured beyond the training data, by the key of each system's row, in the order of the plan."""
    names = titles()
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob(f"{PREFIX}*-seed*.json")):
        key = path.stem.removeprefix(PREFIX).rpartition("-seed")[0]
        found.setdefault(key, []).append(atomic.read_json(path))
    order = list(names)
    return {
        key: Measured(names.get(key, key), found[key][0]["model"], found[key])
        for key in sorted(found, key=lambda key: order.index(key) if key in order else len(order))
    }
