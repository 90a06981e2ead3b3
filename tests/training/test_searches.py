"""Trees are sought several times, and the run goes on from the search whose trees are worth the most."""

import dataclasses

import pytest

from ordered_memory.classifier import Classifier, load_tensors
from ordered_memory.config import TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.training import loop
from ordered_memory.training.evaluation import Evaluation, evaluate
from ordered_memory.training.loop import Interrupted, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.turns import ends_search, examples_read, schedule_step, seed_of_search
from tests.training import everything_that_lasts, metrics, stopping_after
from tests.training.test_turns import PHASES, apart

SEEKING = 9  # steps of a search


def judging(monkeypatch: pytest.MonkeyPatch, *worths: float) -> list[dict]:
    """With a hard pointer the searches come to these; gives the weights that were judged."""
    judged: list[dict] = []

    def evaluated(model: Classifier, *arguments, **options) -> Evaluation:
        found = evaluate(model, *arguments, **options)
        if options.get("pointer") != "hard" or len(judged) == len(worths):
            return found
        judged.append({name: value.clone() for name, value in model.state_dict().items()})
        return dataclasses.replace(found, accuracy=worths[len(judged) - 1])

    monkeypatch.setattr(loop, "evaluate", evaluated)
    return judged


def weights(run) -> dict:
    return load_tensors(run / "last" / "weights.safetensors")


def same(one: dict, other: dict) -> bool:
    return all((one[name] == other[name]).all() for name in one)


class TestSchedule:
    CONFIG = TrainingConfig(**PHASES, searches=3)

    def test_every_search_has_the_steps_of_the_only_one(self):
        steps = [schedule_step(self.CONFIG, step) for step in range(3 * SEEKING + 5)]
        assert steps == [*range(SEEKING)] * 2 + [*range(SEEKING + 5)]
        assert [schedule_step(TrainingConfig(**PHASES), step) for step in range(20)] == [*range(20)]

    def test_each_is_judged_at_its_end(self):
        assert [steps for steps in range(1, 60) if ends_search(self.CONFIG, steps)] == [9, 18, 27]
        assert not any(ends_search(TrainingConfig(**PHASES), steps) for steps in range(60))

    def test_each_starts_from_other_weights_and_the_first_from_the_run_s(self):
        seeds = {seed_of_search(TrainingConfig(**PHASES, seed=seed), search) for seed in (4, 5) for search in range(4)}
        assert len(seeds) == 8
        assert {4, 5} < seeds

    def test_their_smaller_batches_are_counted(self):
        config = dataclasses.replace(self.CONFIG, batch_size=10, seeking_batch_size=4)
        assert examples_read(config, 30) == 27 * 4 + 3 * 10


def test_a_run_whose_first_search_is_the_best_ends_as_with_that_alone(tmp_path, monkeypatch):
    train(apart(schedule="cosine"), tmp_path / "alone", Silent())
    judged = judging(monkeypatch, 0.7, 0.7, 0.5)
    result = train(apart(schedule="cosine", searches=3), tmp_path / "run", Silent())
    assert [record["step"] for record in metrics(tmp_path / "run")] == [2 * SEEKING + 12], "none of the searches"
    assert result["position"]["searched"] == [0.7, 0.7, 0.5]
    assert result["position"]["step"] == 2 * SEEKING + 12
    assert not same(judged[0], judged[1])
    assert same(weights(tmp_path / "run"), weights(tmp_path / "alone"))


def test_it_goes_on_from_the_best_search(tmp_path, monkeypatch):
    judged = judging(monkeypatch, 0.2, 0.7, 0.5)
    with pytest.raises(Interrupted):
        train(apart(searches=3), tmp_path / "run", stopping_after(3 * SEEKING))
    assert same(weights(tmp_path / "run"), judged[1])


@pytest.mark.parametrize("step", [4, SEEKING, SEEKING + 5, 2 * SEEKING + 1, 3 * SEEKING, 3 * SEEKING + 2])
def test_stopped_anywhere_it_goes_on_to_the_same_bits(tmp_path, step):
    train(apart(searches=3, write_every=1), tmp_path / "whole", Silent())
    with pytest.raises(Interrupted):
        train(apart(searches=3, write_every=1), tmp_path / "stopped", stopping_after(step))
    train(apart(), tmp_path / "stopped", Silent(), resume=True)
    assert everything_that_lasts(tmp_path / "stopped") == everything_that_lasts(tmp_path / "whole")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"searches": 2}, "searches is 2, and there are no steps that seek trees"),
        ({**PHASES, "searches": 2, "budget": "9s"}, "searches is 2, and there is a budget"),
        ({**PHASES, "searches": 0}, "searches is 0"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        TrainingConfig(**settings)
