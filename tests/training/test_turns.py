"""Pointer and cell that take turns: who learns in which step, from what, and along which trees."""

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest
import torch

from ordered_memory.classifier import Batch
from ordered_memory.config import Experiment, OrderedMemoryConfig, TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.memory import OrderedMemory
from ordered_memory.training import loop
from ordered_memory.training.evaluation import Evaluation
from ordered_memory.training.loop import Interrupted, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position
from ordered_memory.training.turns import (
    CELL,
    POINTER,
    RANDOM,
    RANDOM_POINTER,
    TOGETHER,
    WRITTEN,
    WRITTEN_CELL,
    Turn,
    by_label,
    draw,
    examples_read,
    next_turn,
    phase_of,
    phases,
    short_examples,
    with_random_trees,
)
from tests.training import Listener, everything_that_lasts, stopping_after, tiny

# Nine steps that seek trees: two along random trees, one in which the pointer learns them, three of the pointer alone,
# three of each kind in turn. Four steps come after them, an epoch.
PHASES = {"random_steps": 2, "start_steps": 1, "pointer_steps": 3, "turns_steps": 3, "short_length": 4}
# The same with trees that are written twice, after six steps and after four more, which copy them and take turns.
ROUNDS = {**PHASES, "rounds": 2, "copy_steps": 2, "turns_steps": 2}


def apart(hard_share: float = 0.5, **training: float) -> Experiment:
    experiment = tiny(**{**PHASES, "epochs": 1, **training})
    encoder = OrderedMemoryConfig(hidden_size=6, num_slots=3, dropout=0.2, attention_dropout=0.2, hard_share=hard_share)
    return Experiment(**{**vars(experiment), "encoder": encoder})


class TestNextTurn:
    def test_the_phases_in_their_order(self):
        config = TrainingConfig(**PHASES)
        turns = [next_turn(config, 0.0, step) for step in range(12)]
        first = [RANDOM] * 2 + [RANDOM_POINTER] + [POINTER] * 3
        assert turns == [*first, POINTER, Turn("sampled", "rest"), RANDOM, *[POINTER] * 3]

    def test_in_rounds_trees_are_copied_before_the_turns_which_need_no_random_ones(self):
        config = TrainingConfig(**{**ROUNDS, "rounds": 3, "turns_steps": 3})
        turns = [next_turn(config, 0.0, step) for step in range(20)]
        first = [RANDOM] * 2 + [RANDOM_POINTER] + [POINTER] * 3
        again = [WRITTEN, WRITTEN, POINTER, Turn("sampled", "rest"), POINTER]
        assert turns == first + 2 * again + [WRITTEN] * 4
        assert config.seeking_steps == 16
        assert [(phase.name, phase.begin, phase.renewed) for phase in phases(config)] == [
            ("random", 0, 0),
            ("start", 2, 0),
            ("pointer", 3, 0),
            ("copy", 6, 1),
            ("turns", 8, 0),
            ("copy", 11, 2),
            ("turns", 13, 0),
            ("last", 16, 3),
        ]

    def test_one_round_has_the_first_model_s_trees(self):
        config = TrainingConfig(**{**ROUNDS, "rounds": 1})
        assert [(phase.name, phase.renewed) for phase in phases(config)][2:] == [("pointer", 0), ("last", 1)]
        assert config.seeking_steps == phases(config)[-1].begin == 6

    def test_no_round_leaves_the_turns_to_the_first_model(self):
        config = TrainingConfig(**{**ROUNDS, "rounds": 0})
        assert [phase.name for phase in phases(config)][2:] == ["pointer", "turns", "last"]
        assert config.seeking_steps == phases(config)[-1].begin == 8

    def test_along_written_trees_the_share_of_hard_steps_is_the_cell_s_alone(self):
        torch.manual_seed(0)
        config = TrainingConfig(**{**ROUNDS, "copy_steps": 1000})
        for first in (6, 2000):
            turns = Counter(next_turn(config, 0.7, step) for step in range(first, first + 1000))
            assert set(turns) == {WRITTEN_CELL, WRITTEN}
            assert turns[WRITTEN_CELL] == pytest.approx(700, abs=50)

    def test_the_turns_may_take_the_likeliest_trees(self):
        config = TrainingConfig(**PHASES, turns_pointer="hard")
        assert [next_turn(config, 0.0, step) for step in range(6, 9)] == [POINTER, CELL, RANDOM]

    def test_after_the_turns_steps_are_hard_or_soft_by_their_share(self):
        torch.manual_seed(0)
        config = TrainingConfig(**PHASES)
        turns = Counter(next_turn(config, 0.8, step) for step in range(9, 1009))
        assert set(turns) == {CELL, POINTER}
        assert turns[CELL] == pytest.approx(800, abs=50)

    def test_without_phases_all_learn_together(self):
        torch.manual_seed(0)
        assert {next_turn(TrainingConfig(), 0.0, step) for step in range(9)} == {TOGETHER}
        turns = Counter(next_turn(TrainingConfig(), 0.3, step) for step in range(1000))
        assert {turn.learns for turn in turns} == {"all"}
        assert sum(count for turn, count in turns.items() if turn.trees == "hard") == pytest.approx(300, abs=50)


class TestShortExamples:
    LABELS: ClassVar = np.repeat([0, 1, 2], [900, 90, 10])

    def test_labels_come_alike_and_all_are_short(self):
        lengths = np.where(np.arange(1000) % 2 == 0, 3, 9)
        config = TrainingConfig(short_length=4, batch_size=600)
        drawn = draw(short_examples(lengths, self.LABELS, config), config, step=5)
        assert (lengths[drawn] == 3).all()
        assert [np.mean(self.LABELS[drawn] == label) for label in range(3)] == pytest.approx([1 / 3] * 3, abs=0.07)

    def test_seed_and_step_fix_them(self):
        kinds = [np.arange(100)]
        draws = [
            draw(kinds, TrainingConfig(seed=seed), step).tolist() for seed, step in ((0, 0), (0, 0), (1, 0), (0, 1))
        ]
        assert [draws[0] == draw for draw in draws] == [True, True, False, False]

    def test_labels_apart(self):
        found = by_label(self.LABELS, np.array([0, 5, 950, 999, 998]))
        assert [part.tolist() for part in found] == [[0, 5], [950], [999, 998]]

    def test_there_must_be_some(self):
        with pytest.raises(InputError, match="short_length is 4, and no training example is that short"):
            short_examples(np.full(1000, 9), self.LABELS, TrainingConfig(short_length=4))


class TestRandomTrees:
    def trees(self, lean: float, step: int = 0):
        lengths = torch.tensor([1, 2, 9, 30])
        batch = Batch(torch.zeros(30, 4, dtype=torch.int64), lengths, torch.zeros(4))
        return with_random_trees(batch, TrainingConfig(), step, lean).trees

    def test_each_row_has_a_binary_tree_that_seed_and_step_fix(self):
        first, again, other = self.trees(1.0), self.trees(1.0), self.trees(1.0, step=1)
        assert [len(spans) for spans in first] == [0, 1, 8, 29]
        assert all((one == two).all() for one, two in zip(first, again, strict=True))
        assert (first[3] != other[3]).any()

    def test_they_lean(self):
        """A tree that leans to the right has many nodes that end where the row ends."""
        suffixes = [np.mean([(self.trees(lean, step)[3][:, 1] == 30).sum() for step in range(50)]) for lean in (1, 10)]
        assert suffixes[0] < 8
        assert suffixes[1] > 12


class TestTraining:
    def test_who_is_held_in_each_step(self, tmp_path, made):
        changed, pointers, before = [], [], {}

        def after_step(_: Position) -> None:
            weights = {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
            moved = {name for name in before if not torch.equal(before[name], weights[name])}
            changed.append({part: any((".attention." in name) == part for name in moved) for part in (True, False)})
            pointers.append(made.model.encoder.step_pointer)
            before.update(weights)

        train(apart(hard_share=0.0, beta1=0.9), tmp_path / "run", Listener(after_step))
        pointer, rest = ([step[part] for step in changed[1:]] for part in (True, False))
        # With momentum too: what is held does not move by what it learned before.
        assert pointer == [False] + [True] * 4 + [True, False, False] + [True] * 4
        assert rest == [True] + [False] * 4 + [False, True, True] + [False] * 4
        assert pointers == ["soft"] * 7 + ["sampled"] + ["soft"] * 5

    def test_what_each_step_reads(self, tmp_path, monkeypatch):
        seen, losses = [], loop.Classifier.losses
        monkeypatch.setattr(loop.Classifier, "losses", lambda self, batch: seen.append(batch) or losses(self, batch))
        monkeypatch.setattr(
            loop, "evaluate", lambda *_, **__: Evaluation(1, 0.5, None, None, None, 1.0, 0.0, {}, (), ())
        )
        train(apart(), tmp_path / "run", Silent())
        random = [batch.trees is not None for batch in seen]
        assert random == [True] * 3 + [False] * 5 + [True] + [False] * 4
        assert [int(batch.lengths.max()) <= 4 for batch in seen if batch.trees is not None] == [True] * 4
        assert max(int(batch.lengths.max()) for batch in seen if batch.trees is None) > 4

    def test_the_pointer_has_a_rate_of_its_own(self, tmp_path, made):
        rates = []
        listener = Listener(lambda _: rates.append({g["pointer"]: g["lr"] for g in made.optimiser.param_groups}))
        train(apart(schedule="constant", pointer_rate=3.0), tmp_path / "run", listener)
        assert [rate[True] for rate in rates] == pytest.approx([0.03] * 13)
        assert [rate[False] for rate in rates] == pytest.approx([0.01] * 13)

    def test_schedules_of_the_rate(self, tmp_path, made):
        """None for the first model but a warm-up; a whole one for each phase after it, and for the epochs."""
        rates = []
        listener = Listener(lambda _: rates.append(made.optimiser.param_groups[0]["lr"] / 0.01))
        settings = {**ROUNDS, "pointer_steps": 4, "copy_steps": 4, "turns_steps": 4, "schedule": "cosine"}
        train(apart(warmup=0.25, **settings), tmp_path / "run", listener)
        falls = [0.0, 1.0, 0.75, 0.25]
        assert rates == pytest.approx([0.0, 1.0, 0.0, *[0.0, 1.0, 1.0, 1.0], *falls, *falls, *falls])

    def test_a_pointer_that_has_copied_trees_is_made_less_sure_once(self, tmp_path, monkeypatch):
        factors, step, sharpen = [], loop._Run.step, OrderedMemory.sharpen
        monkeypatch.setattr(
            OrderedMemory, "sharpen", lambda self, factor: factors.append(factor) or sharpen(self, factor)
        )
        counts = []
        monkeypatch.setattr(loop._Run, "step", lambda self, indices: step(self, indices) or counts.append(len(factors)))
        train(apart(**ROUNDS, turns_sharpness=0.3), tmp_path / "run", Silent())
        assert factors == [0.3]
        assert counts == [0] * 8 + [1] * 6

    def test_no_dropout_where_the_pointer_learns_alone(self, tmp_path, made):
        active = []
        listener = Listener(lambda _: active.append(made.model.input_dropout.training))
        train(apart(hard_share=0.0), tmp_path / "run", listener)
        assert active == [True] * 2 + [False] * 5 + [True] * 2 + [False] * 4

    def test_dropout_that_is_still_to_come_does_not_begin_where_trees_are_written(self, tmp_path, monkeypatch):
        active, update = [], loop.update

        def watched(model, optimiser, batch, clip):
            active.append(model.input_dropout.training)
            return update(model, optimiser, batch, clip)

        monkeypatch.setattr(loop, "update", watched)
        train(apart(hard_share=0.0, **ROUNDS, dropout_from=0.99), tmp_path / "run", Silent())
        assert active == [False] * 14

    @pytest.mark.parametrize("stop_after", [2, 4, 8, 10])
    def test_stopped_and_resumed_to_the_same_bits(self, tmp_path, stop_after):
        experiment = apart(beta1=0.9)
        train(experiment, tmp_path / "whole", Silent())
        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", stopping_after(stop_after))
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")

    @pytest.mark.parametrize("setting", [{"random_steps": 1}, {"turns_steps": 5}, {"pointer_rate": 2.0}])
    def test_a_model_without_a_pointer_is_refused(self, tmp_path, setting):
        with pytest.raises(InputError, match=f"{next(iter(setting))} is set, and lstm has no pointer"):
            train(tiny("lstm", **setting), tmp_path / "run", Silent())
        assert not (tmp_path / "run").exists()


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"turns_steps": -1}, "turns_steps is -1, and must be at least 0"),
            ({"rounds": -1}, "rounds is -1, and must be at least 0"),
            ({"rounds": 2}, "copy_steps is 0, and with rounds at 2 new models have to copy trees: set it"),
            ({"seeking_batch_size": 5}, "seeking_batch_size is set, and there are no steps that seek trees"),
            ({"random_lean": 0.5}, "random_lean is 0.5, and must be at least 1"),
            ({"pointer_rate": 0.0}, "pointer_rate is 0.0, and must be greater than 0"),
            ({"balanced": 0.5, "short_share": 0.5}, "balanced and short_share both choose"),
        ],
    )
    def test_that_do_not_go_together(self, settings, message):
        with pytest.raises(InputError, match=message):
            TrainingConfig(**settings)

    def test_of_former_versions_are_read_where_they_did_nothing(self):
        values = Experiment().to_dict()
        values["training"] |= {"scouts": 0, "teacher": None, "teacher_until": 1.0, "turns_until": 0.0}
        assert Experiment.from_dict(values) == Experiment()
        values["training"]["scouts"] = 3
        with pytest.raises(InputError, match="training: scouts is 3: this version has no such setting any more"):
            Experiment.from_dict(values)


def test_examples_that_steps_have_read():
    config = TrainingConfig(**PHASES, batch_size=8, seeking_batch_size=2)
    assert [examples_read(config, steps) for steps in (0, 4, 9, 11)] == [0, 8, 18, 34]
    assert examples_read(TrainingConfig(**PHASES, batch_size=8), 11) == 88
    rounds = TrainingConfig(**ROUNDS, batch_size=8, seeking_batch_size=2)  # those that copy are whole
    assert [examples_read(rounds, steps) for steps in (6, 7, 8, 10, 11)] == [12, 20, 28, 32, 40]


def test_smaller_batches_while_trees_are_sought(tmp_path, monkeypatch):
    sizes, update = [], loop.update

    def watched(model, optimiser, batch, clip):
        sizes.append(len(batch.labels))
        return update(model, optimiser, batch, clip)

    monkeypatch.setattr(loop, "update", watched)
    train(apart(batch_size=5, seeking_batch_size=2), tmp_path / "run", Silent())
    assert sizes[:9] == [2] * 9
    assert max(sizes[9:]) == 5


def test_examples_are_drawn_while_trees_are_sought_and_the_epochs_come_whole_after_that(tmp_path, monkeypatch):
    read, batch = [], loop.Dataset.batch

    def watched(self, indices, model):
        if model.training:
            read.append(indices.tolist())
        return batch(self, indices, model)

    monkeypatch.setattr(loop.Dataset, "batch", watched)
    train(apart(batch_size=5, turns_steps=60), tmp_path / "run", Silent())
    soft = [indices for step, indices in enumerate(read[:66]) if step >= 6 and step % 3 != 2]
    assert len(soft) == 40
    assert all(len(indices) == 5 for indices in soft)
    assert sorted(place for indices in read[66:] for place in indices) == list(range(20))


def test_no_larger_ones():
    config = TrainingConfig(**PHASES, batch_size=8, seeking_batch_size=9)
    assert examples_read(config, 11) == 88
    assert len(draw([np.arange(100)], config, step=0)) == 8
    assert phase_of(config, 100).name == "last"
