"""A page about finished runs, `report.html`: one file that needs no other, and no network.

write_report([Path("runs/demo/ordered-memory"), Path("runs/demo/lstm")], Path("report.html"))
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from ordered_memory import __version__, atomic
from ordered_memory.config import TrainingConfig
from ordered_memory.reproduce import markup
from ordered_memory.reproduce.charts import Floor, Line, line_chart
from ordered_memory.reproduce.operators import operators_section
from ordered_memory.reproduce.pictures import trees_section
from ordered_memory.reproduce.runs import (
    NOTHING,
    FinishedRun,
    Row,
    held_out,
    load_runs,
    mistakes,
    percent,
    samples,
    table,
)
from ordered_memory.tasks import Example
from ordered_memory.tasks.files_data import FilesConfig
from ordered_memory.training.progress import duration

COLOURS, DASHES = 5, 3
"""How many colours for runs the style sheet has, and ways to draw a line."""
FEW = 3
"""Runs that a sentence can tell of one by one."""
MISTAKES = 6
"""How many mistakes are listed."""


@dataclass(frozen=True)
class TaskWords:
    """How a page speaks of a task."""

    title: str
    introduction: str
    bucket: str
    """What its examples are put into buckets by."""
    more_tests: str = ""
    """What its further test sets are."""


TASK_WORDS = {
    "listops": TaskWords(
        "ListOps",
        "ListOps are nested lists of digits to be worked out: [MAX 2 [MIN 4 7 ] 0 ] is 4. In training a model is told "
        "the value of each expression and nothing else. It reads [MAX and ] as it reads a digit, as one more token; "
        "it never sees a tree.",
        "length in tokens",
    ),
    "logic": TaskWords(
        "logical inference",
        "Two statements are given, and one of seven relations holds between them: ( a ( and b ) ) entails a, so the "
        "answer is <. In training a model is told the relation of each pair and, unless it is one that reads gold "
        "trees, nothing else.",
        "number of operations",
        "A split of systematic generalisation holds out all pairs in which a statement shows a pattern. Which of them "
        "are the test set can be read in three ways: longer, those of the test files with more operations than in "
        "training; all, those of all test files; held-out, those dropped from training. One of them is the test set "
        "above. every has all pairs of the test files, with the pattern or without.",
    ),
    "sst": TaskWords(
        "the Stanford Sentiment Treebank",
        "A sentence of a film review is negative or positive, or one of five shades from very negative to very "
        "positive. The treebank has a label for each phrase of a sentence; in training a model is told those of the "
        "sentences and, unless it was asked not to be, those of the phrases under them. How the phrases lie in the "
        "sentence is in the gold trees, which only models that are given trees can see.",
        "length in tokens",
    ),
    "files": TaskWords(
        "",
        "Texts with a label each, read from files. In training a model is told the label and, unless it is one that "
        "reads gold trees, nothing else.",
        "length in tokens",
    ),
}


def write_report(runs: Sequence[Path], path: Path) -> Path:
    """Writes the page about these run directories, which must be finished and share their data; returns its path."""
    atomic.write_text(path, page(load_runs(runs)))
    return path


def page(runs: Sequence[FinishedRun]) -> str:
    """The whole page. Figures are those that the runs wrote; trees, pointers and mistakes are made by their models."""
    examples = held_out(runs[0])
    sections = [
        _header(runs),
        _results(runs),
        _learning(runs),
        _buckets(runs),
        _more_tests(runs),
        operators_section(runs),
        trees_section(runs, examples),
        _mistakes(runs, examples),
        _settings(runs),
    ]
    style = (files(__package__) / "report.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(_title(runs))}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>",
            *filter(None, sections),
            f"<footer>Made by ordered-memory {escape(__version__)}. Every figure is read from the files that the runs "
            "wrote; nothing is typed in.</footer>\n</main>\n</body>\n</html>\n",
        ]
    )


def _words(run: FinishedRun) -> TaskWords:
    words = TASK_WORDS.get(run.experiment.task) or TaskWords(run.experiment.task, "", "bucket")
    data = run.experiment.data
    if not isinstance(data, FilesConfig):
        return words
    held_out = f" The test set was held out of {data.train}." if data.test is None else ""
    return replace(words, title=Path(str(data.train)).name, introduction=words.introduction + held_out)


def _title(runs: Sequence[FinishedRun]) -> str:
    names = [run.name for run in runs]
    if len(names) > FEW:
        return f"{len(names)} runs on {_words(runs[0]).title}"
    return f"{' and '.join(filter(None, [', '.join(names[:-1]), names[-1]]))} on {_words(runs[0]).title}"


def _header(runs: Sequence[FinishedRun]) -> str:
    first = runs[0].result
    told, with_trees, before, after = runs, [run for run in runs if run.has_trees], "", ""
    if len(runs) > FEW:  # then of the best one, and of the best trees
        told = [max(runs, key=lambda run: run.result["test"]["accuracy"])]
        with_trees = sorted(with_trees, key=lambda run: -run.result["test"]["f1"])[:1]
        before, after = f"Of {len(runs)} runs, ", ", the most"
    answers = "; ".join(
        f"{run.name} answers {percent(run.result['test']['accuracy'])} of them right after "
        f"{duration(run.seconds)} of training"
        for run in told
    )
    answers = f"{before}{answers}{after}"
    found = "".join(
        f" The trees of {run.name} agree with the gold ones to an F1 of {percent(run.result['test']['f1'])}"
        f"{_over_words(run.result['test'])}{after}."
        for run in with_trees
    )
    summary = (
        f"The test set has {first['test']['n']:,} examples. {answers}. Always giving the commonest answer is right for "
        f"{percent(first['majority'])}.{found}"
    )
    introduction = _words(runs[0]).introduction
    shared = [fact for fact in _circumstances(runs[0]) if all(fact in _circumstances(run) for run in runs)]
    return "\n".join(
        [
            f'<header>\n<h1>{escape(_title(runs))}</h1>\n<p class="quiet">{escape(" · ".join(shared))}</p>',
            f'<p class="lead">{escape(introduction)}</p>' if introduction else "",
            f"<p>{escape(summary)}</p>\n</header>",
        ]
    )


def _over_words(figures: dict[str, Any]) -> str:
    """F1 of the words' trees, where brackets are tokens."""
    return "" if figures.get("f1_words") is None else f", over words alone {percent(figures['f1_words'])}"


def _circumstances(run: FinishedRun) -> list[str]:
    """When, on what and from which source the run was made."""
    cores, commit = run.result["cores"], run.result["commit"]
    return [
        f"{run.finished.day} {run.finished:%B %Y}",
        f"{cores} processor core{'s' if cores > 1 else ''}",
        f"seed {run.result['seed']}",
        f"version {run.result['version']}",
        *([f"commit {commit}"] if commit else []),
    ]


def _results(runs: Sequence[FinishedRun]) -> str:
    rows = table(runs)
    kinds = {"accuracy": "accuracy", "f1": "F1", "f1_without_root": "F1 without root", "f1_words": "F1 of words"}
    kinds = {kind: name for kind, name in kinds.items() if any(getattr(row, kind) is not None for row in rows)}
    picked = (
        "The checkpoint of each run was picked by its accuracy on a validation set; the test set was looked at once, "
        "at the end."
    )
    caption = f"Accuracy on the test set. {picked} The lowest row is a floor: the answer without reading the sentence."
    if "f1" in kinds:
        caption = (
            f"Accuracy and unlabelled F1 against the gold trees, on the test set. {picked} F1 counts the brackets that "
            "two trees share, with the one around the whole sentence, which is always right, and without it. The "
            "lower rows are floors: answers and trees made without reading the sentence."
        )
    if "f1_words" in kinds:
        caption += " F1 of words leaves brackets, which are tokens here, out of both trees."
    heads = ("", *kinds.values(), "parameters", "training time")
    return markup.section("Results", markup.table(heads, [_result_row(row, list(kinds)) for row in rows], caption))


def _result_row(row: Row, kinds: Sequence[str]) -> str:
    values = [
        *(percent(getattr(row, kind)) for kind in kinds),
        NOTHING if row.parameters is None else f"{row.parameters:,}",
        NOTHING if row.seconds is None else duration(row.seconds),
    ]
    cells = [f'<td class="none">{NOTHING}</td>' if value == NOTHING else f"<td>{value}</td>" for value in values]
    return markup.row(row.name, cells, "floor" if row.is_floor else "")


def _learning(runs: Sequence[FinishedRun]) -> str:
    result = runs[0].result
    accuracy = line_chart(
        "Validation accuracy against time in training",
        "Accuracy on the validation set",
        _lines(runs, "accuracy"),
        Floor("majority class", result["majority"]),
    )
    what = f"Accuracy on the {result['validation']['n']:,} validation examples, each time the run was measured."
    marks = "The ring marks the checkpoint that was kept; the grey dashed line is the floor in the table above."
    figures = [markup.figure(accuracy, f"{what} {marks}")]
    if parsing := _lines(runs, "f1"):
        floors = {name: f1 for name, (f1, _) in result["trivial_f1"].items()}
        best = max(floors, key=floors.__getitem__)
        chart = line_chart(
            "Validation F1 of the induced trees against time in training",
            "F1 of the induced trees on the validation set",
            parsing,
            Floor(f"{best} trees", floors[best]),
        )
        note = (
            "How well the induced trees agree with the gold ones, which took no part in the training nor in the choice "
            "of the checkpoint. The grey dashed line is the best floor in the table above."
        )
        figures.append(markup.figure(chart, note))
    return markup.section("Learning", f'<div class="charts">\n{"".join(figures)}</div>')


def _lines(runs: Sequence[FinishedRun], key: str) -> list[Line]:
    lines = []
    for number, run in enumerate(runs):
        points = [(record["seconds"], record[key]) for record in run.metrics if record[key] is not None]
        best = run.result["position"]["best_step"]
        kept = [(record["seconds"], record[key]) for record in run.metrics if record["step"] == best]
        if points:
            ring = kept[0] if kept and kept[0][1] is not None else None
            lines.append(Line(run.name, points, number % COLOURS, ring, number // COLOURS % DASHES))
    return lines


def _buckets(runs: Sequence[FinishedRun]) -> str:
    rows = []
    for name, bucket in runs[0].result["test"]["buckets"].items():
        cells = [f"<td>{bucket['n']:,}</td>"]
        for number, run in enumerate(runs):
            share = run.result["test"]["buckets"][name]["accuracy"]
            bar = f'<div class="track"><i style="width:{100 * share:.1f}%"></i></div><span>{percent(share, 1)}</span>'
            cells.append(f'<td class="bars"><div class="bar series-{number % COLOURS}">{bar}</div></td>')
        rows.append(markup.row(name, cells))
    heads = (_words(runs[0]).bucket, "examples", *(run.name for run in runs))
    caption = "Accuracy on the test set, part by part. A row of few examples says little."
    return markup.section(f"Accuracy by {_words(runs[0]).bucket}", markup.table(heads, rows, caption))


def _more_tests(runs: Sequence[FinishedRun]) -> str:
    """Figures on further test sets, a line for each set and run; nothing where there are no such sets."""
    kinds = {"accuracy": "accuracy", "f1": "F1", "f1_words": "F1 of words"}
    rows = []
    for name in runs[0].result.get("extra_tests", {}):
        for run in runs:
            figures = run.result["extra_tests"][name]
            cells = [f"{figures['n']:,}", escape(run.name), *(percent(figures[kind]) for kind in kinds)]
            rows.append(markup.row(name, [f"<td>{cell}</td>" for cell in cells]))
    heads = ("", "examples", "model", *kinds.values())
    return markup.section("Other test sets", markup.table(heads, rows, _words(runs[0]).more_tests)) if rows else ""


def _mistakes(runs: Sequence[FinishedRun], examples: Sequence[Example]) -> str:
    first = runs[0]
    wrong = mistakes(first, examples, MISTAKES)
    if not wrong:
        return markup.section("Mistakes", f"<p>{escape(first.name)} makes none on the test set.</p>")
    answers = [wrong, *(samples(run, [sample.example for sample in wrong]) for run in runs[1:])]
    rows = []
    for given in zip(*answers, strict=True):
        example = given[0].example
        text = "<br>".join(escape(" ".join(sentence)) for sentence in example.sentences)
        cells = [f'<td class="tokens">{text}</td><td>{escape(example.label)}</td>']
        for sample in given:
            answer = f"{sample.prediction.label} ({percent(sample.certainty, 0)})"
            kind = "right" if sample.is_right else "wrong"
            cells.append(f'<td class="{kind}">{escape(answer)}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    caption = (
        f"The first test examples that {first.name} gets wrong, with the right answer and what each model says; "
        "in brackets how sure it is of it."
    )
    heads = ("example", "right", *(run.name for run in runs))
    return markup.section("Mistakes", markup.table(heads, rows, caption))


def _settings(runs: Sequence[FinishedRun]) -> str:
    facts = [("data", [_plain(runs[0].experiment.data)])]
    for run in runs:
        position = run.result["position"]
        done = f"{position['step']:,} steps, the checkpoint of step {position['best_step']:,} kept"
        skipped = f", {position['skipped']} steps not finite and skipped" if position["skipped"] else ""
        parts = [_plain(part) for part in (run.experiment.encoder, run.experiment.classifier, run.experiment.training)]
        facts.append((run.name, [", ".join(_circumstances(run)), done + skipped, *parts]))
    entries = "\n".join(f"<dt>{escape(name)}</dt><dd>{'<br>'.join(map(escape, texts))}</dd>" for name, texts in facts)
    configs = "\n".join(
        f"<details><summary>config.json of {escape(run.name)}</summary>"
        f"<pre>{escape(json.dumps(run.experiment.to_dict(), indent=2, ensure_ascii=False))}</pre></details>"
        for run in runs
    )
    return markup.section("What was run", f"<dl>\n{entries}\n</dl>\n{configs}")


def _plain(config: Any) -> str:
    """A config on one line, as far as readers ask first; the whole of it stands below."""
    shown = {
        key: " ".join(map(str, value)) if isinstance(value, tuple) else value for key, value in vars(config).items()
    }
    if isinstance(config, TrainingConfig):
        limit = "epochs" if config.budget is None else "budget"
        shown = {key: shown[key] for key in (limit, "batch_size", "optimiser", "learning_rate", "schedule")}
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items() if value is not None)
