"""Accuracy by operator: the expressions are what they should be, and a model that knows one operator shows it."""

from types import SimpleNamespace

import numpy as np

from ordered_memory.classifier import Classifier
from ordered_memory.config import LSTMConfig
from ordered_memory.reproduce import operators
from ordered_memory.reproduce.operators import COUNT, by_operator, flat_expressions, operators_section
from ordered_memory.tasks.listops import VOCABULARY, ListOpsConfig, evaluate


def test_flat_expressions_have_one_operator_and_their_value():
    for example in flat_expressions("MED", 4, 50):
        (tokens,) = example.sentences
        assert (tokens[0], tokens[-1], len(tokens)) == ("[MED", "]", 6)
        assert example.label == str(evaluate(tokens))
    assert flat_expressions("SM", 3) == flat_expressions("SM", 3)


def test_a_model_that_knows_one_operator_only(monkeypatch):
    def knows_max(_model, examples, _bucket):
        answers = (str(max(map(int, example.sentences[0][1:-1]))) for example in examples)
        return SimpleNamespace(predictions=tuple(answers))

    monkeypatch.setattr(operators, "measure", knows_max)
    data = ListOpsConfig(operators=("MAX", "MIN"))
    model = Classifier(VOCABULARY, tuple("0123456789"), "lstm", LSTMConfig(hidden_size=2))
    accuracy = by_operator(model, data)
    assert list(accuracy) == [(name, count) for name in ("MAX", "MIN") for count in (2, 3, 4, 5)]
    assert all(accuracy["MAX", count] == 1 for count in (2, 3, 4, 5))
    # The least of some digits is the greatest as well if all are equal.
    equal = [np.mean([len(set(e.sentences[0][1:-1])) == 1 for e in flat_expressions("MIN", n)]) for n in (2, 3, 4, 5)]
    assert [accuracy["MIN", count] for count in (2, 3, 4, 5)] == equal
    assert COUNT >= 100


def test_other_tasks_have_no_such_section():
    assert operators_section([SimpleNamespace(experiment=SimpleNamespace(data=object()))]) == ""
