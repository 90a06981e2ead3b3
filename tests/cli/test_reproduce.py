"""om reproduce and om models."""

import dataclasses
import json
import re
import shutil

import pytest

from ordered_memory.cli import main
from ordered_memory.reproduce.plan import rows_of
from tests.cli.conftest import error_of


class TestReproduceAndModels:
    def test_what_is_run_and_what_is_not(self, tmp_path, capsys):
        (tmp_path / "listops").mkdir()
        (row,) = rows_of("listops", "slots-8")
        result = {"seed": 0, "config": row.run(0).to_dict()}
        (tmp_path / "listops" / "slots-8-seed0.json").write_text(json.dumps(result))
        assert main(["reproduce", "listops", "--only", "slots-", "--results", str(tmp_path)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split() for line in lines[:2]] == [
            ["slots-8", "8", "slots:", "seed", "0", "done"],
            ["slots-12", "12", "slots:", "seed", "0", "not", "run"],
        ]
        assert lines[-1] == "2 runs are missing; --run trains them"

        result["config"]["training"]["epochs"] += 1
        (tmp_path / "listops" / "slots-8-seed0.json").write_text(json.dumps(result))
        assert main(["reproduce", "listops", "--only", "slots-8", "--former", "--results", str(tmp_path)]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "slots-8  8 slots: seed 0 done, former settings",
            "1 run is missing; --run trains it",
        ]

    def test_generalisation_is_measured_into_the_results(self, run, tmp_path, capsys, monkeypatch):
        from ordered_memory.reproduce.generalisation import TESTS

        monkeypatch.setitem(TESTS, "200-300", dataclasses.replace(TESTS["200-300"], size=2))
        words = ["reproduce", "generalisation", "--checkpoint", run, "--only", "200-300", "--results", str(tmp_path)]
        assert main(words) == 0
        assert "200-300, hard pointer: accuracy " in capsys.readouterr().out
        found = json.loads((tmp_path / "listops" / "generalisation-tiny-seed0.json").read_text())
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
        again = capsys.readouterr().out
        assert "200-300, measured before: accuracy" in again
        assert again.replace(", measured before", "") == printed  # to the second
        shutil.rmtree(tmp_path / "runs" / "ordered-memory-paper-seed0")
        assert main([*words, "--only", "300-400"]) == 0
        assert "300-400: not measured: lstm would take too long above 350 tokens" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("generalisation --all --checkpoint listops", "--all goes over the finished runs, and --checkpoint names"),
            ("generalisation --all --runs nowhere", "nowhere: no compared system has a finished run here"),
            ("listops --all", "--all is not of listops, which is a table: --run trains what is missing"),
            ("logic --pointer hard", "--pointer is not of logic, which is a table"),
            ("generalisation --run", "--run is not of generalisation, which is measured, not trained"),
            ("listops --budget 5m", "--budget is how long to train: it goes with --run"),
            ("listops --run --budget soon", "budget is 'soon', and must be a time such as"),
            ("tablecloth", "'tablecloth' is no table: there are listops, logic, table1, table2, generalisation"),
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
