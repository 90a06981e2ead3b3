"""Finished runs: what is chosen from them, and what may stand in one table."""

import json
import shutil
from pathlib import Path

import pytest

from ordered_memory.errors import InputError
from ordered_memory.reproduce.runs import disagreements, easy_to_draw, held_out, load_runs, mistakes, samples, table
from ordered_memory.tasks import Example

from .conftest import Demo, other_data


def test_the_mistakes_are_those_that_the_run_counted(demo: Demo) -> None:
    for run in load_runs([demo.folder / "ordered-memory", demo.folder / "lstm"]):
        wrong = mistakes(run, held_out(run), 10_000)
        test = run.result["test"]
        assert len(wrong) == round(test["n"] * (1 - test["accuracy"])) > 3
        assert not any(sample.is_right for sample in wrong)
        assert [sample.example for sample in mistakes(run, held_out(run), 3)] == [
            sample.example for sample in wrong[:3]
        ]


def test_disagreements_are_all_trees_that_are_not_gold(demo: Demo) -> None:
    (run,) = load_runs([demo.folder / "ordered-memory"])
    examples = easy_to_draw(held_out(run))
    differing = {sample.example.sentences for sample in disagreements(run, examples, 10_000)}
    for sample in samples(run, examples):
        assert (sample.gold == sample.prediction.tree) == (sample.example.sentences not in differing)
        assert len(sample.missed) == len(sample.invented), "both trees are binary"


def test_examples_to_draw_are_of_fitting_length_or_at_least_not_long() -> None:
    def some(*lengths: int) -> list[Example]:
        return [Example((("1",) * length,), "1") for length in lengths]

    assert easy_to_draw(some(7, 8, 30, 16, 17)) == some(8, 16)
    assert easy_to_draw(some(3, 41, 40)) == some(3, 40)


def test_runs_of_different_data_do_not_share_a_table(demo: Demo, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(demo.folder / "ordered-memory", other)
    (other / "config.json").write_text(json.dumps(other_data().to_dict()))
    with pytest.raises(InputError, match=r"other: its data is not that of .*lstm \(.* is .*, not .*\)"):
        load_runs([demo.folder / "lstm", other])


def test_a_run_that_is_named_twice_is_refused(demo: Demo) -> None:
    with pytest.raises(InputError, match="lstm: it is named twice"):
        load_runs([demo.folder / "lstm", demo.folder / "ordered-memory" / ".." / "lstm"])


def test_the_table_ends_with_the_floors(demo: Demo) -> None:
    rows = table(load_runs([demo.folder / "ordered-memory", demo.folder / "lstm"]))
    names = ["Ordered Memory", "LSTM", "Majority class", "Left trees", "Right trees", "Balanced trees", "Random trees"]
    assert [row.name for row in rows] == names
    assert [row.is_floor for row in rows] == [False] * 2 + [True] * 5
    assert rows[1].f1 is None
    assert rows[2].accuracy == demo.answer["lstm"]["majority"]
