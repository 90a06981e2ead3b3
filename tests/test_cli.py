"""The command `om`, as a person types it: what it prints, what it says of bad input, and its exit codes."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ordered_memory.cli import main

SMALL_DATA = "--data.pool-size 300 --data.test-size 50 --data.validation-size 50 --data.max-depth 3"
SMALL = f"--preset listops-demo --epochs 1 --budget None --evaluate-every 0 --embedding-size 8 --threads 1 {SMALL_DATA}"
TINY = [*SMALL.split(), "--hidden-size", "8", "--num-slots", "4"]
TEXT = "[MAX 2 9 [MIN 4 7 ] 0 ]"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    """A run of a few seconds; its model knows nothing."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert main(["train", "listops", "--out", str(folder), *TINY]) == 0
    return str(folder)


@pytest.fixture(scope="module")
def lstm(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "lstm"
    assert main(["train", "listops", "--model", "lstm", "--out", str(folder), *SMALL.split()]) == 0
    return str(folder)


def om(*words: str, **options) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ordered_memory.cli", *words], capture_output=True, text=True, timeout=120, **options
    )


def error_of(capsys, *words: str) -> str:
    """The one line that bad input gets, with exit code 2 and no traceback."""
    try:
        code = main(words)
    except SystemExit as stop:  # tyro's own refusals
        code = stop.code
    error = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in error
    return error


class TestHelp:
    def test_overview_names_every_verb(self, capsys):
        assert main([]) == 0
        text = capsys.readouterr().out
        for verb in ("demo", "train", "evaluate", "parse", "data", "report", "models", "reproduce", "bench", "doctor"):
            assert re.search(rf"^  {verb} +[A-Z]", text, re.MULTILINE)

    @pytest.mark.parametrize("verb", ["demo", "train", "evaluate", "parse", "data", "report", "bench", "doctor"])
    def test_each_verb_explains_every_flag(self, verb, capsys):
        with pytest.raises(SystemExit) as stop:
            main([verb, "--help"])
        assert stop.value.code == 0
        help_text = capsys.readouterr().out
        assert f"usage: om {verb}" in help_text
        assert not re.search(r"--[a-z.-]+ +[A-Z{}a-z,|]+ +\(default", help_text), "a flag without a word of help"

    def test_help_and_version_do_not_load_torch(self):
        script = (
            "import sys; from ordered_memory.cli import main; main(['--version']); sys.exit('torch' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0

    def test_train_shows_the_flags_of_the_model(self, capsys):
        with pytest.raises(SystemExit):
            main(["train", "listops", "--model", "lstm", "--help"])
        text = capsys.readouterr().out
        assert "--num-layers" in text
        assert "--num-slots" not in text


class TestTrain:
    def test_leaves_a_whole_run_directory(self, run):
        names = {path.name for path in Path(run).iterdir()}
        assert {"config.json", "metrics.jsonl", "result.json", "best", "last"} <= names
        result = json.loads((Path(run) / "result.json").read_text())
        assert result["test"]["n"] == 50
        assert result["config"]["encoder"]["hidden_size"] == 8

    def test_config_runs_it_again_to_the_same_bits(self, run, tmp_path, capsys):
        again = tmp_path / "again"
        assert main(["train", "listops", "--config", f"{run}/config.json", "--out", str(again), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["test"]["n"] == 50
        weights = "best/weights.safetensors"
        assert (again / weights).read_bytes() == (Path(run) / weights).read_bytes()

    def test_a_finished_run_resumes_to_its_result(self, run, capsys):
        assert main(["train", "listops", "--out", run, "--resume"]) == 0
        assert "test accuracy" in capsys.readouterr().out

    def test_a_finished_run_without_its_last_state_is_left_as_it_is(self, run, tmp_path, capsys):
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        shutil.rmtree(copy / "last")
        assert "last: it is missing" in error_of(capsys, "train", "listops", "--out", str(copy), "--resume")
        assert (copy / "result.json").read_bytes() == (Path(run) / "result.json").read_bytes()

    def test_refuses_a_directory_that_holds_a_run(self, run, capsys):
        before = (Path(run) / "config.json").read_bytes()
        assert "there is a run already" in error_of(capsys, "train", "listops", "--out", run)
        assert (Path(run) / "config.json").read_bytes() == before

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("--model ordered-memry", "did you mean ordered-memory?"),
            ("--preset listops-huge", "there are listops, listops-paper, listops-demo"),
            ("--resume", "--resume needs --out"),
            ("--out nowhere --resume", "nowhere: there is no run here"),
            ("--out {run} --resume --epochs 9", "--epochs cannot be changed"),
            ("--budget soon", "budget is 'soon', and must be a time such as"),
            ("--learning-rate -1", "learning_rate is -1.0"),
            ("--data.operators MAX AVG", "operators: 'AVG' is not one of MIN MAX MED SM"),
            ("--data.pool-size 10", "nothing is left to train on"),
            ("--threads 0", "--threads is 0"),
            ("--preset listops-demo --config some.json", "--config and --preset both"),
            ("--config missing.json", "missing.json: cannot be read: No such file or directory"),
        ],
    )
    def test_bad_flags(self, words, message, run, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert message in error_of(capsys, "train", "listops", *words.format(run=run).split())
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda c: c["training"].update(epoch=3), "training: unknown key 'epoch': did you mean 'epochs'?"),
            (
                lambda c: c["encoder"].update(hidden_size="big"),
                "encoder: hidden_size is 'big', and must be of type int",
            ),
            (lambda c: c.update(model="gru"), "model is 'gru', and must be one of ordered-memory, lstm"),
        ],
    )
    def test_bad_config(self, change, message, run, tmp_path, capsys):
        config = json.loads((Path(run) / "config.json").read_text())
        change(config)
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        error = error_of(capsys, "train", "listops", "--config", str(path), "--out", str(tmp_path / "out"))
        assert f"{path}: {message}" in error
        assert not (tmp_path / "out").exists()

    def test_a_folder_that_cannot_be_made(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        error = error_of(capsys, "train", "listops", "--out", str(tmp_path / "file" / "run"), *TINY)
        assert "cannot be written: Not a directory" in error


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
        assert capsys.readouterr().out.startswith("label ")

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


class TestData:
    def test_writes_three_files_that_it_reads_back(self, tmp_path, capsys):
        words = f"data listops --out {tmp_path}/d --pool-size 300 --test-size 50 --validation-size 50 --json".split()
        assert main(words) == 0
        made = json.loads(capsys.readouterr().out)
        for name in ("train", "validation", "test"):
            path = f"{tmp_path}/d/{name}.tsv"
            assert main(["data", "listops", "--read", path, "--json"]) == 0
            assert json.loads(capsys.readouterr().out)[path] == made[name]

    def test_a_window_of_lengths(self, tmp_path):
        out = tmp_path / "long.tsv"
        assert main(["data", "listops", "--lengths", "200-300", "--count", "5", "--out", str(out)]) == 0
        rows = [line.split("\t")[1].split() for line in out.read_text().splitlines()]
        lengths = [len([word for word in row if word not in "()"]) for row in rows]
        assert len(lengths) == 5
        assert all(200 <= length <= 300 for length in lengths)

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("--read some.tsv --out other", "--read only checks a file"),
            ("--lengths many", "--lengths is 'many'"),
            ("--lengths 300-200", "max_length is 200, below min_length"),
            ("--max-depth 0", "max_depth is 0"),
            ("--read nowhere.tsv", "nowhere.tsv: cannot be read: No such file or directory"),
        ],
    )
    def test_bad_flags(self, words, message, capsys):
        assert message in error_of(capsys, "data", "listops", *words.split())


class TestReport:
    def test_writes_a_page_about_runs(self, run, lstm, tmp_path, capsys):
        out = tmp_path / "page.html"
        assert main(["report", run, lstm, "--out", str(out)]) == 0
        assert str(out) in capsys.readouterr().out
        assert "Ordered Memory and LSTM on ListOps" in out.read_text()

    def test_what_is_no_run(self, tmp_path, capsys):
        assert "no run" in error_of(capsys, "report", str(tmp_path), "--out", str(tmp_path / "page.html"))
        assert "at least one run" in error_of(capsys, "report", "--out", str(tmp_path / "page.html"))
        assert list(tmp_path.iterdir()) == []


class TestDoctorAndMain:
    def test_doctor_checks_and_tells(self, capsys):
        assert main(["doctor", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)
        assert findings["check"] == "passed"
        assert findings["engine"].startswith("native")
        assert main(["doctor"]) == 0
        assert "passed" in capsys.readouterr().out

    def test_doctor_tells_why_there_is_no_engine(self, capsys, monkeypatch):
        monkeypatch.setenv("CXX", "no-such-compiler")
        assert main(["doctor", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)
        assert "there is no C++ compiler (no-such-compiler)" in findings["engine"]
        assert "apt install g++" in findings["advice"]

    def test_doctor_builds(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv("ORDERED_MEMORY_CACHE", str(tmp_path))
        assert main(["doctor", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["engine"] == "native, to be built at first use"
        assert list(tmp_path.iterdir()) == []
        assert main(["doctor", "--build", "--json"]) == 0
        findings = json.loads(capsys.readouterr().out)
        assert findings["check"] == "passed"
        assert Path(findings["library"]).parent == tmp_path

    def test_unknown_verb(self, capsys):
        assert "'trian' is no verb of om: did you mean 'train'?" in error_of(capsys, "trian")

    def test_a_reader_that_has_had_enough(self, run):
        process = subprocess.run(
            f"{sys.executable} -m ordered_memory.cli parse {run} '{TEXT}' --json | true",
            shell=True, capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert "Traceback" not in process.stderr

    def test_a_full_disk_loses_nothing(self, tmp_path):
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full on this system")
        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        done = om("train", "listops", "--out", str(tmp_path), *TINY)
        assert done.returncode == 2
        assert "metrics.jsonl: cannot be written: No space left on device" in done.stderr
        assert (tmp_path / "best" / "weights.safetensors").exists()


class TestRecommendedPointer:
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


class TestReproduceAndModels:
    def test_what_is_run_and_what_is_not(self, tmp_path, capsys):
        (tmp_path / "listops").mkdir()
        (tmp_path / "listops" / "slots-8-seed0.json").write_text('{"seed": 0}')
        assert main(["reproduce", "listops", "--only", "slots-", "--results", str(tmp_path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split() for line in lines[:2]] == [
            ["slots-8", "seed", "0", "done"],
            ["slots-12", "seed", "0", "not", "run"],
        ]
        assert lines[-1] == "2 runs are missing; --run trains them"

    def test_generalisation_is_measured_into_the_results(self, run, tmp_path, capsys, monkeypatch):
        from ordered_memory.reproduce.generalisation import TESTS

        monkeypatch.setitem(TESTS, "200-300", dataclasses.replace(TESTS["200-300"], size=2))
        words = ["reproduce", "generalisation", "--checkpoint", run, "--only", "200-300", "--results", str(tmp_path)]
        assert main(words) == 0
        assert "200-300, hard pointer: accuracy " in capsys.readouterr().out
        found = json.loads((tmp_path / "listops" / "generalisation-ordered-memory-seed0.json").read_text())
        assert set(found["tests"]["200-300"]) == {"data", "num_slots", "soft", "hard"}

    def test_generalisation_of_all_finished_runs(self, run, lstm, tmp_path, capsys, monkeypatch):
        from ordered_memory.reproduce import generalisation

        monkeypatch.setitem(
            generalisation.TESTS, "200-300", dataclasses.replace(generalisation.TESTS["200-300"], size=2)
        )
        monkeypatch.setitem(generalisation.LONGEST, "lstm", 350)
        for name, folder in (("ordered-memory-paper-seed0", run), ("lstm-seed0", lstm)):
            shutil.copytree(folder, tmp_path / "runs" / name)
        words = ["reproduce", "generalisation", "--all", "--runs", str(tmp_path / "runs"), "--results", str(tmp_path)]
        assert main([*words, "--only", "200-300"]) == 0
        printed = capsys.readouterr().out
        assert "\nlstm-seed0\n200-300: accuracy " in printed
        assert re.search("no finished run in .*rrnet-seed0", printed)
        found = {path.name for path in (tmp_path / "listops").iterdir()}
        assert found == {"generalisation-ordered-memory-paper-seed0.json", "generalisation-lstm-seed0.json"}
        assert main([*words, "--only", "200-300"]) == 0
        assert "accuracy" not in capsys.readouterr().out
        shutil.rmtree(tmp_path / "runs" / "ordered-memory-paper-seed0")
        assert main([*words, "--only", "300-400"]) == 0
        assert "300-400: not measured: lstm would take too long above 350 tokens" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("generalisation --all --checkpoint listops", "--all goes over the finished runs, and --checkpoint names"),
            ("generalisation --all --runs nowhere", "nowhere: no compared system has a finished run here"),
            ("listops --all", "--all is of generalisation, and listops is a table"),
            ("tablecloth", "'tablecloth' is no table: there are listops"),
            ("listops --only turtles", "--only turtles: no row of listops"),
            ("listops --threads 0", "--threads is 0"),
            ("generalisation --checkpoint listops-demo --only 7", "--only 7: no such test set; there are 200-300"),
        ],
    )
    def test_bad_words_are_told(self, words, message, capsys):
        assert message in error_of(capsys, "reproduce", *words.split())

    def test_models_lists_each_with_its_trees(self, capsys):
        assert main(["models"]) == 0
        assert re.search(r"^tree-cell +gold +Ordered Memory's", capsys.readouterr().out, re.MULTILINE)
        assert main(["models", "--json"]) == 0
        assert {"name", "summary", "trees", "paper"} == set(json.loads(capsys.readouterr().out)[0])
