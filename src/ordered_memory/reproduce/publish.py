"""From a finished run to what the repository keeps of it: its result, and the model that is shipped.

python -m ordered_memory.reproduce.publish --run runs/demo/lstm --results results/listops-demo [--checkpoint FOLDER]
"""

from pathlib import Path
from typing import Any, Literal

import tyro

from ordered_memory import atomic
from ordered_memory.classifier import Classifier
from ordered_memory.reproduce.structures import count_structures
from ordered_memory.training.run_directory import RunDirectory

STRUCTURE_PAIRS = 4_000
"""Test pairs of logical inference whose structures are counted."""
CURVE = ("step", "seconds", "accuracy", "f1")
"""What is kept of each evaluation on the way."""


def publish(
    run: Path,
    results: Path,
    checkpoint: Path | None = None,
    name: str | None = None,
    pointer: Literal["soft", "hard"] | None = None,
) -> Path:
    """Writes the result with its learning curve into the folder of results, and the best model with a full card.

    Of logical inference it also tells which structures the statements' trees have.
    The file is named after model and seed, if no name is given. The pointer is what the model's card recommends: users
    of the model get it unless they ask for the other.
    """
    directory = RunDirectory.open(run)
    result = directory.result()
    path = results / f"{name or '{model}-seed{seed}'.format(**result)}.json"
    curve = [{key: record[key] for key in CURVE} for record in directory.metrics()]
    found: dict[str, Any] = {}
    if result["task"] == "logic" and result["test"]["f1_words"] is not None:
        found["structures"] = count_structures(run, STRUCTURE_PAIRS)
    atomic.write_json(path, result | found | {"curve": curve})
    if checkpoint is not None:
        model = Classifier.from_pretrained(run)
        model.card |= {"commit": result["commit"]}
        model.card |= {split: _figures(result[split]) for split in ("validation", "test")}
        if pointer is not None:
            model.card |= {"recommends": {"pointer": pointer}}
        model.save_pretrained(checkpoint)
    return path


def _figures(measured: dict[str, Any]) -> dict[str, Any]:
    return {name: measured[name] for name in ("n", "accuracy", "f1", "f1_without_root")}


if __name__ == "__main__":
    print(tyro.cli(publish))
