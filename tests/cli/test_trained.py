"""om evaluate and om parse: what a trained model does, and what it is asked that it cannot do."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from ordered_memory.cli import main
from tests.cli.conftest import TEXT, error_of, om


class TestEvaluate:
    def test_json_has_the_figures(self, run, capsys):
        assert main(["evaluate", run, "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert {"accuracy", "n", "f1", "f1_without_root", "buckets"} <= figures.keys()
        assert figures["n"] == sum(bucket["n"] for bucket in figures["buckets"].values()) == 50
        expected = json.loads((Path(run) / "result.json").read_text())["test"]
        assert figures["accuracy"] == expected["accuracy"]
        assert figures["f1"] == expected["f1"]

    def test_table_for_a_file(self, run, tmp_path, capsys):
        data = tmp_path / "test.tsv"
        data.write_text("9\t[MAX 2 9 ]\n4\t[MIN 4 7 ]\n3\t3\n")
        assert main(["evaluate", run, "--data", str(data), "--pointer", "hard"]) == 0
        text = capsys.readouterr().out
        assert "3 examples" in text
        assert "hard pointer" in text

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "the file is empty"),
            (
                "4\t[MIN 4 7 ]\n4 [MIN 4 7 ]\n",
                ":2: a line has 2 columns, a label and an expression with a tab between, not 1",
            ),
            ("4\t[MIN 4 7 ]\n12\t[MIN 4 7 ]\n", ":2: the label is '12'"),
            ("4\t[MIN 4 x ]\n", ":1: unknown token 'x' at token 3"),
            ("4\t[MIN 4 7\n", ":1: unbalanced: [MIN at token 1 is never closed"),
            ("4\t\n", ":1: the expression is empty"),
        ],
    )
    def test_bad_files(self, content, message, run, tmp_path, capsys):
        data = tmp_path / "bad.tsv"
        data.write_text(content)
        assert f"{data}" in (error := error_of(capsys, "evaluate", run, "--data", str(data)))
        assert message in error

    def test_missing_and_damaged_checkpoints(self, run, tmp_path, capsys):
        assert "there is no such folder, and no shipped checkpoint" in error_of(capsys, "evaluate", "nowhere")
        assert "neither a run directory nor a checkpoint" in error_of(capsys, "evaluate", str(tmp_path))
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        weights = copy / "best" / "weights.safetensors"
        weights.write_bytes(weights.read_bytes()[:1000])
        assert "damaged or cut short" in error_of(capsys, "evaluate", str(copy))

    def test_threads_are_obeyed_and_checked(self, run, capsys):
        former = torch.get_num_threads()
        try:
            assert main(["evaluate", run, "--threads", "2"]) == 0
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(former)
        assert "--threads is 0, and must be at least 1" in error_of(capsys, "evaluate", run, "--threads", "0")

    def test_flags_that_the_model_does_not_have(self, lstm, capsys):
        assert "--pointer: the model is lstm" in error_of(capsys, "evaluate", lstm, "--pointer", "hard")
        assert "--num-slots is 0" in error_of(capsys, "evaluate", lstm, "--num-slots", "0")

    def test_warns_of_too_few_slots_and_names_enough(self, run, tmp_path, capsys):
        data = tmp_path / "deep.tsv"
        data.write_text("4\t[MIN 4 [MIN 4 [MIN 4 [MIN 4 [MIN 4 7 ] ] ] ] ]\n")
        assert main(["evaluate", run, "--data", str(data)]) == 0
        assert (
            "this sequence needs up to 5 slots, and the memory has 4: ask for --num-slots 5" in capsys.readouterr().err
        )
        assert main(["evaluate", run, "--data", str(data), "--num-slots", "5"]) == 0
        assert capsys.readouterr().err == ""


class TestParse:
    def test_json_has_all_parts(self, run, capsys):
        assert main(["parse", run, TEXT, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["tokens"] == TEXT.split()
        assert answer["label"] == max(answer["probabilities"], key=answer["probabilities"].get)
        assert sum(answer["probabilities"].values()) == pytest.approx(1)
        assert [word for word in answer["tree"].split() if word not in "()"] == TEXT.split()
        assert len(answer["pointer"]) == len(TEXT.split())
        assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in answer["pointer"][1:])

    def test_says_what_python_says(self, run, capsys):
        from ordered_memory.classifier import Classifier

        assert main(["parse", run, TEXT, "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == Classifier.from_pretrained(run).predict(TEXT).to_dict()

    def test_draws_tree_and_pointer(self, run, tmp_path, capsys):
        assert main(["parse", run, TEXT, "--svg", str(tmp_path / "tree.svg")]) == 0
        text = capsys.readouterr().out
        assert text.startswith("label ")
        assert "┴" in text
        assert "slot" in text
        assert (tmp_path / "tree.svg").read_text().startswith("<svg")

    def test_without_a_tree(self, lstm, capsys):
        assert main(["parse", lstm, TEXT]) == 0
        said = capsys.readouterr()
        assert said.out.startswith("label ")
        assert said.err == "lstm knows nothing of trees: it has none of its own to draw\n"

    def test_reads_lines_from_standard_input(self, run):
        done = om("parse", run, "-", "--json", input=f"{TEXT}\n[MIN 1 2 ]\n[MIN 1 ?\n")
        assert len(done.stdout.splitlines()) == 2
        assert done.returncode == 2
        assert done.stderr == "error: standard input:3: unknown token '?' at token 3: the tokens are " + (
            "0 1 2 3 4 5 6 7 8 9 [MIN [MAX [MED [SM ]\n"
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "empty"),
            ("( )", "empty"),
            ("[MAX 2 9]", "unknown token '9]' at token 3: put a space before ]"),
            ("[MAX 2 9 ] ]", "] at token 5"),
            ("[MAX 2 [MIN 9 ]", "[MAX at token 1 is never closed"),
        ],
    )
    def test_bad_text(self, text, message, run, capsys):
        assert message in error_of(capsys, "parse", run, text)

    def test_warns_of_an_operator_that_the_model_never_saw(self, run, capsys):
        assert main(["parse", run, "[SM 1 2 ]"]) == 0
        assert capsys.readouterr().err == "warning: the model was trained without [SM: what it says there is a guess\n"
        assert main(["parse", run, "[MAX 1 2 ]"]) == 0
        assert capsys.readouterr().err == ""

    def test_standard_input_must_hold_something_and_is_not_drawn(self, run, tmp_path):
        assert "standard input is empty" in om("parse", run, "-", input="").stderr
        drawn = om("parse", run, "-", "--svg", str(tmp_path / "x.svg"), input=TEXT)
        assert (drawn.returncode, list(tmp_path.iterdir())) == (2, [])

    def test_plain_characters_where_the_terminal_has_no_others(self, run):
        done = om("parse", run, TEXT, env=os.environ | {"PYTHONIOENCODING": "ascii"})
        assert done.returncode == 0
        assert done.stdout.isascii()


class TestRecommended:
    @pytest.fixture
    def recommending(self, run, tmp_path) -> str:
        """The tiny model with a card that recommends the hard pointer."""
        folder = tmp_path / "model"
        shutil.copytree(Path(run) / "best", folder)
        values = json.loads((folder / "config.json").read_text())
        values["card"]["recommends"] = {"pointer": "hard"}
        (folder / "config.json").write_text(json.dumps(values))
        return str(folder)

    def test_the_card_is_followed_and_told(self, recommending, capsys):
        assert main(["evaluate", recommending, "--json"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["pointer"] == "hard"
        assert "hard pointer, as the model's card recommends" in printed.err
        assert main(["parse", recommending, TEXT, "--json"]) == 0
        pointer = json.loads(capsys.readouterr().out)["pointer"]
        assert {weight for row in pointer for weight in row} == {0.0, 1.0}

    def test_as_many_slots_as_needed(self, recommending, tmp_path, capsys):
        path = Path(recommending) / "config.json"
        path.write_text(path.read_text().replace('{"pointer": "hard"}', '{"num_slots": "as needed"}'))
        deep = "[MIN 4 [MIN 4 [MIN 4 [MIN 4 [MIN 4 7 ] ] ] ] ]"
        data = tmp_path / "deep.tsv"
        data.write_text(f"4\t{deep}\n4\t4\n")
        assert main(["evaluate", recommending, "--data", str(data), "--json"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["num_slots"] == 5
        assert printed.err == (
            "5 slots, as the model's card recommends: 1 of 2 sequences need more than 4; "
            "--num-slots 4 for those of training\n"
        )
        assert main(["parse", recommending, deep, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["pointer"][0]) == 5
        assert main(["evaluate", recommending, "--data", str(data), "--json", "--num-slots", "4"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["num_slots"] == 4
        assert "warning" in printed.err

    def test_a_flag_is_followed_instead(self, recommending, capsys):
        assert main(["evaluate", recommending, "--pointer", "soft", "--json"]) == 0
        printed = capsys.readouterr()
        assert json.loads(printed.out)["pointer"] == "soft"
        assert "recommends" not in printed.err

    def test_a_card_that_makes_no_sense_is_refused(self, recommending, capsys):
        path = Path(recommending) / "config.json"
        path.write_text(path.read_text().replace('{"pointer": "hard"}', '{"pointer": "firm"}'))
        assert "recommends a pointer 'firm'" in error_of(capsys, "evaluate", recommending)

    def test_a_model_without_a_pointer_tells_of_none(self, lstm, capsys):
        assert main(["evaluate", lstm, "--json"]) == 0
        assert "pointer" not in json.loads(capsys.readouterr().out)
