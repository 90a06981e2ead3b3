"""The recipe of preset `listops` from nothing, for its first minutes: the trees come before the arithmetic."""

import dataclasses

import pytest

from ordered_memory.presets import preset
from ordered_memory.training.loop import train
from ordered_memory.training.progress import Silent


@pytest.mark.slow
def test_the_first_minutes_find_the_trees(tmp_path):
    ours = preset("listops")
    training = dataclasses.replace(ours.training, seed=1, evaluate_every=250, stop_at=0.6)
    result = train(dataclasses.replace(ours, training=training), tmp_path / "run", Silent())
    assert result["position"]["step"] <= 1_250
    assert result["validation"]["accuracy"] > 0.6
    assert result["validation"]["f1"] > 0.8
