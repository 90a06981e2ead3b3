"""The README's figures, rendered from `results/`: none is typed by hand.

python -m ordered_memory.reproduce.readme README.md results
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ordered_memory import atomic
from ordered_memory.errors import InputError
from ordered_memory.models import TITLES
from ordered_memory.reproduce import listops_page, logic_page
from ordered_memory.reproduce.runs import percent
from ordered_memory.reproduce.tables import threads
from ordered_memory.training.progress import duration

MADE = "made by ordered_memory.reproduce.readme"
DEMO = f"<!-- figures: {MADE} -->", "<!-- end of figures -->"
LISTOPS = f"<!-- ListOps: {MADE} -->", "<!-- end of ListOps -->"
LOGIC = f"<!-- logic: {MADE} -->", "<!-- end of logic -->"


def figures(results: Sequence[dict[str, Any]]) -> str:
    """A table of finished runs on the same data, and the floors below them."""
    lines = ["| | accuracy | F1 of its trees | parameters | training |", "| --- | ---: | ---: | ---: | ---: |"]
    for result in results:
        test, name = result["test"], TITLES[result["model"]]
        figure = (percent(test["accuracy"]), percent(test["f1"]), f"{result['parameters']:,}")
        lines.append(f"| {name} | {' | '.join(figure)} | {duration(result['position']['seconds'])} |")
    first = results[0]
    floor, name = max((f1, name) for name, (f1, _) in first["trivial_f1"].items())
    lines.append(f"| the commonest answer; {name} trees | {percent(first['majority'])} | {percent(floor)} | | |")
    seeds = {f"seed {result['seed']}" for result in results}
    told = f"{first['test']['n']:,} test examples, {', '.join(sorted(seeds))}, {threads(first['cores'])}"
    return "\n".join(
        [*lines, "", f"*{told}, commit {first['commit']}; the checkpoints were picked on validation data.*"]
    )


def render(text: str, results: Path) -> str:
    """The text with the demo's and the two tables' figures between their marks."""
    text = _between(text, DEMO, figures(load_results(results / "listops-demo")))
    text = _between(text, LISTOPS, listops_page.summary(results / "listops"))
    return _between(text, LOGIC, logic_page.summary(results / "logic"))


def _between(text: str, marks: tuple[str, str], made: str) -> str:
    begin, end = marks
    if text.count(begin) != 1 or text.count(end) != 1:
        raise InputError(f"the text must hold {begin} and {end}, once each")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{made}\n{end}{rest.split(end)[1]}"


def load_results(folder: Path) -> list[dict[str, Any]]:
    """Results of a folder, Ordered Memory first."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise InputError(f"{folder}: there are no results")
    return sorted(found, key=lambda result: result["model"] != "ordered-memory")


if __name__ == "__main__":
    readme, folder = map(Path, sys.argv[1:])
    atomic.write_text(readme, render(readme.read_text(encoding="utf-8"), folder))
