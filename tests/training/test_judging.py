"""Trees that are judged by what a new cell, which learned along those of short examples, makes of longer ones."""

import signal
from zlib import crc32

import numpy as np
import pytest
import torch

from ordered_memory.classifier import save_tensors
from ordered_memory.errors import InputError
from ordered_memory.tasks.listops import ListOps, ListOpsConfig
from ordered_memory.training import judging, loop
from ordered_memory.training.batching import Dataset
from ordered_memory.training.judging import loss_on_longer
from ordered_memory.training.loop import Interrupted, make_classifier, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.turns import phases
from ordered_memory.training.written import WrittenTrees
from ordered_memory.trees import random_tree
from tests.training import everything_that_lasts, last_position, stopping_after
from tests.training.test_turns import LADDER, apart

JUDGED = {**LADDER, "judged": True}


@pytest.fixture
def few_steps(monkeypatch):
    monkeypatch.setattr(judging, "STEPS", 3)


def losses(monkeypatch, *given: float) -> None:
    """These in the place of what new cells would come to."""
    left = list(given)
    monkeypatch.setattr(loop, "loss_on_longer", lambda *_: left.pop(0))


class TestLoss:
    def test_good_trees_have_less_than_bad_ones(self, monkeypatch):
        monkeypatch.setattr(judging, "STEPS", 150)
        data = ListOpsConfig(
            pool_size=1600, test_size=8, validation_size=8, max_depth=3, max_arguments=3, operators=("MIN", "MAX")
        )
        experiment = apart(seed=1, batch_size=50, learning_rate=5e-3)
        task = ListOps(data)
        examples = task.splits()["train"]
        generator = np.random.default_rng(0)
        gold = [example.trees[0].spans for example in examples]
        bad = [random_tree(example.sentences[0], generator).spans for example in examples]

        def judged(spans) -> float:
            torch.manual_seed(0)
            model = make_classifier(experiment, task)
            dataset = Dataset.encode(examples, model)
            nodes = np.concatenate(spans, dtype=np.int32)
            trees = WrittenTrees(np.arange(len(examples)), nodes, np.cumsum(list(map(len, spans))), 1)
            longer = dataset.lengths > 8
            assert 0.1 < longer.mean() < 0.9
            return loss_on_longer(model, experiment.training, trees, dataset, longer, lambda: None)

        of_gold, of_bad = judged(gold), judged(bad)
        assert of_gold < of_bad - 0.05
        assert judged(gold) == of_gold


class TestTraining:
    def test_the_best_trees_so_far_are_gone_on_with(self, tmp_path, monkeypatch):
        losses(monkeypatch, 2.0, 3.0, 1.0)
        writers, write = [], loop._Run.write

        def watched(self, model, examples, purpose):
            if purpose == "for a new model":
                writers.append(torch.cat([weight.flatten() for weight in model.state_dict().values()]))
            return write(self, model, examples, purpose)

        monkeypatch.setattr(loop._Run, "write", watched)
        train(apart(**JUDGED), tmp_path / "run", Silent())
        first, second, last = writers  # the first model, which the second is worse than, and the third
        assert torch.equal(first, second)
        assert not torch.equal(second, last)
        assert last_position(tmp_path / "run")["judged_loss"] == 1.0

    @pytest.mark.parametrize("stop_after", [5, 6, 7, 9, 10, 13, 14, 16])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_stopped_and_resumed_to_the_same_bits(self, tmp_path, monkeypatch, stop_after, sign):
        """With one of the signs, if not with both, a former model is gone back to, which only the folder knows."""
        monkeypatch.setattr(
            loop, "loss_on_longer", lambda _model, _config, trees, *_: sign * float(crc32(trees.nodes.tobytes()))
        )
        experiment = apart(beta1=0.9, **JUDGED)
        train(experiment, tmp_path / "whole", Silent())
        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", stopping_after(stop_after))
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")

    @pytest.mark.usefixtures("few_steps")
    def test_stopped_while_trees_are_judged(self, tmp_path, monkeypatch):
        experiment = apart(beta1=0.9, **JUDGED)
        train(experiment, tmp_path / "whole", Silent())
        calls, update = [], judging.update

        def stopping(*arguments):
            calls.append(None)
            if len(calls) == 4:  # the first step of the second cell
                signal.raise_signal(signal.SIGTERM)
            return update(*arguments)

        monkeypatch.setattr(judging, "update", stopping)
        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", Silent())
        assert last_position(tmp_path / "resumed")["step"] == 10
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")

    def test_weights_of_another_model_are_not_gone_back_to(self, tmp_path, monkeypatch):
        losses(monkeypatch, 2.0, 3.0, 1.0)
        with pytest.raises(Interrupted):
            train(apart(**JUDGED), tmp_path / "run", stopping_after(7))
        save_tensors(tmp_path / "run" / "last" / "found.safetensors", {"head": torch.zeros(2)})
        with pytest.raises(InputError, match=r"found\.safetensors: not the weights of this model"):
            train(apart(**JUDGED), tmp_path / "run", Silent(), resume=True)

    def test_there_must_be_longer_examples(self, tmp_path):
        with pytest.raises(InputError, match="judged is set, and of 20 examples up to 99 tokens none has more than 98"):
            train(apart(**{**JUDGED, "ladder": (98, 99)}), tmp_path / "run", Silent())
        assert list(tmp_path.iterdir()) == []


def test_a_rung_may_come_several_times():
    config = apart(**{**JUDGED, "ladder": (4, 4, 5)}).training
    assert [phase.longest for phase in phases(config) if phase.name == "copy"] == [4, 4, 5]
    assert [phase.longest for phase in phases(config) if phase.name == "climb"] == [5, 5, None]
