"""From a finished run to what the repository keeps of it: its result, and the model that is shipped.

python -m ordered_memory.reproduce.publish RUN results/listops-demo [src/ordered_memory/checkpoints/listops-demo]
"""

import sys
from pathlib import Path
from typing import Any

from ordered_memory import atomic
from ordered_memory.classifier import Classifier
from ordered_memory.training.run_directory import RunDirectory


def publish(run: Path, results: Path, checkpoint: Path | None = None) -> Path:
    """Writes the result into the folder of results, by model and seed; and the best model, its figures in its card."""
    result = RunDirectory.open(run).result()
    path = results / f"{result['model']}-seed{result['seed']}.json"
    atomic.write_json(path, result)
    if checkpoint is not None:
        model = Classifier.from_pretrained(run)
        model.card |= {"commit": result["commit"]}
        model.card |= {split: _figures(result[split]) for split in ("validation", "test")}
        model.save_pretrained(checkpoint)
    return path


def _figures(measured: dict[str, Any]) -> dict[str, Any]:
    return {name: measured[name] for name in ("n", "accuracy", "f1", "f1_without_root")}


if __name__ == "__main__":
    print(publish(*map(Path, sys.argv[1:])))
