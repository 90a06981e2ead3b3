"""Pointer and cell that learn apart: who learns in which step, from what, and along which trees."""

import dataclasses
from collections import Counter
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from ordered_memory.classifier import Batch
from ordered_memory.config import Experiment, OrderedMemoryConfig, TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.training import loop
from ordered_memory.training.loop import Interrupted, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.turns import (
    DRAWN,
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
from tests.training.test_sharpening import SCORE

# Six steps that seek trees: two along random trees, one in which the pointer learns them, three of the pointer alone.
# Four steps come after them, an epoch.
PHASES = {"random_steps": 2, "start_steps": 1, "pointer_steps": 3, "short_length": 4}
# Four more before the epoch: two that copy trees, and two along drawn ones.
SOUGHT = {**PHASES, "copy_steps": 2, "drawn_steps": 2, "draws": 2, "written": True}
BOTH = {"pointer", "rest"}


def apart(hard_share: float = 0.5, **training: Any) -> Experiment:
    experiment = tiny(**{**PHASES, "epochs": 1, **training})
    encoder = OrderedMemoryConfig(hidden_size=6, num_slots=3, dropout=0.2, attention_dropout=0.2, hard_share=hard_share)
    return dataclasses.replace(experiment, encoder=encoder)


class TestNextTurn:
    def test_the_phases_in_their_order(self):
        config = TrainingConfig(**PHASES)
        turns = [next_turn(config, 0.0, step) for step in range(9)]
        assert turns == [RANDOM] * 2 + [RANDOM_POINTER] + [POINTER] * 3 + [TOGETHER] * 3

    def test_trees_are_copied_and_then_drawn(self):
        config = TrainingConfig(**{**SOUGHT, "drawn_steps": 3})
        turns = [next_turn(config, 0.0, step) for step in range(15)]
        first = [RANDOM] * 2 + [RANDOM_POINTER] + [POINTER] * 3
        assert turns == first + [WRITTEN] * 2 + [DRAWN] * 3 + [WRITTEN] * 4

    def test_who_copies_is_a_new_model_and_so_is_the_last(self):
        config = TrainingConfig(**{**SOUGHT, "drawn_steps": 3})
        assert [(phase.name, phase.begin, phase.renewed) for phase in phases(config)] == [
            ("random", 0, 0),
            ("start", 2, 0),
            ("pointer", 3, 0),
            ("copy", 6, 1),
            ("drawn", 8, 0),
            ("last", 11, 2),
        ]
        assert config.seeking_steps == 11

    def test_a_second_round_begins_with_a_new_model_too(self):
        config = TrainingConfig(**SOUGHT, drawn_rounds=2)
        assert [(phase.name, phase.begin, phase.renewed) for phase in phases(config)][3:] == [
            ("copy", 6, 1),
            ("drawn", 8, 0),
            ("copy", 10, 2),
            ("drawn", 12, 0),
            ("last", 14, 3),
        ]
        assert config.seeking_steps == 14

    def test_a_phase_ends_where_the_next_begins(self):
        found = phases(TrainingConfig(**SOUGHT))
        assert [phase.end for phase in found] == [*(phase.begin for phase in found[1:]), None]

    def test_the_first_model_s_trees_are_written_where_none_are_drawn(self):
        config = TrainingConfig(**{**SOUGHT, "copy_steps": 0, "drawn_steps": 0})
        assert [(phase.name, phase.renewed) for phase in phases(config)][2:] == [("pointer", 0), ("last", 2)]
        assert config.seeking_steps == phases(config)[-1].begin == 6
        assert next_turn(config, 0.0, 6) == WRITTEN

    def test_along_written_trees_the_share_of_hard_steps_is_the_cell_s_alone(self):
        torch.manual_seed(0)
        config = TrainingConfig(**SOUGHT)
        first = config.seeking_steps
        turns = Counter(next_turn(config, 0.7, step) for step in range(first, first + 1000))
        assert set(turns) == {WRITTEN_CELL, WRITTEN}
        assert turns[WRITTEN_CELL] == pytest.approx(700, abs=50)

    def test_who_copies_trees_learns_whole_in_every_step(self):
        config = TrainingConfig(**SOUGHT)
        copies = [step for phase in phases(config) if phase.name == "copy" for step in range(phase.begin, phase.end)]
        assert {next_turn(config, 1.0, step) for step in copies} == {WRITTEN}

    def test_along_drawn_trees_there_are_no_hard_steps(self):
        config = TrainingConfig(**{**SOUGHT, "drawn_steps": 100})
        assert {next_turn(config, 0.7, step) for step in range(8, 108)} == {DRAWN}

    def test_where_no_trees_are_written_steps_are_hard_or_soft_by_their_share(self):
        torch.manual_seed(0)
        turns = Counter(next_turn(TrainingConfig(**PHASES), 0.8, step) for step in range(6, 1006))
        assert set(turns) == {Turn("hard", "all"), TOGETHER}
        assert turns[TOGETHER] == pytest.approx(200, abs=50)

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
    def test_who_is_held_in_each_step(self, tmp_path, moved):
        train(apart(hard_share=0.0, beta1=0.9), tmp_path / "run", Silent())
        # With momentum too: what is held does not move by what it learned before.
        assert moved == [{"rest"}] * 2 + [{"pointer"}] * 4 + [BOTH] * 4

    def test_a_hard_pointer_is_of_the_last_steps_only(self, tmp_path, before_updates):
        pointers = before_updates(lambda model, *_: model.encoder.step_pointer)
        train(apart(epochs=3), tmp_path / "run", Silent())
        assert pointers[:6] == ["soft"] * 6
        assert set(pointers[6:]) == {"soft", "hard"}

    def test_what_each_step_reads(self, tmp_path, before_updates):
        read = before_updates(lambda _model, _optimiser, batch: (batch.trees is not None, int(batch.lengths.max())))
        train(apart(), tmp_path / "run", Silent())
        assert [trees for trees, _ in read] == [True] * 3 + [False] * 7
        assert max(length for _, length in read[:3]) == 4
        assert max(length for _, length in read[3:6]) > 4

    def test_the_pointer_has_a_rate_of_its_own(self, tmp_path, made):
        rates = []
        listener = Listener(lambda _: rates.append({g["pointer"]: g["lr"] for g in made.optimiser.param_groups}))
        train(apart(schedule="constant", pointer_rate=3.0), tmp_path / "run", listener)
        assert [rate[True] for rate in rates] == pytest.approx([0.03] * 10)
        assert [rate[False] for rate in rates] == pytest.approx([0.01] * 10)

    def test_schedules_of_the_rate(self, tmp_path, made):
        """None for the first model but a warm-up; a whole one for each phase after it, and for the epochs."""
        rates = []
        listener = Listener(lambda _: rates.append(made.optimiser.param_groups[0]["lr"] / 0.01))
        settings = {**SOUGHT, "pointer_steps": 4, "copy_steps": 4, "drawn_steps": 4, "schedule": "cosine"}
        train(apart(warmup=0.25, **settings), tmp_path / "run", listener)
        assert rates == pytest.approx([0.0, 1.0, 0.0, *[0.0, 1.0, 1.0, 1.0], *[0.0, 1.0, 0.75, 0.25] * 3])

    def test_no_dropout_where_the_pointer_learns_alone_or_from_drawn_trees(self, tmp_path, before_updates):
        active = before_updates(lambda model, *_: model.input_dropout.training)
        train(apart(hard_share=0.0, **SOUGHT), tmp_path / "run", Silent())
        assert active == [True] * 2 + [False] * 4 + [True] * 2 + [False] * 2 + [True] * 4

    def test_dropout_that_is_still_to_come_does_not_begin_where_trees_are_written(self, tmp_path, before_updates):
        active = before_updates(lambda model, *_: model.input_dropout.training)
        train(apart(hard_share=0.0, **SOUGHT, dropout_from=0.99), tmp_path / "run", Silent())
        assert active == [False] * 14

    @pytest.mark.parametrize("stop_after", [2, 4, 8])
    def test_stopped_and_resumed_to_the_same_bits(self, tmp_path, stop_after):
        experiment = apart(beta1=0.9)
        train(experiment, tmp_path / "whole", Silent())
        with pytest.raises(Interrupted):
            train(experiment, tmp_path / "resumed", stopping_after(stop_after))
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")

    @pytest.mark.parametrize(
        "setting",
        [
            {"random_steps": 1},
            {"pointer_rate": 2.0},
            {"pointer_steps": 1, "copy_steps": 1, "written": True},
            {"drawn_steps": 1},
        ],
    )
    def test_a_model_without_a_pointer_is_refused(self, tmp_path, setting):
        with pytest.raises(InputError, match=f"{next(iter(setting))} is set, and lstm has no pointer"):
            train(tiny("lstm", **setting), tmp_path / "run", Silent())
        assert not (tmp_path / "run").exists()


class TestSeeking:
    def test_cell_and_pointer_copy_trees_and_both_learn_from_drawn_ones(self, tmp_path, moved):
        train(apart(hard_share=0.0, beta1=0.9, **SOUGHT), tmp_path / "run", Silent())
        assert moved[6:] == [BOTH] * 8

    def test_a_pointer_that_has_copied_trees_is_made_less_sure_once(self, tmp_path, before_updates):
        scores = before_updates(lambda model, *_: model.state_dict()[SCORE].abs().sum().item())
        train(apart(**SOUGHT, drawn_sharpness=0.3, learning_rate=1e-9), tmp_path / "run", Silent())
        changes = {step: after / before for step, (before, after) in enumerate(pairwise(scores), 1)}
        for step in (6, 10):  # new models
            del changes[step]
        assert changes == pytest.approx({step: 0.3 if step == 8 else 1.0 for step in changes}, rel=1e-3)

    def test_new_models_and_drawn_trees_begin_without_moments(self, tmp_path, before_updates):
        moments = before_updates(lambda _model, optimiser, _batch: len(optimiser.state) > 0)
        train(apart(**SOUGHT), tmp_path / "run", Silent())
        assert moments == [False] + [True] * 5 + [False, True] * 2 + [False] + [True] * 3


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"copy_steps": 2}, "copy_steps is set, and no step finds trees before they are: set pointer_steps too"),
            ({"copy_steps": 2, "drawn_steps": 2}, "copy_steps is set, and no step finds trees before they are"),
            ({"written": True}, "written is set, and no step finds trees before they are"),
            ({"drawn_rounds": 2}, "drawn_rounds is 2, and there are no steps along drawn trees: set drawn_steps too"),
            ({"drawn_steps": -1}, "drawn_steps is -1, and must be at least 0"),
            ({"drawn_batch_size": -1}, "drawn_batch_size is -1, and must be at least 0"),
            ({"drawn_sharpness": 0.0}, "drawn_sharpness is 0.0, and must be greater than 0"),
            ({"draws": 0}, "draws is 0, and must be greater than 0"),
            ({"hidden_tokens": 1.0}, "hidden_tokens is 1.0, and must be at least 0 and less than 1"),
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
        values["training"] |= {"rounds": 0, "turns_steps": 0, "turns_sharpness": 1.0, "turns_pointer": "sampled"}
        values["training"] |= {"ladder": [], "judged": False, "climb_steps": 0, "climb_sharpness": 1.0}
        assert Experiment.from_dict(values) == Experiment()

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("scouts", 3),
            ("judged", True),
            ("rounds", 1),
            ("turns_steps", 1200),
            ("turns_sharpness", 0.3),
            ("turns_pointer", "hard"),
        ],
    )
    def test_of_former_versions_are_refused_where_they_did_something(self, name, value):
        told = f"training: {name} is {value!r}: this version has no such setting any more"
        with pytest.raises(InputError, match=told):
            Experiment.from_dict({"training": {name: value}})


def test_examples_that_steps_have_read():
    config = TrainingConfig(**PHASES, batch_size=8, seeking_batch_size=2)
    assert [examples_read(config, steps) for steps in (0, 4, 6, 8)] == [0, 8, 12, 28]
    assert examples_read(TrainingConfig(**PHASES, batch_size=8), 8) == 64
    sought = TrainingConfig(**SOUGHT, batch_size=8, seeking_batch_size=2, drawn_batch_size=3)  # copies are whole
    assert [examples_read(sought, steps) for steps in (6, 7, 8, 9, 10, 11)] == [12, 20, 28, 31, 34, 42]


def test_smaller_batches_while_trees_are_sought(tmp_path, before_updates):
    sizes = before_updates(lambda _model, _optimiser, batch: len(batch.labels))
    train(apart(batch_size=5, seeking_batch_size=2, **SOUGHT), tmp_path / "run", Silent())
    assert sizes == [2] * 6 + [5, 5, 2, 2] + [5] * 4
    sizes.clear()
    train(apart(batch_size=5, drawn_batch_size=3, **SOUGHT), tmp_path / "other", Silent())
    assert sizes == [5] * 8 + [3, 3] + [5] * 4


def test_examples_are_drawn_while_trees_are_sought_and_the_epochs_come_whole_after_that(tmp_path, monkeypatch):
    read, batch = [], loop.Dataset.batch

    def watched(self, indices, model):
        if model.training:
            read.append(indices.tolist())
        return batch(self, indices, model)

    monkeypatch.setattr(loop.Dataset, "batch", watched)
    train(apart(batch_size=5, pointer_steps=40), tmp_path / "run", Silent())
    soft = read[3:43]
    assert all(len(indices) == 5 for indices in soft)
    assert any(len(set(indices)) < 5 for indices in soft)
    assert sorted(place for indices in read[43:] for place in indices) == list(range(20))


def test_no_larger_ones():
    config = TrainingConfig(**PHASES, batch_size=8, seeking_batch_size=9)
    assert examples_read(config, 11) == 88
    assert len(draw([np.arange(100)], config, step=0)) == 8
    assert phase_of(config, 100).name == "last"
