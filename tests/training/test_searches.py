"""Trees are sought several times, and the run goes on from the search whose trees are worth the most."""

import dataclasses
from contextlib import suppress

import pytest
import torch

from ordered_memory.classifier import Classifier, load_tensors
from ordered_memory.config import TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.tasks import TASKS
from ordered_memory.training import loop
from ordered_memory.training.evaluation import Evaluation, evaluate
from ordered_memory.training.loop import Interrupted, make_classifier, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import RunDirectory
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

    def test_each_has_a_seed_of_its_own(self):
        runs = [TrainingConfig(**PHASES, seed=seed) for seed in (4, 5)]
        assert len({seed_of_search(run, search) for run in runs for search in (1, 2, 3)} | {4, 5}) == 8

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


def test_a_later_search_starts_from_weights_of_its_own_and_an_empty_optimiser(tmp_path, monkeypatch):
    step, begun = loop._Run.step, []

    def noted(self, indices) -> None:
        if self.schedule_step == 0:
            begun.append(({k: v.clone() for k, v in self.model.state_dict().items()}, len(self.optimiser.state)))
        step(self, indices)

    monkeypatch.setattr(loop._Run, "step", noted)
    experiment = apart(searches=3)
    train(experiment, tmp_path / "run", Silent())
    assert [moments for _, moments in begun] == [0, 0, 0]
    task = TASKS[experiment.task](experiment.data)
    for search, (start, _) in enumerate(begun):
        torch.manual_seed(seed_of_search(experiment.training, search) if search else experiment.training.seed)
        assert same(start, make_classifier(experiment, task).state_dict())


def test_the_loss_that_is_told_is_of_the_steps_after_the_searches(tmp_path, monkeypatch):
    update, losses = loop.update, []

    def noted(*arguments):
        found = update(*arguments)
        losses.append(found[0])
        return found

    monkeypatch.setattr(loop, "update", noted)
    train(apart(searches=3), tmp_path / "run", Silent())
    told = metrics(tmp_path / "run")[0]["training_loss"]
    assert told == pytest.approx(sum(losses[3 * SEEKING :]) / len(losses[3 * SEEKING :]))


def test_it_goes_on_from_the_best_search(tmp_path, monkeypatch):
    judged = judging(monkeypatch, 0.2, 0.7, 0.5)
    with pytest.raises(Interrupted):
        train(apart(searches=3), tmp_path / "run", stopping_after(3 * SEEKING))
    assert same(weights(tmp_path / "run"), judged[1])
    assert (tmp_path / "run" / "found").exists()
    train(apart(), tmp_path / "run", Silent(), resume=True)
    assert not (tmp_path / "run" / "found").exists(), "of no use once it is finished"


def by_its_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a search is worth follows from the weights it has found, and is never the same."""

    def evaluated(model: Classifier, *arguments, **options) -> Evaluation:
        found = evaluate(model, *arguments, **options)
        if options.get("pointer") != "hard":
            return found
        return dataclasses.replace(found, accuracy=float(model.state_dict()["embedding.weight"].abs().sum() % 1))

    monkeypatch.setattr(loop, "evaluate", evaluated)


@pytest.mark.parametrize("step", [4, SEEKING, SEEKING + 5, 2 * SEEKING + 1, 3 * SEEKING, 3 * SEEKING + 2])
def test_stopped_anywhere_it_goes_on_to_the_same_bits(tmp_path, monkeypatch, step):
    by_its_weights(monkeypatch)
    train(apart(searches=3, write_every=1), tmp_path / "whole", Silent())
    with pytest.raises(Interrupted):
        train(apart(searches=3, write_every=1), tmp_path / "stopped", stopping_after(step))
    train(apart(), tmp_path / "stopped", Silent(), resume=True)
    assert everything_that_lasts(tmp_path / "stopped") == everything_that_lasts(tmp_path / "whole")


@pytest.mark.parametrize("search", [1, 2, 3])
@pytest.mark.parametrize("where", ["save_found", "save_last"])
def test_cut_off_while_a_search_is_judged_it_goes_on_to_the_same_bits(tmp_path, monkeypatch, search, where):
    by_its_weights(monkeypatch)
    experiment = apart(searches=3, write_every=1, checkpoint_seconds=0.0)
    train(experiment, tmp_path / "whole", Silent())
    save = getattr(RunDirectory, where)

    def cut_off(self, model, optimiser, position, *others) -> None:
        if where == "save_found":
            save(self, model, optimiser, position, *others)
        if position.step == search * SEEKING:
            raise KeyboardInterrupt
        if where == "save_last":
            save(self, model, optimiser, position, *others)

    with monkeypatch.context() as patched:
        patched.setattr(RunDirectory, where, cut_off)
        with suppress(KeyboardInterrupt):  # a search that is no better than the ones before is not kept
            train(experiment, tmp_path / "cut", Silent())
    train(experiment, tmp_path / "cut", Silent(), resume=True)
    assert everything_that_lasts(tmp_path / "cut") == everything_that_lasts(tmp_path / "whole")


@pytest.mark.parametrize("turns", [6, 9])
def test_searches_that_leave_no_step_are_refused_and_leave_no_folder(tmp_path, turns):
    with pytest.raises(InputError, match=f"searches is 3, a search takes {6 + turns} steps, and 3 epochs are 12 steps"):
        train(apart(searches=3, turns_steps=turns), tmp_path / "run", Silent())
    assert not (tmp_path / "run").exists()


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
