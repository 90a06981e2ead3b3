"""The page about runs of logical inference: pairs, F1 of words, and the other test sets."""

import json
from pathlib import Path
from typing import Any

import pytest

from ordered_memory.reproduce.report import write_report
from ordered_memory.reproduce.runs import Sample, held_out, load_runs, mistakes, percent, samples, table
from ordered_memory.trees import without_tokens

from .test_report import Page, svgs


@pytest.fixture(scope="module")
def text(logic_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report([logic_runs / "ordered-memory", logic_runs / "lstm"], path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def result(logic_runs: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((logic_runs / "ordered-memory" / "result.json").read_text())
    return found


def part(text: str, title: str) -> str:
    return text.split(f"<h2>{title}")[1].split("<h2>")[0]


def test_it_is_well_formed_and_speaks_of_the_task(text: str) -> None:
    words = Page(text).words
    assert "Ordered Memory and LSTM on logical inference" in words
    assert "Accuracy by number of operations" in words
    assert any("answer is <." in word for word in words)


def test_f1_of_words_stands_in_the_results_and_its_floors(text: str, result: dict[str, Any]) -> None:
    shown = part(text, "Results")
    assert "F1 of words" in shown
    for figure in (result["test"]["f1_words"], *(f1 for f1, _ in result["trivial_f1_words"].values())):
        assert f"<td>{percent(figure)}</td>" in shown
    assert f"over words alone {percent(result['test']['f1_words'])}" in text


def test_the_other_readings_are_told_for_each_run(text: str, result: dict[str, Any], logic_runs: Path) -> None:
    shown = part(text, "Other test sets")
    lstm = json.loads((logic_runs / "lstm" / "result.json").read_text())
    assert result["extra_tests"].keys() == {"all", "held-out", "every"}
    for name, figures in result["extra_tests"].items():
        cells = [f"{figures['n']:,}", "Ordered Memory", *(percent(figures[k]) for k in ("accuracy", "f1", "f1_words"))]
        assert f'<th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}' in shown
        assert f"<td>LSTM</td><td>{percent(lstm['extra_tests'][name]['accuracy'])}</td>" in shown


def test_both_sentences_are_drawn_over_words(text: str) -> None:
    shown = part(text, "Induced trees")
    assert shown.count('<div class="sample">') in (3, 5)
    assert shown.count('<div class="trees">') == 2 * shown.count('<div class="sample">')
    pictures = svgs(shown)
    assert len(pictures) == 2 * shown.count('<div class="trees">'), "gold and induced of each sentence"
    assert not any(node.text in ("(", ")") for picture in pictures for node in picture.iter())
    assert "The tokens ( ) are left out" in shown


def test_the_pointer_shows_every_token(text: str) -> None:
    assert any(node.text == "(" for picture in svgs(part(text, "Where the memory points")) for node in picture.iter())


def test_mistakes_show_both_statements_and_are_those_counted(text: str, logic_runs: Path) -> None:
    runs = load_runs([logic_runs / "ordered-memory", logic_runs / "lstm"])
    for run in runs:
        test = run.result["test"]
        assert len(mistakes(run, held_out(run), 10_000)) == round(test["n"] * (1 - test["accuracy"])) > 3
    (first,) = mistakes(runs[0], held_out(runs[0]), 1)
    assert "<br>".join(" ".join(sentence) for sentence in first.example.sentences) in part(text, "Mistakes")


def test_a_sample_has_a_pair_of_trees_for_each_sentence(logic_runs: Path) -> None:
    (run,) = load_runs([logic_runs / "ordered-memory"])
    for sample in samples(run, held_out(run)[:10]):
        assert len(sample.trees) == 2
        for pair, gold, read in zip(sample.trees, sample.example.trees or (), sample.prediction.sentences, strict=True):
            assert read.tree is not None
            assert pair.gold == without_tokens(gold, "()")
            assert pair.induced == without_tokens(read.tree, "()")
        assert sample.differs == any(pair.gold != pair.induced for pair in sample.trees)
        assert (sample.gold, sample.invented) == (sample.trees[0].gold, sample.trees[0].invented)
        with_brackets = Sample(sample.example, sample.prediction)
        assert with_brackets.gold == (sample.example.trees or ())[0]


def test_rows_without_words_have_no_such_f1(logic_runs: Path) -> None:
    rows = table(load_runs([logic_runs / "ordered-memory", logic_runs / "lstm"]))
    assert [row.f1_words is None for row in rows] == [False, True, True, *[False] * 4]
