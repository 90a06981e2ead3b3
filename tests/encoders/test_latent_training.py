"""Encoders that draw their trees, in training: a task is learned, and a run that was stopped ends in the same bits."""

import pytest

from ordered_memory.config import (
    ClassifierConfig,
    CooperativeConfig,
    Experiment,
    GumbelTreeConfig,
    SPINNConfig,
    TrainingConfig,
)
from ordered_memory.tasks import TASKS
from ordered_memory.training import loop
from ordered_memory.training.loop import Interrupted, train
from ordered_memory.training.progress import Silent
from tests.training import everything_that_lasts, tiny
from tests.training.test_learning import Tournament, TournamentConfig

ENCODERS = {
    "gumbel-tree": GumbelTreeConfig(hidden_size=24),
    "rl-spinn": SPINNConfig(hidden_size=24, tracking_size=16),
    "cooperative": CooperativeConfig(hidden_size=24, parser_size=16, parser_rate=0.5, ppo_updates=2),
}


class Stopping(Silent):
    """Asks the run to stop after six steps."""

    def step(self, position, share):  # noqa: ARG002
        if position.step == 6:
            raise Interrupted


@pytest.fixture(autouse=True)
def _no_commit(monkeypatch):
    monkeypatch.setattr(loop, "commit", lambda: None)


@pytest.mark.parametrize(
    ("model", "optimiser"), [("gumbel-tree", "adam"), ("rl-spinn", "adam"), ("cooperative", "adadelta")]
)
def test_a_run_that_was_cut_off_ends_in_the_same_bits(tmp_path, model, optimiser):
    experiment = tiny(model, optimiser=optimiser, checkpoint_seconds=0.0)
    train(experiment, tmp_path / "whole", Silent())
    with pytest.raises(Interrupted):
        train(experiment, tmp_path / "stopped", Stopping())
    train(experiment, tmp_path / "stopped", Silent(), resume=True)
    assert everything_that_lasts(tmp_path / "stopped") == everything_that_lasts(tmp_path / "whole")


@pytest.mark.parametrize("model", ENCODERS)
def test_a_task_is_learned(tmp_path, monkeypatch, model):
    monkeypatch.setitem(TASKS, "tournament", Tournament)
    result = train(
        Experiment(
            task="tournament",
            model=model,
            data=TournamentConfig("left"),
            encoder=ENCODERS[model],
            classifier=ClassifierConfig(embedding_size=16, input_dropout=0.0, output_dropout=0.0),
            training=TrainingConfig(
                epochs=5, batch_size=32, learning_rate=0.01, beta1=0.9, schedule="cosine", evaluate_every=1000
            ),
        ),
        tmp_path / "run",
        Silent(),
    )
    assert result["test"]["accuracy"] > 0.9
    if model != "gumbel-tree":  # which answers well with trees of its own
        assert result["test"]["f1"] > 0.8
        assert result["trivial_f1"]["random"][0] < 0.7
