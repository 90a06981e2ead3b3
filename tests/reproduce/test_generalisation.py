"""The test sets beyond training: what they hold, and that measuring goes on where it stopped."""

import dataclasses
import json

import pytest
import torch

from ordered_memory.classifier import Classifier
from ordered_memory.config import ENCODER_CONFIGS, LSTMConfig, OrderedMemoryConfig
from ordered_memory.errors import InputError
from ordered_memory.reproduce.generalisation import (
    LONGEST,
    TESTS,
    VALIDATION,
    finished_runs,
    load_measured,
    measure,
    measure_into,
    result_name,
    too_long,
)
from ordered_memory.tasks.listops import VOCABULARY, WindowConfig, depth, window


def model(name="ordered-memory", config=None) -> Classifier:
    config = config or OrderedMemoryConfig(hidden_size=4, num_slots=5)
    return Classifier(VOCABULARY, tuple("0123456789"), name, config, task="listops")


def cut(name, size) -> dict[str, WindowConfig]:
    return {name: dataclasses.replace(TESTS[name], size=size)}


@pytest.mark.parametrize("name", ["200-300", "900-1000", "10 arguments", "deep"])
def test_a_set_holds_what_its_name_says(name):
    config = TESTS[name]
    some = window(dataclasses.replace(config, size=20))
    for example in some:
        tokens = example.sentences[0]
        assert config.min_length <= len(tokens) <= config.max_length
        assert depth(tokens) <= config.max_depth


def test_the_deep_set_is_deeper_than_training_can_be():
    some = window(dataclasses.replace(TESTS["deep"], size=50))
    assert max(depth(example.sentences[0]) for example in some) > 20


def test_both_pointers_with_as_many_slots_as_it_takes():
    found = measure(model(), ["200-300"], sets=cut("200-300", 3))
    entry = found["tests"]["200-300"]
    assert entry["num_slots"] > 5
    assert entry["soft"]["n"] == entry["hard"]["n"] == 3
    assert entry["data"]["min_length"] == 200


def test_a_model_without_a_pointer_is_measured_once():
    entry = measure(model("lstm", LSTMConfig(hidden_size=4)), ["200-300"], sets=cut("200-300", 3))["tests"]["200-300"]
    assert set(entry) == {"data", "none"}


def test_what_is_measured_already_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setitem(TESTS, "200-300", dataclasses.replace(TESTS["200-300"], size=2))
    monkeypatch.setitem(TESTS, "300-400", dataclasses.replace(TESTS["300-400"], size=2))
    path, told, mine = tmp_path / "figures.json", [], model()
    first = measure_into(path, mine, ["200-300"], lambda *figures: told.append(figures))
    assert first["tests"]["200-300"]["hard"]["cores"] == torch.get_num_threads()
    found = measure_into(path, mine, ["200-300", "300-400"], lambda *figures: told.append(figures))
    before = "200-300, measured before"
    assert [name for name, *_ in told] == ["200-300", "200-300", before, "300-400", before, "300-400"]
    assert told[0][1:] == told[2][1:]  # with what it took then, to the microsecond
    with pytest.raises(InputError, match=r"figures\.json: its figures are of another model of that name"):
        measure_into(path, model(), ["200-300"], lambda *_: None)
    assert list(found["tests"]) == ["200-300", "300-400"]
    assert all({"soft", "hard"} < set(entry) for entry in found["tests"].values())
    assert json.loads(path.read_text())["tests"].keys() == found["tests"].keys()


def test_figures_of_other_sets_are_measured_anew(tmp_path):
    path = tmp_path / "figures.json"
    old, mine = dataclasses.replace(TESTS["200-300"], size=2, seed=7), model()
    measure_into(path, mine, ["200-300"], lambda *_: None, sets={"200-300": old})
    found = measure_into(path, mine, ["200-300"], lambda *_: None, ["hard"], sets=cut("200-300", 3))
    assert found["tests"]["200-300"]["data"]["seed"] == TESTS["200-300"].seed
    assert found["tests"]["200-300"]["hard"]["n"] == 3
    assert "soft" not in found["tests"]["200-300"]


def test_validation_sets_are_like_the_test_sets_but_not_of_their_seed():
    assert VALIDATION.keys() == TESTS.keys()
    assert {config.seed for config in VALIDATION.values()}.isdisjoint(config.seed for config in TESTS.values())
    test, validation = (window(dataclasses.replace(sets["200-300"], size=20)) for sets in (TESTS, VALIDATION))
    assert not {example.sentences for example in test} & {example.sentences for example in validation}


def test_an_unknown_set_is_refused():
    with pytest.raises(InputError, match="'700' is no test set: there are 200-300"):
        measure(model(), ["700"])


def test_slow_models_are_spared_the_longest_sets():
    assert set(LONGEST) <= set(ENCODER_CONFIGS)
    assert [name for name in TESTS if too_long("transformer", name)] == ["10,000"]
    assert not any(too_long("ordered-memory", name) for name in TESTS)


def test_a_file_is_named_after_its_run_of_the_plan_or_after_its_folder():
    assert result_name("runs/ordered-memory-paper-seed2", model()) == "generalisation-ordered-memory-paper-seed2.json"
    other = model()
    other.card |= {"training": {"seed": 7}, "run": "listops-demo/ordered-memory-seed0"}
    assert result_name("listops-demo", other) == "generalisation-listops-demo-seed7.json"


@pytest.mark.parametrize(("name", "row"), [("listops", "ordered-memory"), ("listops-paper", "ordered-memory-paper")])
def test_a_shipped_model_goes_by_its_run(name, row):
    assert result_name(name, Classifier.from_pretrained(name)) == f"generalisation-{row}-seed0.json"


def test_finished_runs_are_those_of_the_compared_systems_with_a_result(tmp_path):
    with pytest.raises(InputError, match="no compared system has a finished run here"):
        finished_runs(tmp_path)
    for name in ("lstm-seed0", "tree-cell-seed0", "slots-8-seed0", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("{}")
    (tmp_path / "rrnet-seed0").mkdir()
    finished, others = finished_runs(tmp_path)
    assert [path.name for path in finished] == ["lstm-seed0", "tree-cell-seed0"]
    assert {"rrnet-seed0", "ordered-memory-seed2"} <= {path.name for path in others}


def test_figures_are_loaded_by_row_in_the_order_of_the_plan(tmp_path):
    for key in ("tree-cell-seed0", "ordered-memory-seed0", "ordered-memory-seed1", "strange-seed0"):
        found = {"model": key.rpartition("-seed")[0], "seed": 0, "tests": {"deep": {"hard": {"accuracy": 0.5}}}}
        (tmp_path / f"generalisation-{key}.json").write_text(json.dumps(found))
    loaded = load_measured(tmp_path)
    assert {key: system.title for key, system in loaded.items()} == {
        "ordered-memory": "Ordered Memory",
        "tree-cell": "TreeCell (gold trees)",
        "strange": "strange",
    }
    assert list(loaded) == ["ordered-memory", "tree-cell", "strange"]
    assert loaded["ordered-memory"].accuracies("deep", "hard") == [0.5, 0.5]
    assert loaded["ordered-memory"].accuracies("deep", "soft") == []
