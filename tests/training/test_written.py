"""Trees that are written down: which they are, which steps learn along them, and that a kill does not change them."""

import signal

import numpy as np
import pytest
import torch

from ordered_memory.classifier import save_tensors
from ordered_memory.config import Experiment
from ordered_memory.errors import InputError
from ordered_memory.tasks.listops import ListOps
from ordered_memory.tasks.logic import Logic, LogicConfig
from ordered_memory.training import loop
from ordered_memory.training.batching import Dataset
from ordered_memory.training.loop import Interrupted, make_classifier, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.written import WrittenTrees
from tests.training import everything_that_lasts, last_position, stopping_after, tiny
from tests.training.test_turns import BOTH, SOUGHT, apart


def everything(dataset: Dataset) -> np.ndarray:
    return np.arange(len(dataset))


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
        written = WrittenTrees.of(model, dataset, everything(dataset), counted.append)
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
        written = WrittenTrees.of(model, dataset, everything(dataset), lambda _: None)
        order = np.array([3, 0, 2])
        batch = written.show(dataset.batch(order, model), order)
        assert [len(spans) + 1 for spans in batch.trees] == batch.lengths.tolist()
        for shown, parsed in zip(batch.trees, model.parse(batch, pointer="hard").spans, strict=True):
            assert np.array_equal(shown, parsed)

    def test_of_some_examples(self):
        model, _, dataset = listops()
        counted, some = [], np.array([2, 3, 11])
        written = WrittenTrees.of(model, dataset, some, counted.append)
        whole = WrittenTrees.of(model, dataset, everything(dataset), lambda _: None)
        assert sum(counted) == 3
        order = np.array([11, 2, 2])
        one, other = (trees.show(dataset.batch(order, model), order).trees for trees in (written, whole))
        assert [spans.tolist() for spans in one] == [spans.tolist() for spans in other]
        again = WrittenTrees.from_tensors(written.tensors(), dataset, 1)
        assert again.examples.tolist() == some.tolist()

    def test_a_sample_of_them_is_even_and_whole_where_there_are_few(self):
        model, examples, dataset = listops()
        written = WrittenTrees.of(model, dataset, everything(dataset), lambda _: None)
        assert written.sample(10**6)[0] == list(range(len(examples)))
        chosen, trees = written.sample(5)
        assert chosen == np.linspace(0, len(examples) - 1, 5, dtype=int).tolist()
        shown = written.show(dataset.batch(chosen, model), np.array(chosen)).trees
        assert all(np.array_equal(one, other) for (one,), other in zip(trees, shown, strict=True))

    def test_training_goes_on_as_it_was(self):
        model, _, dataset = listops()
        for training in (True, False):
            model.train(training)
            WrittenTrees.of(model, dataset, everything(dataset), lambda _: None)
            assert model.training == training

    def test_saved_and_read_again(self):
        model, _, dataset = listops()
        written = WrittenTrees.of(model, dataset, everything(dataset), lambda _: None)
        again = WrittenTrees.from_tensors(written.tensors(), dataset, 1)
        assert np.array_equal(again.nodes, written.nodes)
        assert np.array_equal(again.ends, written.ends)

    def test_of_another_training_set_they_are_refused(self):
        model, examples, dataset = listops()
        tensors = WrittenTrees.of(model, dataset, everything(dataset), lambda _: None).tensors()
        with pytest.raises(InputError, match="not those of this training set"):
            WrittenTrees.from_tensors(tensors, Dataset.encode(examples[1:], model), 1)
        with pytest.raises(InputError, match="not those of this training set"):
            WrittenTrees.from_tensors({**tensors, "examples": tensors["examples"] + 1}, dataset, 1)
        with pytest.raises(InputError, match="have no 'ends'"):
            WrittenTrees.from_tensors({name: tensors[name] for name in ("examples", "nodes")}, dataset, 1)


class TestTraining:
    def test_who_learns_from_them(self, tmp_path, before_updates, moved):
        """All in the steps that imitate, only the rest in the others, and both with the trees' batch."""
        seen = before_updates(lambda model, _optimiser, batch: (batch.trees is not None, model.encoder.imitates))
        train(apart(**SOUGHT, epochs=2), tmp_path / "run", Silent())
        shown, imitated = zip(*seen, strict=True)
        assert imitated[:6] == (False, False, True, False, False, False)  # the one in which it starts
        along = [6, 7, *range(10, 18)]
        assert [step for step, trees in enumerate(shown) if step >= 6 and trees] == along
        for step in along:
            assert moved[step] == (BOTH if imitated[step] else {"rest"})
        assert {imitated[step] for step in along} == {True, False}

    def test_new_models_learn_along_the_trees_of_those_that_sought_them(self, tmp_path, monkeypatch, before_updates):
        """From weights of their own; those of a sample are copied."""
        told, of = [], WrittenTrees.of.__func__

        def written(cls, model, dataset, examples, progress):
            told.append((len(examples), model.embedding.weight.sum().item()))
            return of(cls, model, dataset, examples, progress)

        monkeypatch.setattr(loop, "SAMPLE", 12)
        monkeypatch.setattr(WrittenTrees, "of", classmethod(written))
        before_updates(lambda model, *_: told.append((None, model.embedding.weight.sum().item())))
        train(apart(**SOUGHT), tmp_path / "run", Silent())
        places = [place for place, (number, _) in enumerate(told) if number]
        assert places == [6, 11]
        assert [told[place][0] for place in places] == [12, 20]
        begins = [told[0][1], *(told[place + 1][1] for place in places)]
        assert len({*begins, *(told[place][1] for place in places)}) == 5

    def test_how_good_they_are_is_kept(self, tmp_path):
        """Each time that they are written: for the copying of both rounds, and for the last model."""
        result = train(apart(**SOUGHT, drawn_rounds=2), tmp_path / "run", Silent())
        kept = result["position"]["written"]
        assert [written["step"] for written in kept] == [6, 10, 14]
        assert all(0 < written["f1"] < 1 and written["examples"] > 0 for written in kept)

    def test_what_is_copied_is_of_the_sample(self, tmp_path, monkeypatch):
        shown, show = [], WrittenTrees.show

        def watched(self, batch, indices):
            shown.append((set(indices.tolist()) <= set(self.examples.tolist()), len(indices)))
            return show(self, batch, indices)

        monkeypatch.setattr(loop, "SAMPLE", 7)
        monkeypatch.setattr(WrittenTrees, "show", watched)
        train(apart(**SOUGHT, seeking_batch_size=2), tmp_path / "run", Silent())
        assert shown == [(True, 5)] * 6  # whole batches, though those that seek trees are smaller

    def test_weight_decay_is_for_what_learns_along_them_and_spares_the_pointer(self, tmp_path, before_updates):
        seen = before_updates(
            lambda _, optimiser, __: {g["pointer"]: g["weight_decay"] for g in optimiser.param_groups}
        )
        train(apart(optimiser="adamw", weight_decay=0.25, **SOUGHT), tmp_path / "run", Silent())
        sought, found = {True: 0.0, False: 0.0}, {True: 0.0, False: 0.25}
        assert seen == [sought] * 6 + [found] * 2 + [sought] * 2 + [found] * 4
        seen.clear()
        train(tiny(weight_decay=0.25), tmp_path / "together", Silent())
        assert seen == [{False: 0.25}] * 12

    @pytest.mark.parametrize("stop_after", [5, 6, 7, 8, 9, 10, 13])
    def test_stopped_and_resumed_to_the_same_bits(self, tmp_path, stop_after, monkeypatch):
        monkeypatch.setattr(loop, "SAMPLE", 7)
        restrained = {"optimiser": "adamw", "weight_decay": 0.1, "beta1": 0.9, "schedule": "cosine"}
        experiment = apart(batch_size=5, seeking_batch_size=2, drawn_sharpness=0.3, **restrained, **SOUGHT)
        train(experiment, tmp_path / "whole", Silent())
        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", stopping_after(stop_after))
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")
        assert (tmp_path / "whole" / "last" / "trees.safetensors").exists()

    @pytest.mark.parametrize("times", [1, 2])
    def test_a_stop_while_they_are_written_is_heeded_at_once(self, tmp_path, times):
        class Stopping(Silent):
            def measured(self, done: int, total: int) -> None:  # noqa: ARG002
                nonlocal told
                told += 1
                if told == times:
                    signal.raise_signal(signal.SIGTERM)

        experiment, told = apart(**SOUGHT, beta1=0.9), 0
        train(experiment, tmp_path / "whole", Silent())
        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", Stopping())
        assert last_position(tmp_path / "resumed")["step"] == {1: 6, 2: 10}[times]
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")

    def test_a_file_of_trees_that_does_not_fit_is_named(self, tmp_path):
        with pytest.raises(Interrupted):
            train(apart(**SOUGHT), tmp_path / "run", stopping_after(10))
        path = tmp_path / "run" / "last" / "trees.safetensors"
        save_tensors(path, {"examples": torch.arange(3), "nodes": torch.zeros(3, 2), "ends": torch.zeros(3)})
        with pytest.raises(InputError, match=r"trees\.safetensors: the written trees are not those"):
            train(apart(**SOUGHT), tmp_path / "run", Silent(), resume=True)
