"""The page about logical inference: Table 1 from results, beside what is published, honest about what was not run."""

import json
from pathlib import Path
from typing import Any

from ordered_memory.reproduce.logic_page import page, summary
from ordered_memory.reproduce.plan import logic_rows
from ordered_memory.reproduce.runs import NOTHING
from tests.conftest import ROOT

FLOORS = {"left": [0.31, 0.2], "random": [0.25, 0.1]}
WORD_FLOORS = {"left": [0.52, 0.4], "random": [0.45, 0.3]}


def result(accuracy: float, f1: float | None = None, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """A run; an example of n operations is n thousandths harder, and words are easier to parse than tokens."""
    words = None if f1 is None else f1 + 0.05
    buckets = {str(number): {"accuracy": accuracy - number / 1000, "f1": f1, "f1_words": words} for number in range(13)}
    return {
        "seed": seed,
        "test": {"accuracy": accuracy, "f1": f1, "f1_words": words, "buckets": buckets},
        "hard_pointer": {},
        "extra_tests": {},
        "trivial_f1": FLOORS,
        "trivial_f1_words": WORD_FLOORS,
        "parameters": 448_011,
        "position": {"seconds": 100.0 * (seed + 1)},
        "cores": 2,
        "commit": "abc",
        "config": {"training": {"budget": None}, "data": {"test_reading": "longer", "source": "files"}},
        **changes,
    }


def write(folder: Path, key: str, result: dict[str, Any]) -> None:
    """Trained as its row is planned, but for the settings that it has."""
    (row,) = [row for row in logic_rows() if row.key == key]
    config = row.run(result["seed"]).to_dict()
    result = result | {"config": config | {part: config[part] | new for part, new in result["config"].items()}}
    (folder / f"{key}-seed{result['seed']}.json").write_text(json.dumps(result))


def line(text: str, title: str, section: str) -> list[str]:
    """The cells of a table's line under a heading."""
    part = text.split(f"## {section}")[1].split("\n## ")[0]
    (found,) = [row for row in part.splitlines() if row.startswith(f"| {title} |")]
    return found.strip("| ").split(" | ")[1:]


def test_columns_of_operations_stand_beside_the_published_ones(tmp_path: Path) -> None:
    write(tmp_path, "ordered-memory", result(0.99, 0.8, seed=0))
    write(tmp_path, "ordered-memory", result(0.97, 0.9, seed=2))
    text = page(tmp_path)
    cells = line(text, "Ordered Memory", "Table 1")
    assert cells[:2] == ["97.3±1.4 (98±0.0)", "97.2±1.4 (97±0.4)"]
    assert cells[5:] == ["96.8±1.4 (92±1.1)", "not run (94)", "not run (91)", "not run (81)"]
    assert line(text, "LSTM", "Table 1")[0] == "not run (88)"
    assert line(text, "RRNet", "Table 1")[5:] == ["not run (71)", NOTHING, NOTHING, NOTHING]
    assert line(text, "Ordered Memory", "The runs") == [
        "files",
        "448,011",
        "0 2 (of 3)",
        "validation",
        "3m20s",
        "2",
        "abc",
    ]


def test_a_hard_pointer_has_a_line_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, "ordered-memory", result(0.97, 0.8, hard_pointer={"test": result(0.99)["test"]}))
    write(tmp_path, "ordered-memory-B", result(0.92, 0.8, hard_pointer={"test": result(0.95)["test"]}))
    write(tmp_path, "lstm", result(0.9))
    text = page(tmp_path)
    assert line(text, "Ordered Memory", "Table 1")[::7] == ["96.3 (98±0.0)", "92.0 (91)"]
    assert line(text, "Ordered Memory, hard pointer at test", "Table 1")[::7] == ["98.3 (98±0.0)", "95.0 (91)"]
    assert "LSTM, hard pointer" not in text


def test_the_faithful_transformer_stands_beside_the_same_published_row(tmp_path: Path) -> None:
    write(tmp_path, "transformer-paper", result(0.517))
    text = page(tmp_path)
    assert line(text, "Transformer, published setting", "Table 1")[0] == "51.0 (51)"
    assert line(text, "Transformer", "Table 1")[0] == "not run (51)"


def test_a_split_is_told_in_three_readings_whichever_stood_first(tmp_path: Path) -> None:
    others = {"longer": {"accuracy": 0.84}, "held-out": {"accuracy": 0.93}, "every": {"accuracy": 0.5}}
    config = {"training": {"budget": None}, "data": {"test_reading": "all", "source": "generated"}}
    write(tmp_path, "lstm-B", result(0.88, extra_tests=others, config=config))
    text = page(tmp_path)
    assert line(text, "LSTM", "Table 1")[6:] == ["not run (84)", "84.0 (60)", "not run (59)"]
    readings = line(text, "LSTM", "Systematic generalisation")
    assert readings == ["not run"] * 3 + ["84.0", "88.0", "93.0"] + ["not run"] * 3
    assert line(text, "LSTM, split B", "The runs")[0] == "generated"


def test_a_reading_without_pairs_is_a_dash(tmp_path: Path) -> None:
    write(tmp_path, "lstm-A", result(0.88))
    assert line(page(tmp_path), "LSTM", "Systematic generalisation")[:3] == ["88.0", NOTHING, NOTHING]


def test_f1_is_told_with_brackets_and_without_beside_the_trivial_trees(tmp_path: Path) -> None:
    write(tmp_path, "ordered-memory", result(0.99, 0.8))
    write(tmp_path, "lstm", result(0.9))
    part = page(tmp_path).split("## F1 of the induced trees")[1].split("\n## ")[0]
    with_brackets, words = part.split("Over words:")
    assert f"| Ordered Memory | {' | '.join(['80.0'] * 13)} |" in with_brackets
    assert f"| left trees | {' | '.join([NOTHING] * 12)} | 31.0 |" in with_brackets
    assert f"| Ordered Memory | {' | '.join(['85.0'] * 13)} |" in words
    assert f"| random trees | {' | '.join([NOTHING] * 12)} | 45.0 |" in words
    assert "LSTM" not in part


def test_structures_are_told_of_each_run(tmp_path: Path) -> None:
    write(tmp_path, "lstm", result(0.8))
    assert "not run" in page(tmp_path).split("## Which structures")[1].split("\n## ")[0]
    counts = dict.fromkeys(("gold", "left", "mixed", "composed", "other"), 0)
    longer = counts | {"left": 1, "other": 3}
    write(tmp_path, "ordered-memory", result(0.9, 0.8, structures={"trained": counts | {"gold": 7}, "longer": longer}))
    lines = page(tmp_path).split("## Which structures")[1].split("\n## ")[0].strip().splitlines()[-2:]
    assert [row.strip("| ").split(" | ") for row in lines] == [
        ["Ordered Memory, seed 0", "trained", "100.0", "0.0", "0.0", "0.0", "0.0"],
        ["Ordered Memory, seed 0", "longer", "0.0", "25.0", "0.0", "0.0", "75.0"],
    ]


def test_few_drawn_pairs_leave_a_dash(tmp_path: Path) -> None:
    short = result(0.9)
    del short["test"]["buckets"]["11"]
    write(tmp_path, "lstm", short)
    assert line(page(tmp_path), "LSTM", "Table 1")[4] == f"{NOTHING} (71)"


def test_the_page_is_what_the_results_say() -> None:
    assert (ROOT / "docs" / "logic-results.md").read_text(encoding="utf-8") == page(ROOT / "results" / "logic")


def test_every_result_belongs_to_a_row() -> None:
    known = {f"{row.key}-seed{seed}" for row in logic_rows() for seed in row.seeds}
    assert {path.stem for path in (ROOT / "results" / "logic").glob("*.json")} <= known


def test_the_summary_has_the_main_rows(tmp_path: Path) -> None:
    write(tmp_path, "ordered-memory", result(0.99, 0.8))
    write(tmp_path, "ordered-memory", result(0.97, 0.9, seed=1))
    lines = [row.strip("| ").split(" | ") for row in summary(tmp_path).splitlines() if row.startswith("| ")]
    assert lines[0][1:] == ["7", "8", "9", "10", "11", "12", "F1 of words"]
    assert lines[2][::7] == ["Ordered Memory, published", "84.3±14.4"]
    assert lines[3][:2] == ["Ordered Memory", "97.3±1.4"]
    assert lines[3][-1] == "90.0±7.1"
    assert lines[4][1:] == ["not run"] * 7
    assert "Ordered Memory 2m30s on 2 threads, seed 0 1" in summary(tmp_path)


def test_ways_to_find_the_trees(tmp_path: Path) -> None:
    counts = {"gold": 3, "left": 0, "mixed": 1, "composed": 0, "other": 0}
    hard = {"test": {"accuracy": 0.96}}
    write(tmp_path, "lean-1", result(0.95, 0.8, structures={"longer": counts}, hard_pointer=hard))
    section = "What finding the trees hangs on"
    text = page(tmp_path)
    assert line(text, "trees that do not lean", section) == [
        *("95.0", "96.0", "85.0"),
        *("75.0", "0.0", "25.0", "0.0", "0.0"),
    ]
    assert line(text, "all learn together, from soft steps", section) == ["not run"] * 8
    assert line(text, "trees that do not lean", "The runs")[0] == "files"


def test_a_run_of_former_settings_is_marked(tmp_path: Path) -> None:
    config = {"training": {"budget": None, "scouts": 3}, "data": {"test_reading": "longer", "source": "files"}}
    write(tmp_path, "ordered-memory", result(0.99, 0.8, config=config))
    assert line(page(tmp_path), "Ordered Memory, former settings", "Table 1")
    assert "| Ordered Memory, former settings |" in summary(tmp_path)


def test_a_split_of_former_settings_is_named(tmp_path: Path) -> None:
    config = {"training": {"budget": None, "scouts": 3}, "data": {"test_reading": "longer", "source": "files"}}
    write(tmp_path, "ordered-memory-B", result(0.9, 0.8, config=config))
    text = page(tmp_path)
    for part in ("Table 1", "Systematic generalisation"):
        assert line(text, "Ordered Memory; B by former settings", part)


def test_the_time_of_scouts_counts_in_runs_of_former_settings(tmp_path: Path) -> None:
    write(tmp_path, "ordered-memory", result(0.97, 0.8, seed=1, scouts=[{"seconds": 60.0}, {"seconds": 60.0}]))
    assert line(page(tmp_path), "Ordered Memory", "The runs")[4] == "5m20s"


def test_trees_on_the_way_are_told_where_they_were_kept(tmp_path: Path) -> None:
    section = "Trees on the way"
    write(tmp_path, "ordered-memory", result(0.97, 0.8, seed=1))
    assert page(tmp_path).split(f"## {section}")[1].split("\n## ")[0].rstrip().endswith("not run")
    written = [{"step": 5, "examples": 10, "f1": f1} for f1 in (0.875, 0.99, 1.0)]
    write(tmp_path, "ordered-memory", result(0.97, 0.8, position={"seconds": 1.0, "written": written}))
    write(tmp_path, "not-drawn", result(0.9, 0.8, position={"seconds": 1.0, "written": written[:1]}))
    text = page(tmp_path)
    assert line(text, "Ordered Memory, seed 0", section) == ["87.50", "99.00", "100.00"]
    assert line(text, "the trees of the first model, seed 0", section) == ["87.50", NOTHING, NOTHING]
    assert "Ordered Memory, seed 1" not in text.split(f"## {section}")[1]
