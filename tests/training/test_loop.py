"""Training: nothing but the config decides, schedules are kept, and the best model is measured."""

import dataclasses
import itertools
import json
import math
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from ordered_memory import classifier
from ordered_memory.classifier import Classifier
from ordered_memory.config import Experiment
from ordered_memory.encoders.cooperative import CooperativeEncoder
from ordered_memory.errors import InputError
from ordered_memory.tasks.listops import ListOps
from ordered_memory.tasks.logic import Logic, LogicConfig
from ordered_memory.training import loop
from ordered_memory.training.batching import Dataset
from ordered_memory.training.evaluation import Evaluation
from ordered_memory.training.loop import Interrupted, learning_rate, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position, RunDirectory, optimiser_tensors
from tests.training import Listener, everything_that_lasts, last_position, metrics, tiny


class TestSeeds:
    @pytest.mark.parametrize("model", ["ordered-memory", "lstm"])
    def test_the_same_seed_gives_the_same_bits_and_another_seed_others(self, tmp_path, model):
        for name, seed in (("one", 3), ("two", 3), ("other", 4)):
            torch.manual_seed(len(name))  # what was drawn before must not matter
            train(tiny(model, seed=seed), tmp_path / name, Silent())
        one, two, other = (everything_that_lasts(tmp_path / name) for name in ("one", "two", "other"))
        assert one == two
        assert one["best/weights.safetensors"] != other["best/weights.safetensors"]
        assert one["metrics.jsonl"] != other["metrics.jsonl"]

    def test_when_the_state_is_saved_changes_nothing(self, tmp_path):
        train(tiny(checkpoint_seconds=0.0), tmp_path / "often", Silent())
        train(tiny(checkpoint_seconds=1e6), tmp_path / "rarely", Silent())
        often, rarely = (everything_that_lasts(tmp_path / name) for name in ("often", "rarely"))
        assert often["last/weights.safetensors"] == rarely["last/weights.safetensors"]
        assert often["metrics.jsonl"] == rarely["metrics.jsonl"]


class TestBatches:
    @pytest.mark.parametrize("model", ["lstm", "ordered-memory"])
    def test_a_model_that_pads_gets_rows_of_like_length(self, tmp_path, monkeypatch, model):
        seen = []
        batch = Dataset.batch
        monkeypatch.setattr(Dataset, "batch", lambda self, *given: seen.append(batch(self, *given)) or seen[-1])
        monkeypatch.setattr(
            loop, "evaluate", lambda *_, **__: Evaluation(1, 0.5, None, None, None, 1.0, 0.0, {}, (), ())
        )
        experiment = tiny(model, epochs=1, batch_size=20, short_share=0.5, short_length=8)
        large = dataclasses.replace(experiment.data, pool_size=1_016, max_depth=4)
        train(dataclasses.replace(experiment, data=large), tmp_path / "run", Silent())
        waste = 1 - sum(int(each.lengths.sum()) for each in seen) / sum(each.tokens.numel() for each in seen)
        assert (waste < 0.2) == (model == "lstm")

    @pytest.mark.parametrize("budget", [None, "30s"])
    @pytest.mark.usefixtures("quick_clock")
    def test_labels_are_drawn_evenly_at_first(self, tmp_path, monkeypatch, budget):
        told = []
        early = loop.balanced_batches
        monkeypatch.setattr(loop, "POOL", 2)
        monkeypatch.setattr(
            loop, "balanced_batches", lambda *given: told.append(given[-1] / len(given[0])) or early(*given)
        )
        train(tiny(epochs=4, budget=budget, balanced=0.375), tmp_path / "run", Silent())
        if budget is None:
            assert told[-4:] == pytest.approx([1.0, 0.5, 0.0, 0.0], abs=0.1)  # before them it counts its steps
        else:
            assert told == sorted(told, reverse=True)
            assert sum(told) / len(told) == pytest.approx(0.375, abs=0.1)


class TestNotFinite:
    """A step whose loss or gradient is not finite is not applied, but counted; training goes on."""

    def run(self, tmp_path, made, spoil) -> tuple[list[dict[str, torch.Tensor]], dict[str, Any]]:
        """The state after each step of a run whose third step is spoilt, and its result."""
        states: list[dict[str, torch.Tensor]] = []

        def after_step(position: Position) -> None:
            everything = made.model.state_dict() | optimiser_tensors(made.optimiser)
            states.append({name: value.clone() for name, value in everything.items()})
            if position.step == 2:
                handles.append(spoil(made.model))
            if position.step == 3:
                handles.pop().remove()

        handles: list[Any] = []
        return states, train(tiny(), tmp_path / "run", Listener(after_step))

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("where", ["loss", "gradient"])
    def test_nothing_of_that_step_stays(self, tmp_path, made, where, value):
        def spoil(model: Classifier) -> Any:
            if where == "loss":
                return model.head.register_forward_hook(lambda *given: given[-1] * value)
            return model.head[-1].bias.register_hook(lambda gradient: gradient * value)

        states, result = self.run(tmp_path, made, spoil)
        unchanged = [
            all(torch.equal(before[name], after[name]) for name in before)
            for before, after in itertools.pairwise(states)
        ]
        assert unchanged == [False, True] + [False] * 9
        assert all(torch.isfinite(value).all() for value in states[-1].values())
        assert result["position"]["skipped"] == 1
        assert result["position"]["step"] == 12
        assert [record["skipped"] for record in metrics(tmp_path / "run")] == [1, 1, 1]
        assert all(math.isfinite(record["training_loss"]) for record in metrics(tmp_path / "run"))

    def test_an_update_that_is_not_finite_ends_the_steps_updates(self, tmp_path, made, monkeypatch):
        """The first update stays, the second is spoilt, and the third is never asked for."""
        states = []

        def learn(self: CooperativeEncoder, *_: Any) -> Iterator[torch.Tensor]:
            yield self.parser.query.sum()
            states.append({name: value.clone() for name, value in made.model.state_dict().items()})
            yield self.parser.query.sum() * math.nan
            pytest.fail("asked to go on")

        monkeypatch.setattr(CooperativeEncoder, "_learn", learn)
        after_steps = []
        listener = Listener(lambda _: after_steps.append(made.model.state_dict()["encoder.parser.query"].clone()))
        result = train(tiny("cooperative"), tmp_path / "run", listener)
        assert result["position"]["skipped"] == len(states) == 12
        for after_first, after_step in zip(states, after_steps, strict=True):
            assert torch.equal(after_first["encoder.parser.query"], after_step)
        assert all(math.isfinite(record["training_loss"]) for record in metrics(tmp_path / "run"))

    def test_a_run_whose_every_step_is_spoilt_still_ends(self, tmp_path, monkeypatch):
        monkeypatch.setattr(classifier, "cross_entropy", lambda logits, *_, **__: logits.sum(-1) * math.nan)
        result = train(tiny(), tmp_path / "run", Silent())
        assert result["position"]["skipped"] == result["position"]["step"] == 12
        json.dumps(metrics(tmp_path / "run"), allow_nan=False)


class TestEnd:
    def test_early_stop(self, tmp_path, script):
        script([0.5, 0.4, 0.6, 0.5, 0.6, 0.5])
        position = train(tiny(epochs=50, early_stop=3), tmp_path / "run", Silent())["position"]
        assert (position["step"], position["best_step"], position["since_best"]) == (24, 12, 3)

    def test_stop_at(self, tmp_path, script):
        script([0.5, 0.9, 0.95, 0.99])
        assert train(tiny(epochs=50, stop_at=0.9), tmp_path / "run", Silent())["position"]["step"] == 12

    def test_evaluations_come_every_so_many_steps_and_at_the_end(self, tmp_path):
        train(tiny(evaluate_every=5), tmp_path / "run", Silent())
        assert [record["step"] for record in metrics(tmp_path / "run")] == [5, 10, 12]
        assert [record["epoch"] for record in metrics(tmp_path / "run")] == [1.25, 2.5, 3.0]

    def test_stopped_inside_an_epoch_the_position_says_so(self, tmp_path, script):
        script([0.5, 0.9])
        position = train(tiny(evaluate_every=3, stop_at=0.8), tmp_path / "run", Silent())["position"]
        assert (position["step"], position["epoch"], position["batch"]) == (6, 1, 2)
        assert position == last_position(tmp_path / "run")

    def test_the_best_model_is_kept_and_measured(self, tmp_path, script, made):
        script([0.1, 0.9, 0.2])
        states = {}

        def after_step(position: Position) -> None:
            states[position.step] = {name: value.clone() for name, value in made.model.state_dict().items()}

        result = train(tiny(), tmp_path / "run", Listener(after_step))
        best = Classifier.from_pretrained(tmp_path / "run").state_dict()
        assert all(torch.equal(value, states[8][name]) for name, value in best.items())
        assert any(not torch.equal(value, states[12][name]) for name, value in best.items())
        assert result["position"]["best_step"] == 8

    def test_an_equal_accuracy_does_not_replace_the_best(self, tmp_path, script):
        script([0.5])
        assert train(tiny(), tmp_path / "run", Silent())["position"]["best_step"] == 4

    def test_of_equal_accuracies_the_one_with_less_loss_is_kept_though_it_is_no_rise(self, tmp_path, script):
        script([0.5, 0.5, 0.5], [1.0, 0.8, 0.9])
        position = train(tiny(), tmp_path / "run", Silent())["position"]
        assert (position["best_step"], position["best_loss"], position["since_best"]) == (8, 0.8, 2)

    def test_the_result(self, tmp_path):
        result = train(tiny(), tmp_path / "run", Silent())
        assert json.loads(json.dumps(result, allow_nan=False)) == json.loads((tmp_path / "run/result.json").read_text())
        assert (result["task"], result["model"], result["seed"]) == ("listops", "ordered-memory", 0)
        assert result["config"] == tiny().to_dict()
        splits = ListOps(tiny().data).splits()
        labels = [example.label for example in splits["test"]]
        assert result["majority"] == max(map(labels.count, labels)) / 8
        assert (result["test"]["n"], result["validation"]["n"]) == (8, 8)
        assert result["validation"]["accuracy"] == result["position"]["best_accuracy"]
        assert {name: figures["n"] for name, figures in result["hard_pointer"].items()} == {"validation": 8, "test": 8}
        assert result["hard_pointer"]["test"]["loss"] != result["test"]["loss"]
        model = Classifier.from_pretrained(tmp_path / "run")
        assert result["parameters"] == sum(parameter.numel() for parameter in model.parameters())

    def test_measuring_is_told_as_it_goes_on(self, tmp_path):
        told = []
        listener = Listener()
        listener.measured = lambda done, total: told.append((done, total))  # type: ignore[method-assign]
        train(tiny(epochs=1), tmp_path / "run", listener)
        # 8 at the evaluation; then validation and test examples with the soft pointer and with the hard one.
        assert told == [(8, 8), (8, 32), (16, 32), (24, 32), (32, 32)]

    def test_training_loss_is_the_mean_since_the_last_evaluation(self, tmp_path, monkeypatch):
        losses = []
        cross_entropy = classifier.cross_entropy

        def keep(*arguments: Any, **options: Any) -> torch.Tensor:
            loss = cross_entropy(*arguments, **options)
            losses.append(loss.mean().item())
            return loss

        monkeypatch.setattr(classifier, "cross_entropy", keep)
        train(tiny(evaluate_every=5), tmp_path / "run", Silent())
        means = [sum(losses[first:last]) / (last - first) for first, last in ((0, 5), (5, 10), (10, 12))]
        assert [record["training_loss"] for record in metrics(tmp_path / "run")] == pytest.approx(means)


@pytest.mark.usefixtures("quick_clock")
class TestBudget:
    def test_it_ends_with_the_time_and_not_with_the_epochs(self, tmp_path):
        position = train(tiny(budget="30s", epochs=1), tmp_path / "run", Silent())["position"]
        assert 30 <= position["seconds"] < 32
        assert position["epoch"] > 3
        assert position["finished"]
        assert metrics(tmp_path / "run")[-1]["step"] == position["step"]

    def test_schedules_follow_the_clock(self, tmp_path, made):
        shares, rates = [], []

        def after_step(position: Position) -> None:
            shares.append(position.seconds / 30)
            rates.append(made.optimiser.param_groups[0]["lr"])

        experiment = tiny(budget="30s", schedule="cosine", warmup=0.1, learning_rate=1.0)
        train(experiment, tmp_path / "run", Listener(after_step))
        assert rates[0] == 0
        assert max(rates) > 0.9
        assert rates[-1] < 0.05
        for share, rate in zip(shares, rates[1:], strict=False):
            assert rate <= learning_rate(experiment.training, share, 1.0) + 0.2  # the clock also runs between steps

    def test_short_examples_fade_by_the_clock(self, tmp_path, monkeypatch):
        monkeypatch.setattr(loop, "POOL", 2)
        told = []
        mix = loop.mixed_batches
        monkeypatch.setattr(loop, "mixed_batches", lambda *given: told.append(given[-1]) or mix(*given))
        # Half of 2 epochs: half of the 30 seconds, however many epochs these turn out to be.
        train(tiny(budget="30s", epochs=2, short_share=0.5, short_epochs=1), tmp_path / "run", Silent())
        assert told[0] == 0
        assert told == sorted(told)
        assert told[-1] == pytest.approx(2, abs=0.2)
        assert len(told) > 10

    def test_time_spent_before_a_stop_counts(self, tmp_path):
        listener = Listener(lambda position: signal.raise_signal(signal.SIGINT) if position.seconds > 20 else None)
        with pytest.raises(Interrupted):
            train(tiny(budget="30s"), tmp_path / "run", listener)
        assert 20 < last_position(tmp_path / "run")["seconds"] < 22
        steps = []
        position = train(tiny(budget="30s"), tmp_path / "run", Listener(steps.append), resume=True)["position"]
        assert 30 <= position["seconds"] < 32
        assert 0 < len(steps) < position["step"]


class TestRefusal:
    def test_a_second_run_in_the_same_place(self, tmp_path):
        train(tiny(), tmp_path / "run", Silent())
        before = everything_that_lasts(tmp_path / "run")
        with pytest.raises(InputError, match="there is a run already"):
            train(tiny(seed=1), tmp_path / "run", Silent())
        assert everything_that_lasts(tmp_path / "run") == before

    def test_nothing_to_resume(self, tmp_path):
        with pytest.raises(InputError, match="there is no run here"):
            train(tiny(), tmp_path / "run", Silent(), resume=True)

    def test_another_training_in_the_same_place(self, tmp_path):
        train(tiny(), tmp_path / "run", Silent())
        with RunDirectory(tmp_path / "run").locked(), pytest.raises(InputError, match="another process is training"):
            train(tiny(), tmp_path / "run", Silent(), resume=True)

    @pytest.mark.parametrize("name", ["train", "validation", "test"])
    def test_an_empty_split(self, tmp_path, monkeypatch, name):
        splits = ListOps(tiny().data).splits()
        monkeypatch.setattr(ListOps, "splits", lambda _: splits | {name: []})
        with pytest.raises(InputError, match=f"the {name} set is empty"):
            train(tiny(), tmp_path / "run", Silent())


class TestPairs:
    def experiment(self, model: str, **data: Any) -> Experiment:
        plain = tiny(model, epochs=1, batch_size=50)
        return dataclasses.replace(plain, task="logic", data=LogicConfig(pairs=800, **data))

    @pytest.mark.parametrize("model", ["ordered-memory", "lstm"])
    def test_a_run_says_what_data_it_used_and_measures_every_reading(self, tmp_path, model):
        result = train(self.experiment(model, split="B"), tmp_path / "run", Silent())
        assert result["config"]["data"]["source"] == "generated"
        assert RunDirectory(tmp_path / "run").experiment().data == LogicConfig(pairs=800, split="B", source="generated")
        sets = Logic(LogicConfig(pairs=800, split="B")).extra_tests()
        sizes = {name: figures["n"] for name, figures in result["extra_tests"].items()}
        assert sizes == {name: len(examples) for name, examples in sets.items()}
        assert sizes.keys() == {"all", "held-out", "every"}
        latent = model == "ordered-memory"
        for figures in (result["test"], *result["extra_tests"].values()):
            assert (figures["f1_words"] is not None) == latent
        assert result["trivial_f1_words"].keys() == result["trivial_f1"].keys()

    def test_stopped_and_resumed_to_the_same_bits(self, tmp_path, monkeypatch):
        """With other data in the environment by then: the run's own config holds."""
        experiment = self.experiment("ordered-memory")
        train(experiment, tmp_path / "whole", Silent())
        train(experiment, tmp_path / "resumed", Silent())
        shutil.rmtree(tmp_path / "resumed" / "last")
        (tmp_path / "resumed" / "result.json").unlink()
        monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path / "absent"))
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")
