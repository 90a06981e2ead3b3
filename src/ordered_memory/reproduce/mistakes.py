"""What a ListOps model gets wrong beyond its training data: whether the tree fails or the arithmetic, and which part.

python -m ordered_memory.reproduce.mistakes listops results/listops
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ordered_memory import __version__, atomic
from ordered_memory.classifier import Classifier
from ordered_memory.errors import told
from ordered_memory.provenance import commit
from ordered_memory.reproduce import generalisation
from ordered_memory.reproduce.operators import COUNT, by_operator
from ordered_memory.reproduce.tables import table
from ordered_memory.tasks.listops import ListOps, ListOpsConfig, WindowConfig, window
from ordered_memory.training.evaluation import evaluate

PREFIX = "mistakes-"
ARGUMENTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15)
SETS = ("900-1000", "15 arguments")
"""The test sets whose wrong answers are looked at."""


def measure(
    model: Classifier,
    arguments: Sequence[int] = ARGUMENTS,
    names: Sequence[str] = SETS,
    sets: dict[str, WindowConfig] = generalisation.TESTS,
) -> dict[str, Any]:
    """With a hard pointer: accuracy of each operator on so many arguments, and how many wrong answers of each test set
    come with the right tree, so that what failed is the cell."""
    found = {}
    for name in names:
        examples = window(sets[name])
        slots = max(tree.slots_needed for example in examples for tree in example.trees or ())
        slots = max(slots, getattr(model.encoder_config, "num_slots", 0))
        figures = evaluate(model, examples, ListOps().bucket, pointer="hard", num_slots=slots)
        wrong = [place for place, example in enumerate(examples) if figures.predictions[place] != example.label]
        right_tree = 0
        for place in wrong:
            gold, induced = examples[place].trees, figures.spans
            if gold is not None and induced is not None:
                right_tree += set(map(tuple, gold[0].spans.tolist())) == set(map(tuple, induced[place][0].tolist()))
        found[name] = {"n": len(examples), "wrong": len(wrong), "wrong_with_right_tree": right_tree}
    accuracy = by_operator(model, ListOpsConfig(), arguments, pointer="hard")
    return {
        "task": "listops",
        "model": model.model_name,
        "seed": model.card.get("training", {}).get("seed"),
        "expressions": COUNT,
        "operators": [[operator, count, share] for (operator, count), share in accuracy.items()],
        "tests": found,
        "cores": torch.get_num_threads(),
        "commit": commit(),
        "version": __version__,
    }


def section(folder: Path) -> list[str]:
    """What the page about ListOps says of it; nothing where nothing was measured."""
    titles = generalisation.titles()
    lines, told = [], []
    counts: list[int] = []
    for path in sorted(folder.glob(f"{PREFIX}*-seed*.json")):
        record = atomic.read_json(path)
        key = path.stem.removeprefix(PREFIX).rpartition("-seed")[0]
        title = f"{titles.get(key, key)}, seed {record['seed']}"
        shares = {(operator, count): share for operator, count, share in record["operators"]}
        counts = sorted({count for _, count in shares})
        lines += [
            [f"{title}: {operator}", *(f"{100 * shares[operator, count]:.1f}" for count in counts)]
            for operator in dict.fromkeys(operator for operator, _ in shares)
        ]
        parts = ", ".join(
            f"{entry['wrong_with_right_tree']} of {entry['wrong']} ({name})" for name, entry in record["tests"].items()
        )
        told.append(f"{title}: {parts}.")
    if not lines:
        return []
    return [
        "What fails there, with a hard pointer? Mostly not the tree. Of so many wrong answers so many came with the "
        f"gold tree: {' '.join(told)} Accuracy of each operator alone, on {COUNT} lists of so many random digits:",
        table(["arguments", *map(str, counts)], lines),
        "Least, greatest and sum need one number to be kept from argument to argument, and are right far beyond the "
        "five arguments of training. A median needs all of them to be kept, and of so many it was never shown how.",
    ]


if __name__ == "__main__":
    checkpoint, results = sys.argv[1:]
    with told():
        shown = Classifier.from_pretrained(checkpoint)
        name = generalisation.result_name(checkpoint, shown).removeprefix(generalisation.PREFIX)
        atomic.write_json(Path(results) / f"{PREFIX}{name}", measure(shown))
