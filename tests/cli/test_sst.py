"""The sentiment treebank on the command line: training on a few made-up trees, and what is made of the models."""

import json
from pathlib import Path

import pytest

from ordered_memory.cli import main
from ordered_memory.tasks.sst import FIVE
from tests.cli.conftest import error_of
from tests.treebank import TREES, VECTORS_FILE, write_treebank, write_vectors

TINY = ["--epochs", "1", "--hidden-size", "8", "--embedding-size", "4", "--batch-size", "8", "--threads", "1"]
MODELS = ("ordered-memory", "lstm", "tree-lstm")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, str]:
    """A run of each model, trained with word vectors."""
    folder = tmp_path_factory.mktemp("runs")
    write_vectors(write_treebank(folder / "data"))
    for model in MODELS:
        words = ["train", "sst", "--model", model, "--data-dir", str(folder / "data"), "--out", str(folder / model)]
        assert main([*words, *TINY]) == 0
    return {model: str(folder / model) for model in MODELS}


@pytest.fixture
def trees(tmp_path) -> str:
    """A folder of data with trees only: trained models need no vectors."""
    return str(write_treebank(tmp_path / "data"))


class TestTrain:
    @pytest.mark.parametrize("model", MODELS)
    def test_a_run(self, runs, model):
        result = json.loads(Path(runs[model], "result.json").read_text())
        assert (result["task"], result["model"], result["test"]["n"]) == ("sst", model, 3)
        assert result["config"]["classifier"]["vectors"] == VECTORS_FILE
        assert (result["test"]["f1"] is None) == (model != "ordered-memory")

    def test_five_classes_without_vectors(self, trees, tmp_path, capsys):
        words = ["train", "sst", "--classes", "5", "--no-sub-trees", "--model", "lstm", "--data-dir", trees]
        assert main([*words, "--out", str(tmp_path / "run"), *TINY]) == 0
        assert "no word vectors: there is no *.4d*.txt in" in capsys.readouterr().out
        assert main(["parse", str(tmp_path / "run"), "a lovely film", "--json"]) == 0
        assert tuple(json.loads(capsys.readouterr().out)["probabilities"]) == FIVE

    def test_the_default_folder_names_the_classes(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        for flags, name in (["--classes", "5"], "sst-lstm-5classes-seed0"), ([], "sst-lstm-seed0"):
            (tmp_path / "runs" / name).mkdir(parents=True)
            (tmp_path / "runs" / name / "config.json").touch()
            assert f"runs/{name}: there is a run already" in error_of(capsys, "train", "sst", "--model", "lstm", *flags)

    def test_no_files(self, tmp_path, capsys):
        out = ("--out", str(tmp_path / "run"))
        told = error_of(capsys, "train", "sst", *out)
        assert "give --data-dir or set ORDERED_MEMORY_DATA" in told
        assert "trainDevTestTrees_PTB.zip" in told
        told = error_of(capsys, "train", "sst", "--data-dir", str(tmp_path), *out)
        assert (
            f"{tmp_path / 'sst'}: there is no such folder, and sst's files are looked for there: the treebank is at https://"
            in told
        )
        assert not (tmp_path / "run").exists()

    def test_the_papers_vectors_are_asked_for_by_name(self, trees, tmp_path, capsys):
        words = ("train", "sst", "--preset", "sst-paper", "--data-dir", trees, "--out", str(tmp_path / "run"))
        assert "glove.840B.300d.txt: there is no such file of word vectors" in error_of(capsys, *words)
        assert not (tmp_path / "run").exists()


class TestModels:
    @pytest.mark.parametrize("model", MODELS)
    def test_evaluate(self, runs, model, trees, tmp_path, capsys):
        assert main(["evaluate", runs[model], "--data-dir", trees, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["n"] == 3
        path = tmp_path / "trees.txt"
        path.write_text("\n".join(TREES["dev.txt"]))
        assert main(["evaluate", runs[model], "--data", str(path), "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert (figures["n"], list(figures["buckets"])) == (2, ["1-10"])

    def test_a_bad_line(self, runs, tmp_path, capsys):
        path = tmp_path / "trees.txt"
        path.write_text("(3 (2 a) (3 treat))\n(7 (2 a) (3 treat))\n")
        told = error_of(capsys, "evaluate", runs["lstm"], "--data", str(path))
        assert f"{path}:2: a label is '7', and must be a number from 0 to 4" in told

    @pytest.mark.parametrize("model", ["ordered-memory", "lstm"])
    def test_parse_text(self, runs, model, capsys):
        assert main(["parse", runs[model], "A lovely film"]) == 0
        assert capsys.readouterr().out.startswith(("label negative, ", "label positive, "))

    def test_words_that_the_model_does_not_know_are_told(self, runs, capsys):
        for text, told in (
            ("a Wholesome wholesome film.", "warning: the model does not know 'wholesome', 'film.'\n"),
            ("a delightful film", ""),  # of which training has no `delightful`, but a word vector
        ):
            assert main(["parse", runs["lstm"], text, "--json"]) == 0
            assert capsys.readouterr().err == told

    @pytest.mark.parametrize("model", MODELS)
    def test_parse_a_tree(self, runs, model, capsys):
        assert main(["parse", runs[model], "(3 (2 A) (3 (3 lovely) (2 -LRB-)))", "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["tokens"] == ["a", "lovely", "("]
        assert answer["label"] in ("negative", "positive")

    def test_gold_trees_cannot_be_guessed(self, runs, capsys):
        assert "tree-lstm reads gold trees" in error_of(capsys, "parse", runs["tree-lstm"], "a lovely film")

    def test_report(self, runs, trees, tmp_path):
        page = tmp_path / "report.html"
        assert main(["report", *runs.values(), "--data-dir", str(trees), "--out", str(page)]) == 0
        text = page.read_text()
        assert "Ordered Memory, LSTM and TreeLSTM (gold trees) on the Stanford Sentiment Treebank" in text
        assert "Accuracy by length in tokens" in text
