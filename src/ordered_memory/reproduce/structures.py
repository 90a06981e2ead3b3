"""Which structure a logic model has found for its statements, and how often: the paper's tree figure, counted.

The paper shows three induced structures, all of which can work out a statement, but its figure is an image. Here a
structure is told by how `and` and `or` attach, in the tree over words:

    gold      ( X ( and Y ) )      the operator joins its right argument first, as the brackets show
    left      ( ( X and ) Y )      it joins its left argument first
    mixed     some of both; every statement inside the statement is still a node
    composed  some statement inside is no node, as in ( ( not ( a or ) ) b ): what still lacked an argument was composed
              before the argument came. Yet every node has a meaning: a statement, or one that lacks no more than an
              operator does, a whole statement at its left, at its right, or at both
    other     some node cuts through an argument: it has no such meaning

python -m ordered_memory.reproduce.structures runs/logic --svg structures.svg
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro

from ordered_memory import atomic
from ordered_memory.classifier import Classifier
from ordered_memory.drawing import draw_svg, draw_text, stack_svg
from ordered_memory.errors import InputError, told
from ordered_memory.reproduce.runs import FinishedRun, held_out, load_runs
from ordered_memory.tasks import Example
from ordered_memory.tasks.logic import operations
from ordered_memory.tasks.propositions import BRACKETS, VARIABLES
from ordered_memory.training.evaluation import evaluate
from ordered_memory.trees import Tree, without_tokens

Structure = Literal["gold", "left", "mixed", "composed", "other"]
STRUCTURES: tuple[Structure, ...] = get_args(Structure)
MEANINGS: dict[Structure, str] = {
    "gold": "as the brackets have it, ( X ( and Y ) )",
    "left": "operators joined to the left, ( ( X and ) Y )",
    "mixed": "some of both",
    "composed": "composed before an argument came",
    "other": "without meaning",
}
"""Of each structure, in words."""
JOINING = ("and", "or")
"""The operators that stand between their arguments."""


def structure(gold: Tree, induced: Tree) -> Structure:
    """The structure of an induced tree of a statement; both trees are over words."""
    if gold.tokens != induced.tokens:
        raise InputError(f"two trees of one statement are needed: {gold!r} and {induced!r}")
    statements = _statements(gold)
    nodes = _nodes(induced)
    if nodes == _nodes(gold):
        return "gold"
    whole = {(start, end) for start, end in statements if end - start > 1}
    # The right part of `X and Y` begins with its operator.
    starts = zip(gold.spans[:, 0].tolist(), gold.splits.tolist(), strict=True)
    left = {(start, middle + 1) for start, middle in starts if gold.tokens[middle] in JOINING}
    if nodes == whole | left:
        return "left"
    if not all(_has_meaning(node, statements) for node in nodes):
        return "other"
    return "mixed" if whole <= nodes else "composed"


def _nodes(tree: Tree) -> set[tuple[int, int]]:
    return {(start, end) for start, end in tree.spans.tolist()}


def _statements(gold: Tree) -> set[tuple[int, int]]:
    """Spans that are statements: variables, and all nodes but an operator with its right argument."""
    variables = {(place, place + 1) for place, word in enumerate(gold.tokens) if word in VARIABLES}
    return variables | {(start, end) for start, end in _nodes(gold) if gold.tokens[start] not in JOINING}


def _has_meaning(node: tuple[int, int], statements: set[tuple[int, int]]) -> bool:
    """Whether a node is a statement, or becomes one by a whole statement at its left, at its right, or at both."""
    start, end = node
    starts = [start, *(first for first, last in statements if last == start)]
    ends = [end, *(last for first, last in statements if first == end)]
    return any((first, last) in statements for first in starts for last in ends)


@dataclass
class Found:
    """The structures of the statements of a set of examples."""

    counts: Counter[Structure] = field(default_factory=Counter)
    first: dict[Structure, Tree] = field(default_factory=dict)
    """The first induced tree of each structure, over words."""

    def add(self, gold: Tree, induced: Tree) -> None:
        """A statement without `and` and `or` has no choice, and is not counted."""
        if any(word in JOINING for word in gold.tokens):
            kind = structure(gold, induced)
            self.counts[kind] += 1
            self.first.setdefault(kind, induced)

    def lines(self) -> Iterable[str]:
        """How many there are of each, in words."""
        total = self.counts.total()
        for kind in STRUCTURES:
            yield f"{kind:<9}{self.counts[kind]:>8,}{self.counts[kind] / total:>8.1%}"


def find_structures(model: Classifier, examples: Sequence[Example]) -> Found:
    """The structures that the model gives to the statements of pairs; none where no statement has a choice."""
    spans = evaluate(model, examples, lambda _: "all").spans
    if spans is None:
        raise InputError(f"{model.model_name} induces no trees: there is no structure to tell")
    found = Found()
    for example, rows in zip(examples, spans, strict=True):
        for gold, row in zip(example.trees or (), rows, strict=True):
            found.add(*(without_tokens(tree, BRACKETS) for tree in (gold, Tree(gold.tokens, row))))
    return found


def count_structures(run: Path, count: int) -> dict[str, dict[Structure, int]]:
    """How many statements of so many test pairs of a finished run have each structure: of those as long as in training,
    and of longer ones, told by the operations of the pair."""
    finished = _logic_run(run)
    pairs = _evenly(held_out(finished), count)
    most = finished.experiment.data.max_operations
    sets = {
        "trained": [pair for pair in pairs if operations(pair) <= most],
        "longer": [pair for pair in pairs if operations(pair) > most],
    }
    found = {name: find_structures(finished.model, some).counts for name, some in sets.items() if some}
    return {name: {kind: counts[kind] for kind in STRUCTURES} for name, counts in found.items()}


def _logic_run(run: Path) -> FinishedRun:
    (finished,) = load_runs([run])
    if finished.experiment.task != "logic":
        raise InputError(f"{run}: its task is {finished.experiment.task!r}, and structures are told of logic")
    return finished


def _evenly(pairs: Sequence[Example], count: int) -> Sequence[Example]:
    """So many at most, from the first to the last."""
    return pairs[:: math.ceil(len(pairs) / count)]


def main(
    run: Annotated[Path, tyro.conf.Positional],
    count: int = 2_000,
    svg: Path | None = None,
) -> None:
    """Counts the structures on test pairs of a finished run of logic, and draws the first tree of each.

    Args:
        run: The run's directory.
        count: How many test pairs to look at, at most, evenly over the test set.
        svg: Where to draw the trees as one picture, instead of the terminal.
    """
    if count < 1:
        raise InputError(f"--count is {count}, and must be at least 1")
    finished = _logic_run(run)
    found = find_structures(finished.model, _evenly(held_out(finished), count))
    if not found.counts:
        raise InputError("no statement has `and` or `or`: there is no structure to tell")
    print("\n".join(found.lines()))
    drawn = [kind for kind in STRUCTURES if kind in found.first]
    if svg is not None:
        trees = [draw_svg(found.first[kind], title=kind) for kind in drawn]
        atomic.write_text(svg, stack_svg(*trees, captions=[f"{kind}: {MEANINGS[kind]}" for kind in drawn]))
        print(f"{', '.join(drawn)}: {svg}")
        return
    for kind in drawn:
        print(f"\n{kind}\n{draw_text(found.first[kind])}")


if __name__ == "__main__":
    with told():
        tyro.cli(main)
