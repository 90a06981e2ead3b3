"""The list of models: each one is there, with words of its own."""

import json

from ordered_memory.encoders import ENCODERS
from ordered_memory.models import describe_models, models_table


def test_every_model_is_described_in_plain_values():
    models = describe_models()
    assert [model["name"] for model in models] == list(ENCODERS)
    assert len({model["summary"] for model in models}) == len(models)
    assert all(model["paper"] for model in models)
    assert json.loads(json.dumps(models)) == models


def test_what_trees_they_use():
    trees = {model["name"]: model["trees"] for model in describe_models()}
    assert {name for name, kind in trees.items() if kind == "gold"} == {"tree-rnn", "tree-lstm", "tree-cell"}
    assert {"ordered-memory", "on-lstm", "rrnet"} <= {name for name, kind in trees.items() if kind == "latent"}
    assert {"lstm", "transformer", "universal-transformer"} == {name for name, kind in trees.items() if kind == "none"}


def test_the_table_has_one_line_for_each():
    lines = models_table().splitlines()
    assert len(lines) == 1 + len(ENCODERS)
    for line, (name, encoder) in zip(lines[1:], ENCODERS.items(), strict=True):
        assert line.split()[:2] == [name, encoder.trees]
