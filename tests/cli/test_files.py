"""A user's own files on the command line: every model trains on them, and what is left needs them no more."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ordered_memory.classifier import Classifier
from ordered_memory.cli import main
from ordered_memory.config import ENCODER_CONFIGS
from ordered_memory.presets import GOLD_TREES
from tests.cli.conftest import error_of
from tests.conftest import ROOT

TINY = ["--epochs", "1", "--hidden-size", "8", "--embedding-size", "8", "--threads", "1"]
LINES = [f"{'odd' if number % 2 else 'even'}\t( ( the {number % 5} ) ( is odd ) )\n" for number in range(40)]
PAIRS = [f"yes\tone w{number}\ttwo\nno\ttwo w{number}\tone one\n" for number in range(20)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The files of a run on texts with trees, and of one on pairs."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "train.tsv").write_text("".join(LINES))
    (folder / "pairs.txt").write_text("".join(PAIRS))
    return folder


@pytest.fixture(scope="module")
def run(folder) -> str:
    words = ["--train", str(folder / "train.tsv"), "--gold-trees", "--lower-case", "--num-slots", "4"]
    assert main(["train", "files", *words, "--out", str(folder / "run"), *TINY]) == 0
    return str(folder / "run")


@pytest.fixture(scope="module")
def pairs(folder) -> str:
    words = ["--train", str(folder / "pairs.txt"), "--model", "lstm"]
    assert main(["train", "files", *words, "--out", str(folder / "pairs"), *TINY]) == 0
    return str(folder / "pairs")


class TestTrain:
    def test_what_is_written_down(self, run, folder):
        data = json.loads(Path(run, "config.json").read_text())["data"]
        assert data["train"] == str(folder / "train.tsv")
        assert data["records"][0]["size"] == (folder / "train.tsv").stat().st_size
        result = json.loads(Path(run, "result.json").read_text())
        assert (result["validation"]["n"], result["test"]["n"], result["majority"]) == (4, 4, 0.5)
        assert result["test"]["f1"] is not None

    @pytest.mark.parametrize("model", ENCODER_CONFIGS)
    def test_every_model_takes_a_step(self, model, tmp_path, folder, capsys):
        words = ["--train", str(folder / "train.tsv"), "--gold-trees", "--out", str(tmp_path / "run"), "--json"]
        assert main(["train", "files", "--model", model, *words, *TINY]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["position"]["step"], result["position"]["skipped"], result["test"]["n"]) == (1, 0, 4)

    def test_says_what_is_held_out_and_what_is_there_twice(self, folder, tmp_path, capsys):
        (tmp_path / "dev.jsonl").write_text('{"label": "yes", "text": "one w3", "text2": "two"}\n')
        words = ["--train", str(folder / "pairs.txt"), "--validation", str(tmp_path / "dev.jsonl"), "--json"]
        assert main(["train", "files", "--model", "lstm", *words, "--out", str(tmp_path / "run"), *TINY]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["validation"]["n"] == 1
        held_out, words, twice = printed.err.splitlines()
        assert held_out == f"held out of {folder / 'pairs.txt'}: 4 for test (--test-share 0.1)"
        assert re.match(r"\d+ words are known; \d+ that come less than 2 times in training are read as <unk>", words)
        assert twice == "warning: 1 of 1 validation examples have the same text as a training example"

    @pytest.mark.parametrize("model", GOLD_TREES)
    def test_gold_trees_must_be_there(self, model, folder, tmp_path, capsys):
        words = ["--train", str(folder / "train.tsv"), "--model", model, "--out", str(tmp_path / "run")]
        assert f"--model {model} reads gold trees: write the texts in brackets" in error_of(
            capsys, "train", "files", *words
        )
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ([], "there is no training file: name one by --train FILE"),
            (["--train", "absent.tsv"], "absent.tsv: cannot be read: No such file or directory"),
            (["--train", "."], "a folder, and a file is needed"),
            (["--train", "train.doc"], "train.doc: the ending tells the format of a file"),
            (["--train", "{train}", "--test", "{train}"], "--train and --test are the same file"),
            (["--train", "{train}", "--min-count", "0"], "min_count is 0, and must be at least 1"),
            (["--train", "{train}", "--min-count", "99"], "no word comes 99 times: name a smaller --min-count"),
            (["--train", "{train}", "--test-share", "2"], "test_share is 2.0, and must be more than 0 and less"),
            (["--train", "{pairs}", "--test", "{train}"], "train.tsv:1: one text, and the training data has two texts"),
            (["--train", "{pairs}", "--gold-trees"], "pairs.txt:1: column 2: token 2, 'w0': the tree is complete"),
            (["--train", "bad.csv"], "bad.csv:1: the header has no column 'label'"),
            (["--train", "bad.tsv"], "bad.tsv:2: a line has 2 columns"),
        ],
    )
    def test_bad_input_leaves_nothing_behind(self, words, message, folder, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "bad.csv").write_text("yes,one\n")
        (tmp_path / "bad.tsv").write_text("yes\tone\nno two\n")
        paths = {"train": folder / "train.tsv", "pairs": folder / "pairs.txt"}
        told = error_of(capsys, "train", "files", *(word.format(**paths) for word in words))
        assert message in " ".join(told.replace("│", "").split())
        assert not (tmp_path / "runs").exists()

    def test_a_task_named_like_a_folder(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        assert "name the task first: om train listops" in error_of(capsys, "train", "--out", "files", "listops")

    def test_help_shows_the_flags_of_the_files(self, capsys):
        with pytest.raises(SystemExit):
            main(["train", "files", "--help"])
        text = capsys.readouterr().out
        for flag in ("train", "validation", "test", "gold-trees", "lower-case", "min-count", "max-length"):
            assert f"--data.{flag}" in text
        assert "records" not in text


class TestResume:
    def test_a_changed_file_is_refused(self, folder, tmp_path, capsys):
        data, run = tmp_path / "train.tsv", tmp_path / "run"
        shutil.copy(folder / "train.tsv", data)
        words = ["--model", "lstm", "--gold-trees", "--out", str(run)]
        assert main(["train", "files", "--train", str(data), *words, *TINY]) == 0
        assert main(["train", "files", "--out", str(run), "--resume"]) == 0
        before = (run / "result.json").read_bytes()
        data.write_text("".join(LINES[::-1]))
        capsys.readouterr()
        changed = f"error: {data}: the file has changed since the run began"
        assert changed in error_of(capsys, "train", "files", "--out", str(run), "--resume")
        again = ["--config", str(run / "config.json"), "--model", "lstm", "--out", str(tmp_path / "again")]
        assert changed in error_of(capsys, "train", "files", *again)
        assert changed in error_of(capsys, "evaluate", str(run))
        assert (run / "result.json").read_bytes() == before
        assert not (tmp_path / "again").exists()


class TestModels:
    @pytest.fixture
    def moved(self, run, tmp_path) -> str:
        """The run alone, in another place, as if its files were never there."""
        shutil.copytree(run, tmp_path / "run")
        for path in (tmp_path / "run" / "config.json", tmp_path / "run" / "best" / "config.json"):
            path.write_text(path.read_text().replace("train.tsv", "gone.tsv"))
        return str(tmp_path / "run")

    def test_the_test_set_is_that_of_the_run(self, run, capsys):
        assert main(["evaluate", run, "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures["accuracy"] == json.loads(Path(run, "result.json").read_text())["test"]["accuracy"]

    def test_evaluate_needs_no_training_file(self, moved, tmp_path, capsys):
        data = tmp_path / "other.csv"
        data.write_text("label,text\nodd,( The 3 )\neven,( the ( unheard 4 ) )\n")
        assert main(["evaluate", moved, "--data", str(data), "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert (figures["n"], figures["buckets"].keys()) == (2, {"1-7"})
        assert main(["evaluate", moved, "--data", str(data)]) == 0
        assert "tokens" in capsys.readouterr().out
        assert "gone.tsv: cannot be read: No such file or directory" in error_of(capsys, "evaluate", moved)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("odd\t( the 3 )\nprime\t7\n", ":2: the label 'prime' is not one of training's: even, odd"),
            ("odd\tthe 3\n", ":1: column 2: token 2, '3': the tree is complete, yet more follows (--gold-trees"),
            ("odd\t3\t4\n", ":1: two texts, and the training data has one text"),
        ],
    )
    def test_bad_files(self, moved, content, message, tmp_path, capsys):
        data = tmp_path / "other.tsv"
        data.write_text(content)
        assert f"{data}{message}" in error_of(capsys, "evaluate", moved, "--data", str(data))

    def test_words_that_the_model_does_not_know_are_told(self, pairs, tmp_path, capsys):
        (tmp_path / "strange.tsv").write_text("yes\tune\tdeux trois\nno\ttwo\tone one\n")
        assert main(["evaluate", pairs, "--data", str(tmp_path / "strange.tsv")]) == 0
        printed = capsys.readouterr()
        assert printed.err.startswith("warning: the model does not know 50% of the words, such as 'deux', 'trois', ")
        assert "accuracy" in printed.out
        assert "F1" not in printed.out  # there are no trees to compare
        (tmp_path / "known.tsv").write_text("yes\tone\ttwo\n")
        assert main(["evaluate", pairs, "--data", str(tmp_path / "known.tsv")]) == 0
        assert "warning" not in capsys.readouterr().err

    def test_parse(self, moved, capsys):
        for text in ("( The ( 3 X ) )", "the 3 x"):
            assert main(["parse", moved, text, "--json"]) == 0
            answer = json.loads(capsys.readouterr().out)
            assert answer["tokens"] == ["the", "3", "x"]
            assert answer == Classifier.from_pretrained(moved).predict(text.lower()).to_dict()
        assert "this bracket is never closed" in error_of(capsys, "parse", moved, "( the 3")
        assert "the text is empty" in error_of(capsys, "parse", moved, " ")

    def test_parse_pairs(self, pairs, capsys):
        assert main(["parse", pairs, "one w3", "two"]) == 0
        assert re.match("label (yes|no)", capsys.readouterr().out)
        assert "the model reads two texts, a pair, at a time, and here is 1" in error_of(capsys, "parse", pairs, "one")

    def test_report_with_gold_trees_and_without(self, run, pairs, folder, capsys):
        assert main(["report", run, "--out", str(folder / "report.html")]) == 0
        page = (folder / "report.html").read_text()
        assert "<h1>Ordered Memory on train.tsv</h1>" in page
        assert f"The test set was held out of {folder / 'train.tsv'}." in page
        assert "Induced trees beside the gold ones" in page
        plain = folder / "plain"
        words = ["--train", str(folder / "train.tsv"), "--num-slots", "4", "--out", str(plain), *TINY]
        assert main(["train", "files", *words]) == 0
        assert main(["report", str(plain), "--out", str(folder / "plain.html")]) == 0
        page = (folder / "plain.html").read_text()
        assert "<h2>Induced trees</h2>" in page
        assert "F1" not in re.sub(r"(?s)<details>.*", "", page)
        assert main(["report", pairs, "--out", str(folder / "pairs.html")]) == 0
        assert "Induced" not in (folder / "pairs.html").read_text()
        told = error_of(capsys, "report", run, str(plain), "--out", str(folder / "both.html"))
        assert "its data is not that of" in told


def test_the_example_of_the_page_runs_as_it_stands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "own-data.md").read_text()
    block = page.split("## An example, whole")[1].split("```sh\n")[1].split("```")[0]
    for line in block.splitlines():
        if line.startswith("om "):
            assert main(shlex.split(line)[1:]) == 0, line
        else:
            subprocess.run(["bash", "-c", line], check=True)
    printed = capsys.readouterr().out
    answer = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert [sentence["tokens"] for sentence in answer["sentences"]] == [["not", "a"], ["b"]]
    assert "F1 without root" in printed
    assert (tmp_path / "report.html").exists()
