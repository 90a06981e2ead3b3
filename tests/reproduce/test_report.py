"""The page: whole, alone, well formed, with the figures of the runs, and deaf to what tokens look like."""

import shutil
import xml.etree.ElementTree as ElementTree
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ordered_memory.classifier import Classifier
from ordered_memory.errors import InputError
from ordered_memory.reproduce import report
from ordered_memory.reproduce.report import write_report
from ordered_memory.reproduce.runs import percent
from ordered_memory.tasks import Example
from ordered_memory.trees import left_branching
from ordered_memory.vocabulary import Vocabulary

from .conftest import TINY, Demo

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Reads a page strictly: every tag is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.opened.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def svgs(text: str) -> list[ElementTree.Element]:
    pieces = text.split("<svg")[1:]
    return [ElementTree.fromstring("<svg" + piece[: piece.index("</svg>") + 6]) for piece in pieces]


@pytest.fixture(scope="module")
def text(demo: Demo) -> str:
    return (demo.folder / "report.html").read_text(encoding="utf-8")


def test_it_is_well_formed_with_all_its_parts(text: str) -> None:
    page = Page(text)
    assert page.tags.count("h1") == 1
    for part in (
        "Results",
        "Learning",
        "Accuracy by length",
        "Induced trees",
        "Where the memory points",
        "What was run",
    ):
        assert any(part in words for words in page.words), part
    pictures = svgs(text)
    assert sum(picture.get("class") == "chart" for picture in pictures) == 2
    assert len(pictures) >= 2 + 2 * 3 + 2, "two charts, three pairs of trees, the pointer and its tree"
    assert page.tags.count("svg") == len(pictures)


def test_it_needs_nothing_from_outside(text: str) -> None:
    for name, value in Page(text).attributes:
        assert name not in {"src", "href", "srcset", "xlink:href", "data", "action"}
        assert name == "xmlns" or "//" not in (value or "")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


def test_its_figures_are_those_of_the_runs(text: str, demo: Demo) -> None:
    memory, lstm = demo.answer["ordered-memory"], demo.answer["lstm"]
    figures = [memory["test"][name] for name in ("accuracy", "f1", "f1_without_root")]
    figures += [
        lstm["test"]["accuracy"],
        memory["majority"],
        *(f1 for pair in memory["trivial_f1"].values() for f1 in pair),
    ]
    table = text[text.index("<h2>Results") : text.index("<h2>Learning")]
    for figure in figures:
        assert f"<td>{percent(figure)}</td>" in table
    assert f"<td>{memory['parameters']:,}</td>" in table
    for bucket in memory["test"]["buckets"].values():
        assert f"<span>{percent(bucket['accuracy'], 1)}</span>" in text
    assert "seed 0" in text
    if memory["commit"]:
        assert f"commit {memory['commit']}" in text


def test_one_run_alone_makes_a_report_too(demo: Demo, tmp_path: Path) -> None:
    page = Page(write_report([demo.folder / "lstm"], tmp_path / "new" / "lstm.html").read_text())
    assert "LSTM on ListOps" in page.words
    assert "Induced trees beside the gold ones" not in page.words, "an LSTM has none"


def test_two_runs_of_one_model_are_told_apart(demo: Demo, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(demo.folder / "lstm", again)
    words = Page(write_report([demo.folder / "lstm", again], tmp_path / "report.html").read_text()).words
    assert "LSTM (lstm) and LSTM (again) on ListOps" in words


def test_many_runs_are_told_of_by_the_best_of_them(demo: Demo, tmp_path: Path) -> None:
    others = [tmp_path / name for name in ("second", "third")]
    for folder in others:
        shutil.copytree(demo.folder / "lstm", folder)
    runs = [demo.folder / "ordered-memory", demo.folder / "lstm", *others]
    text = write_report(runs, tmp_path / "report.html").read_text()
    assert "4 runs on ListOps" in Page(text).words
    assert text.count("of them right after") == 1
    assert "Of 4 runs, " in text


def test_hostile_tokens_labels_and_folders_are_only_text(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = ("<script>alert(1)</script>", '"><img/src=x>', "&amp;", "</svg>", "<!--", "plain", "'", "]]>")
    labels = ("<b>right</b>", "<i>wrong</i>")
    folders = [tmp_path / name for name in ("<u>one", "two&lt;")]
    for folder in folders:
        shutil.copytree(demo.folder / "ordered-memory", folder)
        shutil.rmtree(folder / "best")
        Classifier(Vocabulary(tokens), labels, "ordered-memory", TINY.encoder).save_pretrained(folder / "best")
    examples = [Example((tokens,), label, (left_branching(tokens),)) for label in labels]
    monkeypatch.setattr(report, "held_out", lambda _: examples)
    monkeypatch.setattr(report, "operators_section", lambda _: "")  # they know no [MAX
    text = write_report(folders, tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not {"script", "img", "b", "u"} & set(page.tags)
    assert "<i>" not in text, "the page's own are all <i style=...>"
    assert svgs(text)
    for hostile in (*tokens, labels[0], "<u>one"):
        assert escape(hostile, quote=False) in text or escape(hostile) in text


def test_what_is_no_finished_run_is_refused(demo: Demo, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one run"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(InputError, match="no run"):
        write_report([tmp_path], tmp_path / "report.html")
    unfinished = tmp_path / "unfinished"
    shutil.copytree(demo.folder / "lstm", unfinished)
    (unfinished / "result.json").unlink()
    with pytest.raises(InputError, match="not finished"):
        write_report([unfinished], tmp_path / "report.html")
    (unfinished / "config.json").write_text("hi")
    with pytest.raises(InputError, match=r"config\.json"):
        write_report([unfinished], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
