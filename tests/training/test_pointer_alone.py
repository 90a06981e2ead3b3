"""A pointer that begins anew and learns alone for a while."""

import signal
from typing import ClassVar

import pytest
import torch

from ordered_memory.config import TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.training import loop
from ordered_memory.training.batching import Dataset
from ordered_memory.training.evaluation import Evaluation
from ordered_memory.training.loop import Interrupted, train
from ordered_memory.training.optimisation import LEAD
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position
from tests.training import Listener, everything_that_lasts, tiny


class TestPointerAlone:
    """Twelve steps: three on short examples, four in which the pointer alone learns, five together."""

    PHASES: ClassVar[dict[str, float]] = {"short_until": 0.25, "short_length": 4, "pointer_until": 0.55}

    def test_it_begins_anew_and_all_else_is_held(self, tmp_path, made):
        changed, soft, before = [], [], {}

        def after_step(_: Position) -> None:
            weights = {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
            moved = {name for name in before if not torch.equal(before[name], weights[name])}
            changed.append({part: any((".attention." in name) == part for name in moved) for part in (True, False)})
            soft.append(made.model.encoder.soft_only)
            before.update(weights)

        train(tiny(**self.PHASES), tmp_path / "run", Listener(after_step))
        pointer, rest = ([step[part] for step in changed[1:]] for part in (True, False))
        assert pointer == [True] * 11
        assert rest == [True] * 2 + [False] * 4 + [True] * 5
        assert soft == [True] * 7 + [False] * 5

    def test_the_rest_follows_slowly_and_the_pointer_leads(self, tmp_path, made):
        rates = []
        listener = Listener(lambda _: rates.append({g["pointer"]: g["lr"] for g in made.optimiser.param_groups}))
        train(tiny(schedule="constant", **self.PHASES), tmp_path / "run", listener)
        pointer, rest = ([rate[part] / 0.01 for rate in rates] for part in (True, False))
        assert pointer == pytest.approx([1] * 3 + [LEAD] * 9)
        assert LEAD > 1
        assert rest[:7] == pytest.approx([1] * 3 + [0] * 4)
        assert rest[7:] == sorted(rest[7:])
        assert 0 < rest[8] < rest[-1] == 1

    def test_no_step_is_hard_before_its_time(self, tmp_path, made):
        soft = []
        listener = Listener(lambda _: soft.append(made.model.encoder.soft_only))
        train(tiny(hard_from=0.75, **self.PHASES), tmp_path / "run", listener)
        assert soft == [True] * 9 + [False] * 3

    def test_the_examples_before_are_short(self, tmp_path, monkeypatch):
        seen, make_batch = [], Dataset.batch
        monkeypatch.setattr(Dataset, "batch", lambda *given: seen.append(make_batch(*given)) or seen[-1])
        monkeypatch.setattr(
            loop, "evaluate", lambda *_, **__: Evaluation(1, 0.5, None, None, None, 1.0, 0.0, {}, (), ())
        )
        train(tiny(**self.PHASES), tmp_path / "run", Silent())
        assert [int(batch.lengths.max()) <= 4 for batch in seen[:3]] == [True] * 3
        assert max(int(batch.lengths.max()) for batch in seen[3:]) > 4

    @pytest.mark.parametrize("stop_after", [3, 4])
    def test_stopped_at_the_turn_and_resumed_to_the_same_bits(self, tmp_path, stop_after):
        experiment = tiny(beta1=0.9, **self.PHASES)
        train(experiment, tmp_path / "whole", Silent())

        def stop(position: Position) -> None:
            if position.step == stop_after:
                signal.raise_signal(signal.SIGTERM)

        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", Listener(stop))
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")

    def test_a_model_without_a_pointer_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="pointer_until is set, and lstm has no pointer"):
            train(tiny("lstm", **self.PHASES), tmp_path / "run", Silent())
        assert not (tmp_path / "run").exists()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"short_until": 0.5, "pointer_until": 0.5}, "pointer_until is 0.5, and must be 0 or more than"),
            ({"short_until": 0.5, "short_share": 0.5}, "short_until and short_share both choose"),
        ],
    )
    def test_settings_that_do_not_go_together(self, settings, message):
        with pytest.raises(InputError, match=message):
            TrainingConfig(**settings)
