"""What the pages of results have in common: Markdown tables, figures of several seeds, and how the runs were made."""

import statistics
from collections.abc import Sequence
from typing import Any

from ordered_memory.reproduce.published import Figure
from ordered_memory.reproduce.runs import NOTHING
from ordered_memory.training.progress import duration

NOT_RUN = "not run"
CIRCUMSTANCES = ("parameters", "seeds", "picked on", "training", "threads", "commit")
"""Heads of the columns that `circumstances` fills."""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, the others to the right."""
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def mean_and_spread(values: Sequence[float | None], digits: int = 2) -> str:
    """Percent of fractions: one as it is, several as mean and standard deviation."""
    known = [100 * value for value in values if value is not None]
    if not known:
        return NOTHING
    spread = f"±{statistics.stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{statistics.mean(known):.{digits}f}{spread}"


def threads(count: str) -> str:
    """Of what `threads_of` tells."""
    return f"{count} thread" if count == "1" else f"{count} threads"


def published_figure(figure: Figure | None) -> str:
    """As printed in the paper, or a dash."""
    return NOTHING if figure is None else str(figure)


def circumstances(results: Sequence[dict[str, Any]], planned: int = 1) -> list[str]:
    """How finished runs were made: parameters, seeds (and how many are planned, if more), what picked the checkpoint,
    time in training (or the time box of it), threads and commits. Time is told for each number of threads."""
    if not results:
        return [NOTHING] * len(CIRCUMSTANCES)
    boxed = ", boxed" if any(result["config"]["training"]["budget"] for result in results) else ""
    few = f" (of {planned})" if len(results) < planned else ""
    cores = sorted({threads_of(result) for result in results})
    times = [
        duration(statistics.mean(_seconds(result) for result in results if threads_of(result) == count))
        for count in cores
    ]
    return [
        " / ".join(f"{count:,}" for count in sorted({result["parameters"] for result in results})),
        " ".join(str(result["seed"]) for result in results) + few,
        "validation",
        " / ".join(times) + boxed,
        " / ".join(cores),
        ", ".join(sorted({commit or NOTHING for result in results for commit in _of_parts(result, "commit")})),
    ]


def _seconds(result: dict[str, Any]) -> float:
    """In training, with that of the small models that runs of a former version trained first."""
    seconds: float = result["position"]["seconds"] + sum(scout["seconds"] for scout in result.get("scouts", ()))
    return seconds


def threads_of(result: dict[str, Any]) -> str:
    """How many a run had: one number after the other where it was resumed on more or fewer."""
    return ", then ".join(map(str, _of_parts(result, "cores")))


def _of_parts(result: dict[str, Any], name: str) -> list[Any]:
    """What its parts tell of a run, each thing once; results from before there were parts tell of the last one."""
    parts = result["position"].get("parts") or [result]
    return list(dict.fromkeys(part[name] for part in parts))


def trained_for(runs: Sequence[tuple[str, Sequence[dict[str, Any]]]], more: str = "") -> str:
    """The line under a summary: how long each row's runs took, on how many threads, and their seeds; then what `more`
    there is to say. Nothing where no run is finished."""
    times = []
    for title, results in runs:
        if results:
            _, seeds, _, time, cores, _ = circumstances(results)
            times.append(f"{title} {time} on {threads(cores)}, seed {seeds}")
    return f"*Trained for: {'; '.join(times)}.{more}*" if times else ""
