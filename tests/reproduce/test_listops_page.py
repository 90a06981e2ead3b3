"""The page about ListOps: rendered from results, beside what is published, and honest about what was not run."""

import json
from pathlib import Path

from ordered_memory.reproduce.listops_page import page
from ordered_memory.reproduce.plan import listops_rows
from ordered_memory.reproduce.runs import NOTHING

ROOT = Path(__file__).parents[2]


def result(accuracy: float, f1: float | None, seed: int) -> dict:
    figures = {"accuracy": accuracy, "f1": f1}
    return {
        "seed": seed,
        "test": {**figures, "buckets": {"1-7": figures, "8-25": figures}},
        "position": {"seconds": 100.0 * (seed + 1)},
        "cores": 2,
        "commit": "abc",
    }


def test_figures_stand_beside_the_published_ones(tmp_path):
    for seed, accuracy in ((0, 0.999), (1, 0.997)):
        (tmp_path / f"ordered-memory-seed{seed}.json").write_text(json.dumps(result(accuracy, 1.0, seed)))
    text = page(tmp_path)
    assert "| Ordered Memory | 99.97±0.014 | 99.80±0.14 | 100 | 100.00±0.00 | 0 1 | 2m30s | 2 | abc |" in text
    assert (
        f"| LSTM | 71.5±1.5 | not run | {NOTHING} | not run | {NOTHING} | {NOTHING} | {NOTHING} | {NOTHING} |" in text
    )
    assert "| Ordered Memory | 99.80±0.14 | 99.80±0.14 |" in text


def test_longer_expressions_stand_beside_the_published_ones(tmp_path):
    tests = {"200-300": {"soft": {"accuracy": 0.5}, "hard": {"accuracy": 0.995}}, "2,000": {"hard": {"accuracy": 0.25}}}
    measured = {"model": "ordered-memory", "seed": 3, "tests": tests}
    (tmp_path / "generalisation-ordered-memory-seed3.json").write_text(json.dumps(measured))
    text = page(tmp_path)
    assert f"| ordered-memory, seed 3, soft pointer | 50.0 | {NOTHING} |" in text
    assert "| ordered-memory, seed 3, hard pointer | 99.5 | 25.0 |" in text
    assert f"| Ordered Memory, 21 slots, published | 99.55 | {NOTHING} |" in text
    assert "of 2,000 tokens 300" in text


def test_the_page_is_what_the_results_say():
    assert (ROOT / "docs" / "listops.md").read_text(encoding="utf-8") == page(ROOT / "results" / "listops")


def test_every_result_belongs_to_a_row():
    known = {f"{row.key}-seed{seed}" for row in listops_rows() for seed in row.seeds}
    for path in (ROOT / "results" / "listops").glob("*.json"):
        assert path.stem in known or path.stem.startswith("generalisation-")
