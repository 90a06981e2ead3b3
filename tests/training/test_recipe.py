"""The recipe of preset `listops` from nothing, for its first minutes: the trees come before the arithmetic."""

import json

import pytest

from ordered_memory.cli import main


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_first_minutes_find_the_trees(tmp_path):
    run = tmp_path / "run"
    words = f"train listops --seed 1 --evaluate-every 250 --stop-at 0.6 --out {run} --json"
    assert main(words.split()) == 0
    result = json.loads((run / "result.json").read_text())
    assert result["position"]["step"] <= 1_250
    assert result["validation"]["accuracy"] > 0.6
    assert result["validation"]["f1"] > 0.8
