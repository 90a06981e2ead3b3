"""Accuracy by operator and number of arguments, on expressions of one operator: what a ListOps model can work out."""

import random
from collections.abc import Sequence
from html import escape
from typing import Any

from ordered_memory.classifier import Classifier
from ordered_memory.reproduce import markup
from ordered_memory.reproduce.runs import FinishedRun, percent
from ordered_memory.tasks import Example
from ordered_memory.tasks.listops import ListOps, ListOpsConfig, evaluate, gold_tree
from ordered_memory.tasks.listops_generator import DIGITS, END
from ordered_memory.training.evaluation import evaluate as measure

COUNT = 200
"""Expressions of each operator and number of arguments."""


def flat_expressions(operator: str, arguments: int, count: int = COUNT, seed: int = 0) -> list[Example]:
    """Expressions of one operator on random digits, such as [SM 3 9 4 ]."""
    digits = random.Random(seed)
    found = []
    for _ in range(count):
        tokens = (f"[{operator}", *(DIGITS[int(10 * digits.random())] for _ in range(arguments)), END)
        found.append(Example((tokens,), DIGITS[evaluate(tokens)], (gold_tree(tokens),)))
    return found


def by_operator(
    model: Classifier, data: ListOpsConfig, arguments: Sequence[int] | None = None, **options: Any
) -> dict[tuple[str, int], float]:
    """The share of right answers for each operator and number of arguments, those of the training data if none are
    named. Options go to the encoder."""
    counts = arguments or range(data.min_arguments, data.max_arguments + 1)
    kinds = [(name, count) for name in data.operators for count in counts]
    examples = [example for kind in kinds for example in flat_expressions(*kind)]
    figures = measure(model, examples, ListOps(data).bucket, **options)
    right = [answer == example.label for answer, example in zip(figures.predictions, examples, strict=True)]
    return {kind: sum(right[COUNT * place : COUNT * (place + 1)]) / COUNT for place, kind in enumerate(kinds)}


def operators_section(runs: Sequence[FinishedRun]) -> str:
    """A table for each run, its cells as full as the answers are right; nothing for other tasks."""
    data = runs[0].experiment.data
    if not isinstance(data, ListOpsConfig):
        return ""
    counts = range(data.min_arguments, data.max_arguments + 1)
    tables = []
    for run in runs:
        accuracy = by_operator(run.model, data)
        rows = [markup.row(name, [_cell(accuracy[name, count]) for count in counts]) for name in data.operators]
        heads = (run.name, *(f"{count} arguments" for count in counts))
        tables.append(markup.table(heads, rows, ""))
    example = " ".join(flat_expressions(data.operators[-1], data.min_arguments, 1)[0].sentences[0])
    caption = (
        f"Accuracy on {COUNT} expressions of a single operator for each cell, such as {example}, made for this page. "
        "Trees do not matter here: it is what the model makes of its arguments."
    )
    return markup.section("Accuracy by operator", "\n".join(tables) + f'\n<p class="caption">{escape(caption)}</p>')


def _cell(share: float) -> str:
    return f'<td class="shade" style="--share:{100 * share:.0f}%">{percent(share, 1)}</td>'
