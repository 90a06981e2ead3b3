"""The page about ListOps: rendered from results, beside what is published, and honest about what was not run."""

import json
from pathlib import Path

import pytest

from ordered_memory.reproduce import figures
from ordered_memory.reproduce.generalisation import LONGEST, load_measured, too_long
from ordered_memory.reproduce.listops_page import page, summary
from ordered_memory.reproduce.plan import SYSTEMS, listops_rows
from ordered_memory.reproduce.runs import NOTHING

ROOT = Path(__file__).parents[2]


def result(accuracy: float, f1: float | None, seed: int) -> dict:
    figures = {"accuracy": accuracy, "f1": f1, "n": 50}
    longer = {**figures, "accuracy": 0.0}
    return {
        "seed": seed,
        "test": {**figures, "buckets": {"1-7": figures, "8-25": figures, "51-100": longer, ">1000": longer}},
        "parameters": 448_011,
        "position": {"seconds": 100.0 * (seed + 1)},
        "trivial_f1": {"left": [0.125, 0.1], "random": [0.25, 0.2]},
        "cores": 2,
        "commit": "abc",
        "config": listops_rows()[0].run(seed).to_dict(),
        "curve": [{"seconds": 60.0 * step, "accuracy": accuracy * step / 3, "f1": f1} for step in range(4)],
    }


def test_figures_stand_beside_the_published_ones(tmp_path):
    for seed, accuracy in ((0, 0.999), (1, 0.997)):
        (tmp_path / f"ordered-memory-seed{seed}.json").write_text(json.dumps(result(accuracy, 1.0, seed)))
    text = page(tmp_path)
    assert (
        "| Ordered Memory | 99.97±0.014 | 99.80±0.14 | 99.80±0.14 | 100 | 100.00±0.00 | 448,011 | 0 1 (of 3) |" in text
    )
    assert f"| LSTM | 71.5±1.5 | not run | not run | {NOTHING} | not run | {' | '.join([NOTHING] * 6)} |" in text
    assert "| Ordered Memory | 99.80±0.14 | 99.80±0.14 |" in text
    assert "on the same test set: left 12.50, random 25.00." in text
    assert "| Ordered Memory, seed 0, 2 threads | 0s | 3m00s | 3m00s | 3m00s |" in text
    assert f"| Ordered Memory, seed 1, 2 threads | 0s | 3m00s | 3m00s | {NOTHING} |" in text


def test_it_tells_which_rows_come_up_to_the_published_ones(tmp_path):
    assert "published spread" not in page(tmp_path)
    for key, accuracy in (("gumbel-tree", 0.56), ("lstm", 0.6874), ("ordered-memory", 0.9991)):
        (tmp_path / f"{key}-seed0.json").write_text(json.dumps(result(accuracy, None, 0)))
    text = page(tmp_path)
    assert "within the published spread, or above it, for Gumbel Tree-LSTM." in text
    assert "It is further below the published mean for Ordered Memory by 0.06, LSTM by 2.8." in text


def test_a_run_from_before_the_preset_changed_says_so(tmp_path):
    then = result(0.5, 1.0, 0)
    then["config"]["training"]["budget"] = "10m"  # a time box is told otherwise
    (tmp_path / "ordered-memory-seed0.json").write_text(json.dumps(then))
    assert "former settings |" not in page(tmp_path)
    then["config"]["training"]["short_share"] = 0.25
    (tmp_path / "ordered-memory-seed0.json").write_text(json.dumps(then))
    assert "| Ordered Memory, former settings | 99.97±0.014 |" in page(tmp_path)


def test_the_hard_pointer_has_a_line_of_its_own(tmp_path):
    half = {"n": 50, "accuracy": 0.5, "f1": 0.25}
    buckets = dict.fromkeys(("1-7", "8-25", "51-100", ">1000"), half)
    hard = {"hard_pointer": {"test": {"accuracy": 0.9985, "f1": 0.75, "buckets": buckets}}}
    (tmp_path / "ordered-memory-seed0.json").write_text(json.dumps(result(0.5, 1.0, 0) | hard))
    (tmp_path / "lstm-seed0.json").write_text(json.dumps(result(0.5, None, 0) | {"hard_pointer": {}}))
    text = page(tmp_path)
    assert (
        "| Ordered Memory, hard pointer at test | 99.97±0.014 | 99.85 | 50.00 | 100 | 75.00 | 448,011 | 0 (of 3) |"
        in text
    )
    assert text.count("hard pointer at test") == 1
    assert (
        "| Ordered Memory, hard pointer | 50.00 | 50.00 | 50.00 | 50.00 |" in text
    )  # by length, where there are as many examples as it takes


def test_longer_expressions_stand_beside_the_published_ones(tmp_path):
    data = {"max_depth": 20, "max_arguments": 5, "min_length": 200, "max_length": 300}
    longer = data | {"min_length": 1_900, "max_length": 2_100}
    tests = {
        "200-300": {"data": data, "soft": {"accuracy": 0.5}, "hard": {"accuracy": 0.995}},
        "2,000": {"data": longer, "hard": {"accuracy": 0.25}},
        "10 arguments": {"data": data | {"max_arguments": 10}, "hard": {"accuracy": 0.125}},
    }
    measured = {"model": "ordered-memory", "seed": 3, "tests": tests}
    (tmp_path / "generalisation-ordered-memory-seed3.json").write_text(json.dumps(measured))
    text = page(tmp_path)
    assert "| Ordered Memory, seed 3, soft pointer | 50.0 | not measured | not measured |" in text
    assert "| Ordered Memory, seed 3, hard pointer | 99.5 | 25.0 | 12.5 |" in text
    line = figures.lengths(load_measured(tmp_path))["Ordered Memory, hard pointer"]
    assert (line.across, line.up) == ([250.0, 2000.0], [99.5, 25.0])
    assert f"| Ordered Memory, 21 slots, published | 99.55 | {NOTHING} | 84.15 |" in text
    assert "of 2,000 tokens 300" in text


def measured_on(model: str, key: str, seed: int, folder: Path, **accuracies: float) -> None:
    """A file of figures of two lengths: one of 200 to 300 tokens, one of 10,000 where the model is measured on it."""
    tests: dict = {"200-300": {name: {"accuracy": value} for name, value in accuracies.items()}}
    if not too_long(model, "10,000"):
        tests["10,000"] = tests["200-300"]
    values = {"model": model, "seed": seed, "tests": tests}
    (folder / f"generalisation-{key}-seed{seed}.json").write_text(json.dumps(values))


def test_every_system_has_a_row_and_a_line_beyond_the_training_data(tmp_path):
    pytest.importorskip("matplotlib")
    for seed, accuracy in ((0, 0.5), (1, 0.7)):
        measured_on("ordered-memory", "ordered-memory", seed, tmp_path, hard=accuracy, soft=0.25)
    measured_on("ordered-memory", "ordered-memory-paper", 0, tmp_path, hard=0.4)
    for model in SYSTEMS:
        measured_on(model, model, 0, tmp_path, none=0.125)
    text = page(tmp_path)
    assert "| Ordered Memory, seeds 0 1, hard pointer | 60.0±14.1 | 60.0±14.1 |" in text
    assert "| LSTM, seed 0 | 12.5 | 12.5 |" in text
    assert "| Transformer, seed 0 | 12.5 | not measured |" in text
    assert f"Gumbel Tree-LSTM above {LONGEST['gumbel-tree']:,}" in text
    assert "| Ordered Memory, 200-300 tokens | 99.55 | 25.00±0.00 | 60.00±14.14 |" in summary(tmp_path)

    lines = figures.lengths(load_measured(tmp_path))
    assert lines["Ordered Memory, hard pointer"].up == pytest.approx([60.0, 60.0])
    assert lines["Transformer"].across == [250.0]
    styles = {name: line.look["linestyle"] for name, line in lines.items()}
    assert styles["Ordered Memory, hard pointer"] == styles["LSTM"] == "-"
    assert styles["Ordered Memory, soft pointer"] == "--"
    assert styles["CRvNN, published"] == ":"
    looks = {(line.look["color"], line.look["marker"], line.look["linestyle"]) for line in lines.values()}
    assert len(looks) == len(lines)
    [drawn] = figures.draw([], load_measured(tmp_path), tmp_path, tmp_path / "images")
    assert drawn.name == figures.LENGTHS


def test_figures_are_drawn_of_what_there_is_and_always_the_same(tmp_path):
    pytest.importorskip("matplotlib")
    for key in ("ordered-memory", "size-1000-lstm", "size-10000-lstm"):
        (tmp_path / f"{key}-seed0.json").write_text(json.dumps(result(0.5, None, 0)))
    drawn = figures.draw(listops_rows(), {}, tmp_path, tmp_path / "images")
    assert [path.name for path in drawn] == [figures.CURVES, figures.SIZES]
    first = [path.read_bytes() for path in drawn]
    assert all(b"</svg>" in text for text in first)
    figures.draw(listops_rows(), {}, tmp_path, tmp_path / "images")
    assert [path.read_bytes() for path in drawn] == first
    [line] = figures.sizes(listops_rows(), tmp_path).values()
    assert (line.across, line.up) == ([1000.0, 10000.0], [50.0, 50.0])
    for path in drawn:
        assert f"(images/{path.name})" in page(tmp_path)


def test_the_page_is_what_the_results_say():
    assert (ROOT / "docs" / "listops.md").read_text(encoding="utf-8") == page(ROOT / "results" / "listops")


def test_every_result_belongs_to_a_row():
    known = {f"{row.key}-seed{seed}" for row in listops_rows() for seed in row.seeds}
    for path in (ROOT / "results" / "listops").glob("*.json"):
        assert path.stem in known or path.stem.startswith(("generalisation-", "mistakes-"))
