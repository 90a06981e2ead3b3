"""om train: what it leaves, what it refuses, and how it goes on."""

import json
import shutil
from pathlib import Path

import pytest

from ordered_memory.cli import main
from tests.cli.conftest import SMALL, TINY, error_of


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

    def test_its_own_settings_may_be_said_again(self, run, capsys):
        assert main(["train", "listops", "--out", run, "--resume", *TINY]) == 0
        assert main(["train", "listops", "--out", run, "--resume", "--hidden-size", "8"]) == 0
        assert main(["train", "listops", "--out", run, "--resume", "--config", f"{run}/config.json"]) == 0
        assert capsys.readouterr().out.count("test accuracy") == 3
        error = error_of(capsys, "train", "logic", "--out", run, "--resume")
        assert "the task cannot be changed in a run that goes on: it has listops" in error

    @pytest.mark.parametrize("flag", [["--out", "{run}"], ["--out={run}"]])
    def test_a_run_that_goes_on_knows_its_task(self, flag, run, capsys):
        assert main(["train", "--resume", *(word.format(run=run) for word in flag)]) == 0
        assert "test accuracy" in capsys.readouterr().out
        assert "nowhere: there is no run here" in error_of(capsys, "train", "--resume", "--out", "nowhere")

    def test_a_finished_run_without_its_last_state_is_left_as_it_is(self, run, tmp_path, capsys):
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)
        shutil.rmtree(copy / "last")
        assert "last: it is missing" in error_of(capsys, "train", "listops", "--out", str(copy), "--resume")
        assert (copy / "result.json").read_bytes() == (Path(run) / "result.json").read_bytes()

    def test_a_stop_tells_how_to_go_on(self, run, tmp_path, capsys, monkeypatch):
        def stopped(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("ordered_memory.training.loop.train", stopped)
        assert main(["train", "listops", "--out", run, "--data-dir", str(tmp_path), "--resume"]) == 130
        assert f"go on with: om train listops --out {run} --data-dir {tmp_path} --resume" in capsys.readouterr().err
        assert main(["train", "listops", "--out", str(tmp_path / "new")]) == 130
        assert "stopped; nothing was begun" in capsys.readouterr().err

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
            (
                "--out {run} --resume --epochs 9",
                "--epochs cannot be changed in a run that goes on: it has 1; begin another run for another",
            ),
            ("--out {run} --resume --preset listops-paper", "--preset listops-paper: --max-depth cannot be changed"),
            ("--out {run} --resume --model lstm", "--model cannot be changed"),
            ("--budget soon", "--budget is 'soon', and must be a time such as"),
            ("--learning-rate -1", "--learning-rate is -1.0"),
            ("--data.operators MAX AVG", "operators: 'AVG' is not one of MIN MAX MED SM"),
            ("--data.pool-size 10", "nothing is left to train on"),
            ("--threads 0", "--threads is 0"),
            ("--balanced 0.5", "--balanced and short_share both choose the examples: set one of them to 0"),
            ("--draws 0", "--draws is 0, and must be greater than 0"),
            ("--copy-steps 5", "--copy-steps is set, and no step finds trees before they are: set pointer_steps too"),
            ("--hard-share 1", "--hard-share is 1.0, and must be at least 0 and less than 1"),
            ("--model lstm --hard-share 0.5", "--hard-share is a setting of ordered-memory, and the model is lstm"),
            ("--model rrnet --closing-bias nan", "--closing-bias is nan, and must be finite"),
            ("--preset listops-demo --config some.json", "--config and --preset both"),
            ("--config missing.json", "missing.json: cannot be read: No such file or directory"),
        ],
    )
    def test_bad_flags(self, words, message, run, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert message in error_of(capsys, "train", "listops", *words.format(run=run).split())
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("", "name a task first: om train TASK"),
            ("--epochs 2", "name a task first: om train TASK"),
            ("listop", "'listop' is no task: om train TASK ...; there are listops, logic, sst, files"),
            ("logic --split D", "--split D: there are full, A, B, C"),
            ("logic --data.source=web", "--data.source web: there are auto, files, generated"),
        ],
    )
    def test_bad_tasks(self, words, message, capsys, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert message in error_of(capsys, "train", *words.split())
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

    def test_a_setting_that_the_model_has_no_use_for_is_told_by_its_flag(self, tmp_path, capsys):
        out = tmp_path / "out"
        for flags in (["--sharpen"], ["--drawn-steps", "5"], ["--pointer-rate", "2"]):
            error = error_of(capsys, "train", "listops", "--model", "lstm", *SMALL.split(), *flags, "--out", str(out))
            assert f"{flags[0]} is a setting of ordered-memory, and the model is lstm: leave it out" in error
            assert not out.exists()

    def test_a_folder_that_cannot_be_made(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        error = error_of(capsys, "train", "listops", "--out", str(tmp_path / "file" / "run"), *TINY)
        assert f"{tmp_path / 'file'}: not a directory: name another --out" in error


def test_a_flag_that_is_not_there_points_to_the_help_of_its_task(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "logic", "--turns-steps", "5"])
    assert stopped.value.code == 2
    assert "run om train logic --help" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(("task", "exception"), [("logic", ", but for --data.seed."), ("files", ".")])
def test_help_says_how_flags_of_the_data_may_be_written(capsys, task, exception):
    with pytest.raises(SystemExit):
        main(["train", task, "--help"])
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert f'These flags need no "data." in front: --NAME is enough{exception}' in said
