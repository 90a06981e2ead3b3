"""What the pages of results share."""

from pathlib import Path
from typing import Any

import pytest

from ordered_memory.reproduce.published import LISTOPS, LOGIC, LOGIC_COLUMNS, Figure
from ordered_memory.reproduce.runs import NOTHING
from ordered_memory.reproduce.tables import CIRCUMSTANCES, circumstances, mean_and_spread, published_figure, table


@pytest.mark.parametrize(
    ("values", "shown"),
    [([], NOTHING), ([None], NOTHING), ([0.5], "50.00"), ([0.5, None], "50.00"), ([0.4, 0.6], "50.00±14.14")],
)
def test_mean_and_spread(values: list[float | None], shown: str) -> None:
    assert mean_and_spread(values) == shown


def test_fewer_digits_of_mean_and_spread() -> None:
    assert mean_and_spread([0.4, 0.6], digits=1) == "50.0±14.1"


def test_a_table_has_as_many_cells_everywhere() -> None:
    lines = table(("", "one", "two"), [["a", "1", "2"]]).splitlines()
    assert lines == ["|  | one | two |", "| --- | ---: | ---: |", "| a | 1 | 2 |"]


def test_circumstances_of_several_runs_and_of_none() -> None:
    runs: list[dict[str, Any]] = [
        {
            "seed": seed,
            "parameters": 1_000,
            "position": {"seconds": 60.0 * seed},
            "cores": cores,
            "commit": commit,
            "config": {"training": {"budget": None}},
        }
        for seed, cores, commit in ((1, 2, "b"), (3, 1, None))
    ]
    # no mean of what differs in kind
    assert circumstances(runs) == ["1,000", "1 3", "validation", "3m00s / 1m00s", "1 / 2", f"b, {NOTHING}"]
    runs[1]["cores"] = 2
    assert circumstances(runs)[3:5] == ["2m00s", "2"]
    runs[1]["config"]["training"]["budget"] = "3m"
    assert circumstances(runs)[3] == "2m00s, boxed"
    parts = [{"step": 0, "commit": "a", "cores": 1}, {"step": 7, "commit": "b", "cores": 2}]
    runs[0]["position"]["parts"] = [*parts, {"step": 9, "commit": "a", "cores": 2}]
    assert circumstances(runs[:1])[4:] == ["1, then 2", "a, b"]  # and not what it ended with
    assert circumstances(runs[:1], planned=3)[1] == "1 (of 3)"
    assert circumstances([]) == [NOTHING] * len(CIRCUMSTANCES)


def test_published_figures_are_shown_as_printed() -> None:
    assert published_figure(None) == NOTHING
    assert str(Figure(98, 0.0, digits=0)) == "98±0.0"
    assert " ".join(map(str, LOGIC["ordered-memory"].values())) == "98±0.0 97±0.4 96±0.5 94±0.8 93±0.5 92±1.1 94 91 81"
    assert str(LISTOPS["ordered-memory"][0]) == "99.97±0.014"


def test_table_1_is_that_of_the_shared_file(shared: Path) -> None:
    """Every cell, by the row's first word or words."""
    names = {
        "lstm": "LSTM",
        "rrnet": "RRNet",
        "on-lstm": "ON-LSTM",
        "transformer": "Transformer",
        "universal-transformer": "Universal Transformer",
        "ordered-memory": "Ordered Memory (5 runs)",
        "ordered-memory-tree-rnn": "Ordered Memory, TreeRNN op as cell",
        "tree-lstm": "TreeLSTM (gold trees)",
        "tree-cell": "TreeCell (gold trees)",
        "tree-rnn": "TreeRNN (gold trees)",
    }
    text = (shared / "published.md").read_text(encoding="utf-8")
    part = text[text.index("## Table 1") : text.index("Splits")]
    found = {cells[0]: cells[1:] for line in part.splitlines() if (cells := line.strip("| ").split(" | "))[1:]}
    assert found.pop("model") == list(LOGIC_COLUMNS)
    del found["---"]
    for key, figures in LOGIC.items():
        shown = ["-" if (figure := figures.get(column)) is None else str(figure) for column in LOGIC_COLUMNS]
        assert found.pop(names[key]) == shown
    assert not found
