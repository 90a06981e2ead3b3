"""Trees that are written down: which they are, which steps learn along them, and that a kill does not change them."""

import numpy as np
import pytest
import torch

from ordered_memory.classifier import save_tensors
from ordered_memory.config import Experiment, TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.tasks.listops import ListOps
from ordered_memory.tasks.logic import Logic, LogicConfig
from ordered_memory.training import loop
from ordered_memory.training.batching import Dataset
from ordered_memory.training.loop import Interrupted, make_classifier, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position
from ordered_memory.training.turns import WRITTEN, WRITTEN_CELL, next_turn, writes_trees
from ordered_memory.training.written import WrittenTrees
from tests.training import Listener, everything_that_lasts, stopping_after, tiny
from tests.training.test_turns import PHASES, apart

# Nine steps of phases, as in test_turns, and then three along written trees, which are written anew after two.
WRITING = {**PHASES, "write_every": 2}


def listops() -> tuple:
    experiment = apart()
    task = ListOps(experiment.data)
    model = make_classifier(experiment, task)
    examples = task.splits()["train"]
    return model, examples, Dataset.encode(examples, model)


class TestWriting:
    def test_the_trees_of_a_hard_pointer(self):
        model, examples, dataset = listops()
        counted = []
        written = WrittenTrees.of(model, dataset, counted.append)
        assert sum(counted) == len(examples)
        order = np.random.default_rng(0).permutation(len(examples))[:7]
        batch = dataset.batch(order, model)
        model.eval()
        shown = written.show(batch, order).trees
        for one, parsed in zip(shown, model.parse(batch, pointer="hard").spans, strict=True):
            assert np.array_equal(one, parsed)

    def test_of_both_sentences_of_a_pair(self):
        experiment = Experiment(**{**vars(apart()), "task": "logic", "data": LogicConfig(pairs=60, source="generated")})
        task = Logic(experiment.data)
        model = make_classifier(experiment, task).eval()
        dataset = Dataset.encode(task.splits()["train"], model)
        written = WrittenTrees.of(model, dataset, lambda _: None)
        order = np.array([3, 0, 2])
        batch = written.show(dataset.batch(order, model), order)
        assert [len(spans) + 1 for spans in batch.trees] == batch.lengths.tolist()
        for shown, parsed in zip(batch.trees, model.parse(batch, pointer="hard").spans, strict=True):
            assert np.array_equal(shown, parsed)

    def test_training_goes_on_as_it_was(self):
        model, _, dataset = listops()
        for training in (True, False):
            model.train(training)
            WrittenTrees.of(model, dataset, lambda _: None)
            assert model.training == training

    def test_saved_and_read_again(self):
        model, _, dataset = listops()
        written = WrittenTrees.of(model, dataset, lambda _: None)
        again = WrittenTrees.from_tensors(written.tensors(), dataset, 1)
        assert np.array_equal(again.nodes, written.nodes)
        assert np.array_equal(again.ends, written.ends)

    def test_of_another_training_set_they_are_refused(self):
        model, examples, dataset = listops()
        tensors = WrittenTrees.of(model, dataset, lambda _: None).tensors()
        with pytest.raises(InputError, match="not those of this training set"):
            WrittenTrees.from_tensors(tensors, Dataset.encode(examples[1:], model), 1)
        with pytest.raises(InputError, match="have no 'ends'"):
            WrittenTrees.from_tensors({"nodes": tensors["nodes"]}, dataset, 1)


class TestSteps:
    def test_after_the_turns_all_steps_are_along_them(self):
        torch.manual_seed(0)
        config = TrainingConfig(**WRITING)
        turns = [next_turn(config, 0.7, step) for step in range(9, 1009)]
        assert set(turns) == {WRITTEN_CELL, WRITTEN}
        assert turns.count(WRITTEN_CELL) == pytest.approx(700, abs=50)

    def test_when_they_are_written(self):
        written = [step for step in range(50) if writes_trees(TrainingConfig(**WRITING), step)]
        assert written == [9, 11, 15, 23, 39]
        assert [step for step in range(50) if writes_trees(TrainingConfig(**WRITING, renew=True), step)] == [9]
        assert not any(writes_trees(TrainingConfig(**PHASES), step) for step in range(16))

    def test_it_needs_turns(self):
        with pytest.raises(InputError, match="write_every is set, and turns_steps is 0"):
            TrainingConfig(write_every=5)
        with pytest.raises(InputError, match="write_every is -1, and must be at least 0"):
            TrainingConfig(turns_steps=5, write_every=-1)
        with pytest.raises(InputError, match="renew is set, and write_every is 0: set both"):
            TrainingConfig(turns_steps=5, renew=True)
        with pytest.raises(InputError, match="seeking_batch_size is set, and there are no steps that seek trees"):
            TrainingConfig(seeking_batch_size=5)


class TestTraining:
    def test_who_learns_from_them(self, tmp_path, made, monkeypatch):
        """All in the steps that imitate, only the rest in the others, and both with the trees' batch."""
        seen, imitated, losses = [], [], loop.Classifier.losses
        monkeypatch.setattr(loop.Classifier, "losses", lambda self, batch: seen.append(batch) or losses(self, batch))
        moved, before = [], {}

        def after_step(_: Position) -> None:
            imitated.append(made.model.encoder.imitates)
            now = {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
            moved.append({".attention." in name for name in before if not torch.equal(before[name], now[name])})
            before.update(now)

        train(apart(**WRITING), tmp_path / "run", Listener(after_step))
        assert imitated[:9] == [False] * 2 + [True] + [False] * 6  # the one in which it starts
        assert [batch.trees is not None for batch in seen][9:] == [True] * 3
        for imitates, parts in zip(imitated[9:], moved[9:], strict=True):
            assert parts == ({True, False} if imitates else {False})
        assert set(imitated[9:]) == {True, False}

    def test_a_new_model_learns_along_the_trees_of_the_one_that_sought_them(self, tmp_path, monkeypatch):
        """From weights of its own, with no moments of the other's; its own trees are not written."""
        told, of, update = [], WrittenTrees.of.__func__, loop.update

        def written(cls, model, *others):
            told.append(("written", model.embedding.weight.sum().item()))
            return of(cls, model, *others)

        def watched(model, optimiser, batch, clip):
            told.append((len(optimiser.state) > 0, model.embedding.weight.sum().item()))
            return update(model, optimiser, batch, clip)

        monkeypatch.setattr(WrittenTrees, "of", classmethod(written))
        monkeypatch.setattr(loop, "update", watched)
        train(apart(**WRITING, renew=True), tmp_path / "run", Silent())
        kinds = [kind for kind, _ in told]
        assert kinds == [False, *[True] * 8, "written", False, True, True]
        assert told[9][1] != told[10][1]

    def test_weight_decay_begins_once_trees_are_found_and_spares_the_pointer(self, tmp_path, monkeypatch):
        seen, update = [], loop.update

        def watched(model, optimiser, batch, clip):
            seen.append({group["pointer"]: group["weight_decay"] for group in optimiser.param_groups})
            return update(model, optimiser, batch, clip)

        monkeypatch.setattr(loop, "update", watched)
        train(apart(optimiser="adamw", weight_decay=0.25, **WRITING), tmp_path / "run", Silent())
        assert seen == [{True: 0.0, False: 0.0}] * 9 + [{True: 0.0, False: 0.25}] * 3
        seen.clear()
        train(tiny(weight_decay=0.25), tmp_path / "together", Silent())
        assert seen == [{False: 0.25}] * 12

    @pytest.mark.parametrize("renew", [False, True])
    @pytest.mark.parametrize("stop_after", [8, 9, 10, 11])
    def test_stopped_and_resumed_to_the_same_bits(self, tmp_path, stop_after, renew):
        restrained = {"optimiser": "adamw", "weight_decay": 0.1, "beta1": 0.9, "renew": renew}
        experiment = apart(batch_size=5, seeking_batch_size=2, **restrained, **WRITING)
        train(experiment, tmp_path / "whole", Silent())
        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", stopping_after(stop_after))
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")
        assert (tmp_path / "whole" / "last" / "trees.safetensors").exists()

    def test_a_file_of_trees_that_does_not_fit_is_named(self, tmp_path):
        with pytest.raises(Interrupted):
            train(apart(**WRITING), tmp_path / "run", stopping_after(10))
        path = tmp_path / "run" / "last" / "trees.safetensors"
        save_tensors(path, {"nodes": torch.zeros(3, 2), "ends": torch.zeros(3)})
        with pytest.raises(InputError, match=r"trees\.safetensors: the written trees are not those"):
            train(apart(**WRITING), tmp_path / "run", Silent(), resume=True)
