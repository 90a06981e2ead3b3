"""Accuracy and F1: against a slow, obvious computation, one example at a time."""

import dataclasses
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch

from ordered_memory.classifier import Classifier
from ordered_memory.config import ClassifierConfig, LSTMConfig, OrderedMemoryConfig
from ordered_memory.errors import InputError
from ordered_memory.tasks import Example
from ordered_memory.tasks.listops import VOCABULARY, ListOps, ListOpsConfig
from ordered_memory.tasks.logic import Logic, LogicConfig
from ordered_memory.training.batching import Dataset
from ordered_memory.training.evaluation import evaluate, f1_of, trivial_f1
from ordered_memory.trees import balanced, left_branching, right_branching, without_tokens

TASK = ListOps(ListOpsConfig(pool_size=150, test_size=10, validation_size=10, max_depth=4, train_max_length=30))


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return TASK.splits()["train"]


def make(model="ordered-memory") -> Classifier:
    torch.manual_seed(0)
    encoder = (
        OrderedMemoryConfig(hidden_size=8, num_slots=3) if model == "ordered-memory" else LSTMConfig(hidden_size=8)
    )
    return Classifier(VOCABULARY, TASK.labels, model, encoder, ClassifierConfig(embedding_size=8)).double()


def slow_f1(pairs, root: bool) -> float | None:
    """F1 of (gold spans, found spans, length), each counted as a bag."""
    matched = gold_count = found_count = 0
    for gold, found, length in pairs:
        bags = [
            Counter(span for span in map(tuple, spans.tolist()) if root or span != (0, length))
            for spans in (gold, found)
        ]
        matched += (bags[0] & bags[1]).total()
        gold_count += bags[0].total()
        found_count += bags[1].total()
    return 2 * matched / (gold_count + found_count) if gold_count + found_count else None


class TestFigures:
    @pytest.mark.parametrize("name", ["ordered-memory", "lstm"])
    def test_they_agree_with_one_example_at_a_time(self, examples, name):
        model = make(name)
        found = evaluate(model, examples, TASK.bucket)
        predictions = [model.predict(example.sentences[0]) for example in examples]
        groups: dict[str, list[int]] = {"all": list(range(len(examples)))}
        for index, example in enumerate(examples):
            groups.setdefault(TASK.bucket(example), []).append(index)
        assert len(groups) > 3
        assert set(found.buckets) | {"all"} == set(groups)
        for bucket, indices in groups.items():
            figures = found if bucket == "all" else found.buckets[bucket]
            right = [predictions[index].label == examples[index].label for index in indices]
            assert figures.n == len(indices)
            assert figures.accuracy == pytest.approx(sum(right) / len(right))
            for root, f1 in ((True, figures.f1), (False, figures.f1_without_root)):
                if name == "lstm":
                    assert f1 is None
                    continue
                pairs = [
                    (examples[index].trees[0].spans, predictions[index].tree.spans, len(examples[index].sentences[0]))
                    for index in indices
                ]
                assert f1 == pytest.approx(slow_f1(pairs, root))
        assert found.predictions == tuple(prediction.label for prediction in predictions)
        loss = -sum(
            math.log(prediction.probabilities[example.label])
            for prediction, example in zip(predictions, examples, strict=True)
        )
        assert found.loss == pytest.approx(loss / len(examples))

    def test_the_trees_are_those_of_predict(self, examples):
        model = make()
        found = evaluate(model, examples[:20], TASK.bucket)
        for example, (spans,) in zip(examples, found.spans, strict=False):
            np.testing.assert_array_equal(spans, model.predict(example.sentences[0]).tree.spans)

    def test_perfect_answers_give_ones(self, examples, monkeypatch):
        """A model that parses as the gold trees do."""
        model = make()
        gold = {example.sentences[0]: example for example in examples}
        parse = model.parse

        def oracle(batch):
            parsed = parse(batch)
            for row, length in enumerate(batch.lengths.tolist()):
                tokens = tuple(VOCABULARY.tokens[number - 1] for number in batch.tokens[:length, row].tolist())
                parsed.logits[row] = torch.eye(10)[int(gold[tokens].label)]
                parsed.spans[row] = gold[tokens].trees[0].spans
            return parsed

        monkeypatch.setattr(model, "parse", oracle)
        found = evaluate(model, examples, TASK.bucket)
        assert (found.accuracy, found.f1, found.f1_without_root) == (1.0, 1.0, 1.0)

    def test_buckets_go_from_short_to_long(self, examples):
        names = list(evaluate(make("lstm"), examples[::-1], TASK.bucket).buckets)
        assert names == ["1-7", "8-25", "26-50"]

    def test_a_bucket_of_lone_tokens_has_no_f1(self):
        lone = Example((("7",),), "7", (left_branching(["7"]),))
        longer = Example((("7", "8", "9"),), "7", (left_branching(["7", "8", "9"]),))
        found = evaluate(make(), [lone, longer], lambda example: str(len(example.sentences[0])))
        assert (found.buckets["1"].f1, found.buckets["1"].f1_without_root) == (None, None)
        assert found.f1 == found.buckets["3"].f1

    def test_examples_without_gold_trees_count_for_accuracy_only(self, examples):
        bare = [Example(example.sentences, example.label) for example in examples[:30]]
        mixed = evaluate(make(), examples[:30] + bare, TASK.bucket)
        assert mixed.n == 60
        assert mixed.f1 == evaluate(make(), examples[:30], TASK.bucket).f1
        assert evaluate(make(), bare, TASK.bucket).f1 is None

    def test_to_dict_is_plain_json(self, examples):
        values = evaluate(make(), examples[:30], TASK.bucket).to_dict()
        again = json.loads(json.dumps(values, allow_nan=False))
        assert again.keys() == {"n", "accuracy", "f1", "f1_without_root", "f1_words", "loss", "seconds", "buckets"}
        assert sum(bucket["n"] for bucket in again["buckets"].values()) == again["n"] == 30


class TestManners:
    @pytest.mark.parametrize("training", [True, False])
    def test_the_model_is_left_as_it_was(self, examples, training):
        model = make().train(training)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        evaluate(model, examples[:5], TASK.bucket)
        assert model.training is training
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())

    def test_no_random_number_is_drawn(self, examples):
        model = make().train()
        state = torch.get_rng_state()
        evaluate(model, examples[:5], TASK.bucket)
        assert torch.equal(torch.get_rng_state(), state)

    def test_progress_is_told_of_every_example(self, examples):
        told = []
        evaluate(make("lstm"), examples, TASK.bucket, progress=told.append)
        assert sum(told) == len(examples)

    def test_an_encoded_dataset_saves_the_encoding(self, examples):
        model = make("lstm")
        plain = evaluate(model, examples, TASK.bucket).to_dict()
        encoded = evaluate(model, examples, TASK.bucket, dataset=Dataset.encode(examples, model)).to_dict()
        assert {**plain, "seconds": 0} == {**encoded, "seconds": 0}

    def test_options_reach_the_encoder(self, examples):
        model = make()
        soft, hard = (evaluate(model, examples, TASK.bucket, pointer=pointer) for pointer in ("soft", "hard"))
        assert hard.loss != soft.loss
        batch = model.eval().collate([VOCABULARY.encode(examples[0].sentences[0])])
        assert model.parse(batch, num_slots=7).pointer.shape[-1] == 7

    def test_no_examples_are_refused(self):
        with pytest.raises(InputError, match="there are no examples to evaluate on"):
            evaluate(make("lstm"), [], TASK.bucket)


class TestFloors:
    def test_f1_of_trees_that_look_at_nothing(self, examples):
        floors = trivial_f1(examples)
        assert list(floors) == ["left", "right", "balanced", "random"]
        for name, make_tree in (("left", left_branching), ("right", right_branching), ("balanced", balanced)):
            pairs = [
                (example.trees[0].spans, make_tree(example.sentences[0]).spans, len(example.sentences[0]))
                for example in examples
            ]
            assert floors[name] == pytest.approx((slow_f1(pairs, True), slow_f1(pairs, False)))

    def test_random_trees_follow_the_seed(self, examples):
        assert trivial_f1(examples, seed=1) == trivial_f1(examples, seed=1)
        assert trivial_f1(examples, seed=1)["random"] != trivial_f1(examples, seed=2)["random"]

    def test_without_gold_trees_there_is_no_floor(self, examples):
        assert trivial_f1([Example(example.sentences, example.label) for example in examples]) == {}


class TestPairs:
    LOGIC = Logic(LogicConfig(source="generated", pairs=300))

    def make(self) -> Classifier:
        torch.manual_seed(0)
        encoder, sizes = OrderedMemoryConfig(hidden_size=8, num_slots=4), ClassifierConfig(embedding_size=8)
        task = self.LOGIC
        return Classifier(task.vocabulary, task.labels, "ordered-memory", encoder, sizes, sentences=2).double()

    def test_figures_agree_with_one_pair_at_a_time(self):
        """Trees of both sentences count, with their brackets and over the words alone."""
        model, examples = self.make(), self.LOGIC.splits()["test"]
        found = evaluate(model, examples, self.LOGIC.bucket, not_words=self.LOGIC.not_words)
        predictions = [model.predict(*example.sentences) for example in examples]
        assert found.predictions == tuple(prediction.label for prediction in predictions)
        groups = {name: [] for name in found.buckets}
        for place, example in enumerate(examples):
            groups[self.LOGIC.bucket(example)].append(place)
        for figures, members in [
            (found, range(len(examples))),
            *((found.buckets[name], groups[name]) for name in groups),
        ]:
            trees = [
                (gold, sentence.tree)
                for place in members
                for gold, sentence in zip(examples[place].trees, predictions[place].sentences, strict=True)
            ]
            words = [tuple(without_tokens(tree, "()") for tree in both) for both in trees]
            for pairs, root, f1 in (
                (trees, True, figures.f1),
                (trees, False, figures.f1_without_root),
                (words, True, figures.f1_words),
            ):
                expected = slow_f1([(gold.spans, guess.spans, len(gold)) for gold, guess in pairs], root)
                assert f1 == (None if expected is None else pytest.approx(expected))

    def test_floors_over_words(self):
        examples = self.LOGIC.splits()["test"]
        floors = trivial_f1(examples, not_words=self.LOGIC.not_words)
        words = Logic(LogicConfig(source="generated", pairs=300, brackets=False)).splits()["test"]
        assert floors == trivial_f1(words)
        assert floors["left"] != trivial_f1(examples)["left"]


def test_f1_of_trees(examples):
    gold = [tuple(tree.spans for tree in example.trees) for example in examples]
    assert f1_of(examples, gold) == 1
    left = [tuple(left_branching(tree.tokens).spans for tree in example.trees) for example in examples]
    assert f1_of(examples, left) == pytest.approx(trivial_f1(examples)["left"][0])
    assert f1_of([dataclasses.replace(example, trees=None) for example in examples], gold) is None
