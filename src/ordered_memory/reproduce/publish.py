"""From a finished run to what the repository keeps of it: its result, and the model that is shipped.

python -m ordered_memory.reproduce.publish --run runs/demo/lstm --results results/listops-demo [--checkpoint FOLDER]
"""

from pathlib import Path
from typing import Any, Literal

import tyro

from ordered_memory import atomic
from ordered_memory.classifier import AS_NEEDED, Classifier
from ordered_memory.errors import told
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
    slots_as_needed: bool = False,
) -> Path:
    """Writes the result with its learning curve into the folder of results, and the best model with a full card.

    Of logical inference it also tells which structures the statements' trees have.
    The file is named after model and seed, if no name is given. The pointer, and slots as a text needs them, are what
    the model's card recommends: users of the model get them unless they ask for others.
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
        model.card |= {"run": f"{results.name}/{path.stem}", "commit": result["commit"]} | _figures(result)
        if result.get("hard_pointer"):
            model.card |= {"hard_pointer": _figures(result["hard_pointer"])}
        recommends = {"pointer": pointer, "num_slots": AS_NEEDED if slots_as_needed else None}
        if known := {name: value for name, value in recommends.items() if value is not None}:
            model.card |= {"recommends": known}
        model.save_pretrained(checkpoint)
    return path


def _figures(measured: dict[str, Any]) -> dict[str, Any]:
    """What a card tells of the validation and test sets."""
    names = ["n", "accuracy", "f1", "f1_without_root"]
    if measured["test"].get("f1_words") is not None:
        names.append("f1_words")
    return {split: {name: measured[split][name] for name in names} for split in ("validation", "test")}


if __name__ == "__main__":
    with told():
        print(tyro.cli(publish))
