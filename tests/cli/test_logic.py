"""Logical inference on the command line: data, a run on a split, and what its model makes of pairs."""

import io
import json
from pathlib import Path

import pytest

from ordered_memory.cli import main
from ordered_memory.reproduce.plan import rows_of
from ordered_memory.tasks import logic_files
from tests.cli.conftest import error_of

TINY = [
    "--pairs",
    "1500",
    "--epochs",
    "1",
    "--hidden-size",
    "8",
    "--embedding-size",
    "8",
    "--threads",
    "1",
]
FEW_STEPS = "--random-steps 3 --start-steps 3 --pointer-steps 3 --copy-steps 3 --drawn-steps 2 --written"
PAIR = ("( a ( and b ) )", "( not a )")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    """A run of a few seconds; its model knows nothing."""
    folder = tmp_path_factory.mktemp("runs") / "logic"
    words = ["train", "logic", "--split", "B", "--num-slots", "4", *FEW_STEPS.split(), "--out", str(folder), *TINY]
    assert main(words) == 0
    return str(folder)


class TestTrain:
    def test_a_split_without_its_prefix(self, run):
        config = json.loads(Path(run, "config.json").read_text())
        assert (config["data"]["split"], config["data"]["pairs"]) == ("B", 1500)
        result = json.loads(Path(run, "result.json").read_text())
        assert set(result["test"]["buckets"]) <= {str(number) for number in range(7, 13)}
        assert result["extra_tests"].keys() == {"all", "held-out", "every"}

    def test_steps_that_seek_trees(self, run, capsys):
        training = json.loads(Path(run, "config.json").read_text())["training"]
        assert (training["written"], training["drawn_steps"], training["draws"]) == (True, 2, 8)
        words = ["train", "logic", "--out", run, "--resume", "--drawn-steps"]
        assert main([*words, "2"]) == 0
        assert "--drawn-steps cannot be changed in a run that goes on: it has 2" in error_of(capsys, *words, "3")

    def test_its_last_lines_tell_both_pointers_and_f1_of_words(self, run, capsys):
        result = json.loads(Path(run, "result.json").read_text())
        assert main(["train", "logic", "--out", run, "--resume"]) == 0
        hard = f"({100 * result['hard_pointer']['test']['accuracy']:.2f} with a hard pointer)"
        assert f"{100 * result['test']['accuracy']:.2f} {hard}, F1 " in (told := capsys.readouterr().out)
        assert f"(of words {100 * result['test']['f1_words']:.2f}) on" in told

    def test_the_default_folder_names_the_split(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        for flags, name in (["--split", "A"], "logic-lstm-A-seed0"), ([], "logic-lstm-seed0"):
            (tmp_path / "runs" / name).mkdir(parents=True)
            (tmp_path / "runs" / name / "config.json").touch()
            told = error_of(capsys, "train", "logic", "--model", "lstm", *flags)
            assert f"runs/{name}: there is a run already" in told

    def test_a_flag_of_two_groups_keeps_its_prefix(self, tmp_path, capsys):
        words = ["train", "logic", "--seed", "3", "--data.seed=5", "--out", str(tmp_path / "run"), "--json", *TINY]
        assert main([*words, "--model", "lstm", "--no-brackets"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert result["config"]["data"]["brackets"] is False
        assert (result["seed"], result["config"]["data"]["seed"]) == (3, 5)

    def test_files_of_the_data_folder(self, tmp_path, capsys):
        assert main(["data", "logic", "--pairs", "1500", "--seed", "1", "--out", str(tmp_path / "logic")]) == 0
        capsys.readouterr()
        words = ["train", "logic", "--data-dir", str(tmp_path), "--out", str(tmp_path / "run"), "--json"]
        assert "1500, which is how many to draw" in error_of(capsys, *words, "--model", "lstm", *TINY)
        assert not (tmp_path / "run").exists()
        assert TINY[:2] == ["--pairs", "1500"]
        assert main([*words, "--model", "lstm", *TINY[2:]]) == 0
        data = json.loads(capsys.readouterr().out)["config"]["data"]
        assert (data["source"], data["folder"]) == ("files", None)
        assert main(["evaluate", str(tmp_path / "run"), "--data-dir", str(tmp_path), "--json"]) == 0
        capsys.readouterr()
        assert "no folder of files is named" in error_of(capsys, "evaluate", str(tmp_path / "run"))

    def test_bad_values(self, capsys, tmp_path):
        out = ("--out", str(tmp_path / "run"))
        assert "--split D: there are full, A, B, C" in error_of(capsys, "train", "logic", "--split", "D", *out)
        missing = error_of(capsys, "train", "logic", "--folder", str(tmp_path / "absent"), *out)
        assert "absent: there is no such folder" in missing
        assert not (tmp_path / "run").exists()


class TestModels:
    def test_evaluate_a_file(self, run, tmp_path, capsys):
        path = tmp_path / "pairs"
        path.write_text("^\ta\t( not a )\n<\t( a ( and b ) )\ta\n#\ta\tb\n")
        assert main(["evaluate", run, "--data", str(path), "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures["n"] == 3
        assert {name: bucket["n"] for name, bucket in figures["buckets"].items()} == {"0": 1, "1": 2}
        assert 0 <= figures["f1_words"] <= 1
        assert main(["evaluate", run, "--data", str(path)]) == 0
        table = capsys.readouterr().out
        assert "operations" in table
        assert "F1 of words" in table

    def test_a_bad_line(self, run, tmp_path, capsys):
        path = tmp_path / "pairs"
        path.write_text("^\ta\t( not a )\n^\ta\tb\n")
        assert f"{path}:2: the relation is ^, but by truth tables it is #" in error_of(
            capsys, "evaluate", run, "--data", str(path)
        )

    def test_parse_answers_with_the_relation_and_both_trees(self, run, capsys, tmp_path):
        assert main(["parse", run, *PAIR, "--svg", str(tmp_path / "pair.svg")]) == 0
        told = capsys.readouterr()
        assert told.out.startswith("label ")
        assert f"drawn in {tmp_path / 'pair.svg'}" in told.err
        lines = [line.split() for line in told.out.splitlines()]
        assert ["a", "and", "b"] in lines  # the leaves: brackets only show structure
        assert ["not", "a"] in lines
        assert (tmp_path / "pair.svg").read_text().startswith("<svg")
        assert main(["parse", run, *PAIR, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert [len(sentence["tokens"]) for sentence in answer["sentences"]] == [7, 4]
        assert [sentence["tree"].count("-LRB-") for sentence in answer["sentences"]] == [2, 1]
        assert answer["sentences"][1]["tree_of_words"] == "( not a )"

    def test_without_its_files_another_may_be_named(self, capsys):
        told = error_of(capsys, "evaluate", "logic")
        assert "no folder of files is named" in told
        assert "or name a file of examples by --data" in told

    def test_parse_reads_pairs_from_standard_input(self, run, capsys, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.StringIO("\t".join(PAIR) + "\na\tb\n"))
        assert main(["parse", run, "-", "--json"]) == 0
        answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [len(answer["sentences"][0]["tokens"]) for answer in answers] == [7, 1]
        monkeypatch.setattr("sys.stdin", io.StringIO("a\tb\na\n"))
        assert "standard input:2: the model reads two texts" in error_of(capsys, "parse", run, "-")

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            (["a"], "the model reads two texts, a pair, at a time, and here is 1"),
            (["a", "b", "c"], "the model reads two texts, a pair, at a time, and here are 3"),
            (["( a ( and b )", "a"], "unbalanced: ( at token 1 is never closed"),
            (["a", "( a and b )"], "the brackets at tokens 1 and 5 hold statement and statement"),
        ],
    )
    def test_bad_texts(self, run, texts, message, capsys):
        assert message in error_of(capsys, "parse", run, *texts)


class TestData:
    def test_statistics_of_drawn_pairs(self, capsys):
        assert main(["data", "logic", "--pairs", "1500", "--split", "C", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found.keys() == {"train", "validation", "test", "all", "held-out", "every"}
        assert main(["data", "logic", "--pairs", "1500"]) == 0
        assert "drawn, seed 0" in capsys.readouterr().out

    def test_writes_files_that_it_reads_back(self, tmp_path, capsys):
        assert main(["data", "logic", "--pairs", "1500", "--out", str(tmp_path / "logic")]) == 0
        assert {path.name for path in (tmp_path / "logic").iterdir()} == logic_files.CHECKSUMS.keys()
        capsys.readouterr()
        assert main(["data", "logic", "--read", str(tmp_path / "logic" / "train4"), "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out).values()
        assert found["operations"]["4"] == found["count"] > 50

    def test_verify_tells_what_is_wrong(self, tmp_path, capsys):
        assert main(["data", "logic", "--pairs", "1500", "--out", str(tmp_path / "logic")]) == 0
        for words in (["--verify", str(tmp_path / "logic")], ["--verify", "--data-dir", str(tmp_path)]):
            assert "split full, left" in error_of(capsys, "data", "logic", *words)

    def test_download_without_a_network(self, tmp_path, capsys, monkeypatch):
        def refuse(*_, **__):
            raise OSError("Name or service not known")

        monkeypatch.setattr("urllib.request.urlopen", refuse)
        told = error_of(capsys, "data", "logic", "--download", "--data-dir", str(tmp_path))
        assert "cannot be fetched (Name or service not known)" in told
        assert "Without a network" in told
        assert not (tmp_path / "logic").exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--download"], "say where to, by --data-dir or ORDERED_MEMORY_DATA"),
            (["--verify"], "no folder of files is named"),
            (["--verify", "x", "--out", "y"], "--verify and --out are two things to do"),
            (["--verify", "x", "y"], "--verify takes one folder, not 2"),
            (["--read", "absent"], "absent: cannot be read"),
        ],
    )
    def test_bad_flags(self, words, message, capsys):
        assert message in error_of(capsys, "data", "logic", *words)

    def test_a_task_named_like_a_folder(self, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert "name the task first: om data listops" in error_of(capsys, "data", "--out", "logic", "listops")


class TestReproduce:
    @pytest.mark.parametrize("name", ["logic", "table1"])
    def test_what_is_run_and_what_is_not(self, name, tmp_path, capsys):
        (tmp_path / "logic").mkdir()
        (row,) = rows_of("logic", "on-lstm-B")
        result = {"seed": 0, "config": row.run(0).to_dict()}
        (tmp_path / "logic" / "on-lstm-B-seed0.json").write_text(json.dumps(result))
        assert main(["reproduce", name, "--only", "on-lstm-", "--results", str(tmp_path)]) == 0
        lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
        done = {"on-lstm-A": "not run", "on-lstm-B": "done", "on-lstm-C": "not run"}
        assert lines[:3] == [f"{key} ON-LSTM, split {key[-1]}: seed 0 {state}" for key, state in done.items()]
        assert lines[-1] == "2 runs are missing; --run trains them"
