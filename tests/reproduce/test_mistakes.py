"""What a model gets wrong: counted from its answers and trees, and told on the page as it was counted."""

import dataclasses

import pytest

from ordered_memory import atomic
from ordered_memory.classifier import Classifier
from ordered_memory.config import OrderedMemoryConfig
from ordered_memory.reproduce.generalisation import TESTS
from ordered_memory.reproduce.mistakes import measure, section
from ordered_memory.tasks.listops import VOCABULARY, window


def test_a_model_that_knows_nothing_has_neither_answers_nor_trees():
    model = Classifier(VOCABULARY, tuple("0123456789"), "ordered-memory", OrderedMemoryConfig(4, 5), task="listops")
    sets = {"200-300": dataclasses.replace(TESTS["200-300"], size=20)}
    found = measure(model, [2, 9], ["200-300"], sets)
    assert [tuple(kind[:2]) for kind in found["operators"][:2]] == [("MIN", 2), ("MIN", 9)]
    entry = found["tests"]["200-300"]
    assert entry["n"] == 20
    assert entry["wrong"] > 10
    assert entry["wrong_with_right_tree"] == 0


def test_a_shipped_model_has_the_trees_and_fails_at_medians():
    model = Classifier.from_pretrained("listops")
    config = dataclasses.replace(TESTS["15 arguments"], size=40, min_length=100, max_length=200)
    found = measure(model, [3, 15], ["15 arguments"], {"15 arguments": config})
    shares = {(operator, count): share for operator, count, share in found["operators"]}
    assert min(shares["MIN", 15], shares["MAX", 15], shares["SM", 15], shares["MED", 3]) == 1
    assert shares["MED", 15] < 0.8
    entry = found["tests"]["15 arguments"]
    examples = window(config)
    wrong = sum(model.predict(*example.sentences, pointer="hard").label != example.label for example in examples)
    assert entry["wrong"] == wrong > 0
    assert entry["wrong_with_right_tree"] == pytest.approx(wrong, abs=1)


def test_the_page_tells_what_was_counted(tmp_path):
    assert section(tmp_path) == []
    record = {
        "model": "ordered-memory",
        "seed": 3,
        "operators": [["MED", 2, 1.0], ["MED", 15, 0.25]],
        "tests": {"deep": {"n": 9, "wrong": 4, "wrong_with_right_tree": 3}},
    }
    atomic.write_json(tmp_path / "mistakes-ordered-memory-paper-seed3.json", record)
    told, shown, _ = section(tmp_path)
    assert "Ordered Memory, published recipe, seed 3: 3 of 4 (deep)." in told
    assert "| Ordered Memory, published recipe, seed 3: MED | 100.0 | 25.0 |" in shown
