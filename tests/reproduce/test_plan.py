"""The plan: which runs there are, which are missing, and that a missing one is trained into the results."""

import dataclasses
import json

import pytest

from ordered_memory.config import Experiment
from ordered_memory.errors import InputError
from ordered_memory.presets import PRESETS, preset
from ordered_memory.reproduce import plan
from ordered_memory.reproduce.plan import (
    NUMBERS,
    OPTION_EPOCHS,
    SIZES,
    SPLIT_EPOCHS,
    TABLES,
    Row,
    listops_rows,
    logic_rows,
    missing,
    rows_of,
    run_one,
)
from ordered_memory.reproduce.published import LISTOPS, LOGIC
from ordered_memory.training.progress import Silent
from ordered_memory.training.turns import needs_pointer


@pytest.fixture
def tiny() -> Experiment:
    """A run of a few steps."""
    demo = PRESETS["listops-demo"]
    return dataclasses.replace(
        demo,
        data=dataclasses.replace(demo.data, pool_size=300, test_size=50, validation_size=50, max_depth=3),
        encoder=dataclasses.replace(demo.encoder, hidden_size=8),
        classifier=dataclasses.replace(demo.classifier, embedding_size=8),
        training=dataclasses.replace(demo.training, budget=None, epochs=1, evaluate_every=0),
    )


@pytest.mark.parametrize("table", TABLES)
def test_the_keys_are_different_and_every_experiment_survives_json(table):
    rows = rows_of(table)
    assert len({row.key for row in rows}) == len(rows)
    for row in rows:
        assert Experiment.from_dict(json.loads(json.dumps(row.experiment.to_dict()))) == row.experiment


def test_every_published_row_of_a_model_that_is_here_is_planned():
    keys = {row.key for row in listops_rows()}
    assert {"ordered-memory", "ordered-memory-tree-rnn", "lstm"} <= keys & LISTOPS.keys()


def test_table_1_is_planned_whole():
    rows = {row.key: row for row in logic_rows()}
    assert rows.keys() >= LOGIC.keys()
    assert len(rows["ordered-memory"].seeds) == 3
    for key, published in LOGIC.items():
        for split in "ABC":
            assert (f"{key}-{split}" in rows) == (split in published)


def test_a_row_of_a_split_differs_from_its_system_in_the_split_and_ours_in_its_schedule_only():
    rows = {row.key: row for row in logic_rows()}
    splits = [row for row in rows.values() if row.group == "splits"]
    assert len(splits) == 24
    for row in splits:
        key, _, split = row.key.rpartition("-")
        assert row.experiment.data.split == split
        whole = dataclasses.replace(row.experiment.data, split="full")
        training = row.experiment.training
        if key == "ordered-memory":  # which has more epochs where there are fewer pairs
            assert training.epochs == SPLIT_EPOCHS[split]
            training = dataclasses.replace(training, epochs=rows[key].experiment.training.epochs)
        assert dataclasses.replace(row.experiment, data=whole, training=training) == rows[key].experiment


def test_ours_takes_about_as_many_steps_on_every_split():
    pairs = {"full": 135_529, "A": 128_969, "B": 87_948, "C": 51_896}
    rows = [row for row in logic_rows() if row.key in ("ordered-memory", *(f"ordered-memory-{s}" for s in "ABC"))]
    read = [row.experiment.training.epochs * pairs[row.experiment.data.split] for row in rows]
    assert len(read) == 4
    assert min(read) > 0.75 * max(read)


def test_the_faithful_transformers_stand_beside_those_that_learn():
    rows = {row.key: row for row in logic_rows()}
    assert rows["transformer-paper"].experiment == preset("logic", "logic-paper", "transformer")
    assert rows["transformer-paper"].experiment.encoder != rows["transformer"].experiment.encoder
    halting = {key: rows[key].experiment.encoder.halting for key in rows if key.startswith("universal-transformer")}
    assert halting["universal-transformer-halting"]
    assert halting["universal-transformer-paper"]
    assert not halting["universal-transformer"]


def test_the_paper_s_numbers_are_names_too():
    assert set(NUMBERS.values()) == TABLES.keys()


def test_the_sizes_of_the_training_set_are_what_the_rows_say():
    """The same steps for each, and the same validation and test examples."""
    rows = [row for row in listops_rows() if row.group == "sizes"]
    assert len(rows) == 2 * len(SIZES)
    for row, size in zip(rows, (size for size in SIZES for _ in range(2)), strict=True):
        data = row.experiment.data
        assert row.title.endswith(f", {size:,} examples")
        assert dataclasses.replace(data, train_size=None) == preset("listops").data
        assert (data.train_size or 85_000) == size
        assert size * row.experiment.training.epochs == pytest.approx(OPTION_EPOCHS * 85_000, rel=0.2)  # whole epochs


def test_one_run_that_stands_in_two_tables_is_planned_once():
    named = [row.experiment for row in listops_rows() if row.key == "attention-paper"]
    assert len(named) == 2
    assert named[0] == named[1]
    assert len([row for row in rows_of("listops") if row.key == "attention-paper"]) == 1


def test_options_change_what_they_name_and_nothing_else():
    (none,), (slots,) = rows_of("listops", "options-none"), rows_of("listops", "slots-12")
    plain = none.experiment
    assert slots.experiment == dataclasses.replace(plain, encoder=dataclasses.replace(plain.encoder, num_slots=12))
    ours, shorter = preset("listops", "listops").training, plain.training
    assert shorter.epochs < ours.epochs
    assert shorter.short_epochs / shorter.epochs == pytest.approx(ours.short_epochs / ours.epochs)


def test_ways_to_trees_change_what_they_name_and_nothing_else():
    rows = {row.key: row.experiment for row in logic_rows() if row.group == "ablations"}
    plain = rows.pop("options-none")
    changes = {
        "not-drawn": {"copy_steps": 0, "drawn_steps": 0},
        "two-rounds": {"drawn_rounds": 2},
        "two-draws": {"draws": 2},
        "nothing-hidden": {"hidden_tokens": 0.0},
        "sure": {"drawn_sharpness": 1.0},
        "not-copied": {"copy_steps": 0},
        "no-start": {"start_steps": 0},
        "lean-1": {"random_lean": 1.0, "start_lean": 1.0},
    }
    assert rows.keys() == changes.keys() | {"together"}
    for key, change in changes.items():
        assert rows[key] == dataclasses.replace(plain, training=dataclasses.replace(plain.training, **change)) != plain
    together = rows["together"]
    assert needs_pointer(together.training) is None
    assert together.encoder.hard_share == 0


def test_a_row_by_its_name_or_all_with_a_part_of_it():
    assert [row.key for row in rows_of("listops", "lstm")] == ["lstm"]
    assert [row.key for row in rows_of("listops", "slots-")] == ["slots-8", "slots-12", "slots-32"]


def test_an_unknown_table_or_row_is_refused():
    with pytest.raises(InputError, match="'table9' is no table: there are listops"):
        rows_of("table9")
    with pytest.raises(InputError, match="--only turtles: no row of listops"):
        rows_of("listops", "turtles")


def test_missing_runs_are_trained_once_and_first_seeds_come_first(tmp_path, tiny):
    rows = [Row("one", "One", tiny, (0, 1)), Row("two", "Two", tiny, (0,))]
    results = tmp_path / "results"
    assert [(row.key, seed) for row, seed in missing(rows, results)] == [("one", 0), ("two", 0), ("one", 1)]
    path = run_one(rows[0], 1, results, tmp_path / "runs", Silent())
    assert path == results / "one-seed1.json"
    (result,) = rows[0].results(results)
    assert result["seed"] == result["config"]["training"]["seed"] == 1
    assert [(row.key, seed) for row, seed in missing(rows, results)] == [("one", 0), ("two", 0)]


def test_a_box_of_time_is_no_former_setting(tmp_path, monkeypatch):
    row = next(row for row in logic_rows() if row.key == "ordered-memory-B")
    asked = []
    monkeypatch.setattr(plan, "train", lambda experiment, *_: asked.append(experiment))
    monkeypatch.setattr(plan, "publish", lambda *_, **__: tmp_path)
    run_one(row, 0, tmp_path, tmp_path, Silent(), budget="9s")
    assert asked[0].training.budget == "9s"
    assert not row.has_former_settings({"config": asked[0].to_dict(), "seed": 0})
    former = dataclasses.replace(asked[0], training=dataclasses.replace(asked[0].training, random_lean=1.0))
    assert row.has_former_settings({"config": former.to_dict(), "seed": 0})


def test_what_was_trained_before_the_preset_changed_is_told_and_trained_again_when_asked(tmp_path, tiny):
    rows = [Row("one", "One", tiny, (0, 1)), Row("two", "Two", tiny)]
    results, runs = tmp_path / "results", tmp_path / "runs"
    run_one(rows[0], 0, results, runs, Silent())
    longer = dataclasses.replace(tiny, training=dataclasses.replace(tiny.training, epochs=tiny.training.epochs + 1))
    changed = [Row("one", "One", longer, (0, 1)), rows[1]]
    assert rows[0].states(results) == {0: "done", 1: "not run"}
    assert changed[0].states(results) == {0: "done, former settings", 1: "not run"}
    assert [(row.key, seed) for row, seed in missing(changed, results)] == [("two", 0), ("one", 1)]
    again = missing(changed, results, former=True)
    assert [(row.key, seed) for row, seed in again] == [("one", 0), ("two", 0), ("one", 1)]
    before = (results / "one-seed0.json").read_bytes()
    with pytest.raises(InputError, match="one-seed0 has a run that was begun before the preset changed: move it away"):
        run_one(changed[0], 0, results, runs, Silent())
    assert (results / "one-seed0.json").read_bytes() == before
    assert changed[0].title_of(changed[0].results(results)) == "One, former settings"
    run_one(changed[0], 1, results, runs, Silent())
    assert changed[0].title_of(changed[0].results(results)) == "One, former settings of seed 0"
    run_one(changed[0], 0, results, tmp_path / "others", Silent())
    assert changed[0].states(results)[0] == "done"
    assert changed[0].title_of(changed[0].results(results)) == "One"
