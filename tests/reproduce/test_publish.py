"""What is kept of a run: the result as it was written, and a model that answers as the run's does."""

import json
import subprocess
import sys

from ordered_memory.classifier import Classifier
from ordered_memory.cli import main
from ordered_memory.reproduce.publish import publish
from ordered_memory.reproduce.runs import held_out, load_runs
from ordered_memory.tasks.logic import operations
from ordered_memory.training.run_directory import RunDirectory


def test_result_and_checkpoint(tmp_path):
    words = "--preset listops-demo --epochs 1 --budget None --evaluate-every 0 --embedding-size 8 --hidden-size 8"
    data = "--data.pool-size 300 --data.test-size 50 --data.validation-size 50 --data.max-depth 3 --threads 1 --seed 3"
    run = tmp_path / "run"
    assert main(["train", "listops", "--out", str(run), *words.split(), *data.split()]) == 0
    path = publish(run, tmp_path / "results", tmp_path / "shipped", pointer="hard", slots_as_needed=True)
    assert path.name == "ordered-memory-seed3.json"
    result = json.loads((run / "result.json").read_text())
    kept = json.loads(path.read_text())
    curve = kept.pop("curve")
    assert kept == result
    assert [record["accuracy"] for record in curve] == [record["accuracy"] for record in RunDirectory(run).metrics()]

    model, own = Classifier.from_pretrained(tmp_path / "shipped"), Classifier.from_pretrained(run)
    text = "[MAX 2 9 [MIN 4 7 ] 0 ]"
    for options in ({"pointer": "soft", "num_slots": 6}, {"pointer": "hard", "num_slots": 6}):
        assert model.predict(text, **options).to_dict() == own.predict(text, **options).to_dict()
    slots = model.predict(text).pointer.shape[-1]
    assert model.predict(text).to_dict() == own.predict(text, pointer="hard", num_slots=slots).to_dict()
    assert model.card["test"]["accuracy"] == result["test"]["accuracy"]
    assert model.card["hard_pointer"]["test"]["accuracy"] == result["hard_pointer"]["test"]["accuracy"]
    assert model.card["run"] == "results/ordered-memory-seed3"
    assert model.card["data"] == own.card["data"]
    assert model.card["recommends"] == {"pointer": "hard", "num_slots": "as needed"}
    assert publish(run, tmp_path / "results", name="slots-8-seed3").name == "slots-8-seed3.json"


def test_structures_are_kept_where_there_are_trees_of_statements(logic_runs, tmp_path):
    kept = json.loads(publish(logic_runs / "ordered-memory", tmp_path).read_text())["structures"]
    pairs = held_out(load_runs([logic_runs / "ordered-memory"])[0])
    for name, counts in kept.items():
        some = [pair for pair in pairs if (operations(pair) > 6) == (name == "longer")]
        assert sum(counts.values()) == sum("and" in words or "or" in words for one in some for words in one.sentences)
    assert list(kept) == ["longer"]  # split C is tested on longer pairs
    assert "structures" not in json.loads(publish(logic_runs / "lstm", tmp_path).read_text())


def test_bad_input_is_told_in_a_line(tmp_path):
    command = [sys.executable, "-m", "ordered_memory.reproduce.publish", "--run", str(tmp_path), "--results", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: {tmp_path}: there is no run here: it holds no config.json\n"
