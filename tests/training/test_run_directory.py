"""The run's directory: state there and back, what a kill or a full disk leaves, and what is refused."""

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from ordered_memory.classifier import Classifier
from ordered_memory.errors import InputError
from ordered_memory.tasks.listops import VOCABULARY
from ordered_memory.training.optimisation import make_optimiser
from ordered_memory.training.run_directory import Position, RunDirectory, load_optimiser_tensors, optimiser_tensors
from tests.test_atomic import largest_file
from tests.training import tiny


def make(seed=0, model="ordered-memory", **training):
    """A model and its optimiser."""
    torch.manual_seed(seed)
    experiment = tiny(model, **training)
    made = Classifier(VOCABULARY, tuple("0123456789"), model, experiment.encoder, experiment.classifier, "listops")
    return made, make_optimiser(experiment.training, made)


def train_a_little(model, optimiser, steps=3):
    model.train()
    for number in range(1, steps + 1):
        batch = model.collate([[11, number, 3, 15], [number]], [1, 2])
        optimiser.zero_grad()
        cross_entropy(model(batch).logits, batch.labels).backward()
        optimiser.step()


def same_state(one, other) -> bool:
    """Whether two (model, optimiser) agree in every bit."""
    weights = zip(one[0].state_dict().values(), other[0].state_dict().values(), strict=True)
    first, second = optimiser_tensors(one[1]), optimiser_tensors(other[1])
    return (
        all(torch.equal(a, b) for a, b in weights)
        and first.keys() == second.keys()
        and all(torch.equal(first[key], second[key]) for key in first)
    )


@pytest.fixture
def directory(tmp_path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run", tiny())


class TestState:
    @pytest.mark.parametrize("optimiser", ["adam", "adamw"])
    @pytest.mark.parametrize("model", ["ordered-memory", "lstm"])
    def test_training_goes_on_from_a_save_as_if_nothing_had_been(self, directory, model, optimiser):
        state = make(0, model, optimiser=optimiser)
        train_a_little(*state)
        position = Position(step=3, epoch=1, batch=2, seconds=1.5, best_accuracy=0.25, rate_scale=0.5, skipped=1)
        directory.save_last(*state, position)
        train_a_little(*state)  # dropout is on: the generator counts too

        again = make(99, model, optimiser=optimiser)
        assert directory.load_last(*again) == position
        assert not same_state(again, state)
        train_a_little(*again)
        assert same_state(again, state)

    def test_an_optimiser_before_its_first_step(self, directory):
        state, again = make(0), make(1)
        directory.save_last(*state, Position())
        directory.load_last(*again)
        assert same_state(again, state)
        assert optimiser_tensors(again[1]) == {}

    def test_what_is_loaded_does_not_hang_on_the_file(self, directory):
        """The file may be replaced while the loaded state is in use, and training must not write into it."""
        state = make(0)
        train_a_little(*state)
        directory.save_last(*state, Position(step=3))
        before = (directory.path / "last" / "optimiser.safetensors").read_bytes()
        again = make(1)
        directory.load_last(*again)
        train_a_little(*again)
        assert (directory.path / "last" / "optimiser.safetensors").read_bytes() == before

    def test_flat_names_round_trip(self):
        state, again = make(0), make(0)
        train_a_little(*state)
        tensors = optimiser_tensors(state[1])
        assert {"0.step", "0.exp_avg", "0.exp_avg_sq"} <= tensors.keys()
        load_optimiser_tensors(again[1], tensors)
        assert optimiser_tensors(again[1]).keys() == tensors.keys()

    def test_a_run_killed_before_its_first_save_starts_anew(self, directory):
        directory.append({"step": 4})
        state = make(0)
        assert directory.load_last(*state) == Position()
        assert same_state(state, make(0))
        assert directory.metrics() == []

    def test_a_run_killed_between_the_renames(self, directory):
        state = make(0)
        train_a_little(*state)
        directory.save_last(*state, Position(step=3))
        directory.save_best(state[0])
        for name in ("last", "best"):
            (directory.path / name).rename(directory.path / f".{name}.replaced")
        again = make(1)
        assert directory.load_last(*again).step == 3
        assert same_state(again, state)
        assert (directory.path / "best").is_dir()
        assert not list(directory.path.glob(".*.replaced"))

    def test_what_killed_writes_left_behind_is_cleared_away(self, directory):
        (directory.path / ".metrics.jsonl.12345.unfinished").write_text("half")
        (directory.path / ".last.unfinished").mkdir()
        (directory.path / ".last.unfinished" / "config.json").write_text("half")
        directory.load_last(*make(0))
        assert not list(directory.path.glob(".*unfinished"))


class TestDisk:
    def saved(self, directory):
        state = make(0)
        train_a_little(*state)
        directory.save_last(*state, Position(step=3))
        return state

    def check(self, directory):
        """The former state is there, whole, and nothing half made beside it."""
        again, expected = make(1), make(0)
        train_a_little(*expected)
        assert directory.load_last(*again) == Position(step=3)
        assert same_state(again, expected)
        assert not list(directory.path.glob(".last*"))

    def test_a_full_disk_leaves_the_former_state(self, directory, monkeypatch):
        state = self.saved(directory)
        train_a_little(*state)
        write_bytes = Path.write_bytes

        def full(self, content):
            if self.name == "optimiser.safetensors":
                write_bytes(self, content[:100])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write_bytes(self, content)

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(InputError, match=r"optimiser\.safetensors: cannot be written: No space left on device"):
            directory.save_last(*state, Position(step=6))
        monkeypatch.undo()
        self.check(directory)

    @pytest.mark.parametrize("name", ["config.json", "weights.safetensors", "optimiser.safetensors"])
    def test_a_system_that_lets_no_file_grow_leaves_the_former_state(self, directory, name):
        state = self.saved(directory)
        train_a_little(*state)
        size = (directory.path / "last" / name).stat().st_size - 1
        with largest_file(size), pytest.raises(InputError, match=r"last.*: cannot be written: File too large"):
            directory.save_last(*state, Position(step=6))
        self.check(directory)

    def test_a_metric_that_does_not_fit_is_told_and_forgotten(self, directory):
        directory.append({"step": 1})
        size = (directory.path / "metrics.jsonl").stat().st_size
        with largest_file(size + 5), pytest.raises(InputError, match=r"metrics\.jsonl: cannot be written"):
            directory.append({"step": 2, "accuracy": 0.5})
        assert (directory.path / "metrics.jsonl").stat().st_size == size + 5
        assert directory.metrics() == [{"step": 1}]


class TestMetrics:
    def test_records_come_back_in_order(self, directory):
        assert directory.metrics() == []
        records = [{"step": 1, "f1": None}, {"step": 2, "f1": 0.5}]
        for record in records:
            directory.append(record)
        assert directory.metrics() == records

    def test_a_line_cut_anywhere_is_left_out(self, directory):
        for step in (1, 2):
            directory.append({"step": step, "accuracy": 0.5})
        path = directory.path / "metrics.jsonl"
        text = path.read_text()
        first = len(text.splitlines()[0]) + 1
        for size in range(first, len(text) - 1):
            path.write_text(text[:size])
            assert directory.metrics() == [{"step": 1, "accuracy": 0.5}]

    def test_what_was_logged_after_the_save_is_forgotten(self, directory):
        state = make(0)
        for step in (2, 4, 6):
            directory.append({"step": step})
            if step == 4:
                directory.save_last(*state, Position(step=step))
        directory.load_last(*state)
        assert directory.metrics() == [{"step": 2}, {"step": 4}]


class TestRefusal:
    def test_a_directory_that_holds_a_run_is_not_taken(self, directory):
        before = (directory.path / "config.json").read_bytes()
        with pytest.raises(InputError, match="there is a run already: go on with it by --resume, or name another"):
            RunDirectory.create(directory.path, tiny(seed=5))
        assert (directory.path / "config.json").read_bytes() == before

    @pytest.mark.parametrize("name", ["run", "run/of/mine"])
    def test_a_place_where_no_run_can_be_is_told_before_anything_is_prepared(self, name, tmp_path):
        (tmp_path / "run").write_text("")
        with pytest.raises(InputError, match="run: not a directory: name another --out"):
            RunDirectory.require_new(tmp_path / name)

    def test_a_folder_where_nothing_may_be_written(self, tmp_path, monkeypatch):
        monkeypatch.setattr("os.access", lambda path, _: path != tmp_path)
        with pytest.raises(InputError, match=f"{tmp_path}: nothing may be written here: name another --out"):
            RunDirectory.require_new(tmp_path / "run")
        assert list(tmp_path.iterdir()) == []

    def test_a_file_in_the_way(self, tmp_path):
        (tmp_path / "run").write_text("")
        with pytest.raises(InputError, match="run: not a directory"):
            RunDirectory.create(tmp_path / "run", tiny())
        with pytest.raises(InputError, match="run: not a directory"):
            RunDirectory.create(tmp_path / "run" / "inner", tiny())

    def test_no_run_to_resume(self, tmp_path):
        for path in (tmp_path, tmp_path / "absent"):
            with pytest.raises(InputError, match=r"there is no run here: it holds no config\.json"):
                RunDirectory.open(path)

    def test_the_experiment_comes_back(self, directory):
        assert RunDirectory.open(directory.path).experiment() == tiny()

    def test_a_damaged_config_is_told(self, directory):
        path = directory.path / "config.json"
        path.write_text(path.read_text()[:50])
        with pytest.raises(InputError, match=r"run/config\.json: not JSON, or cut short"):
            directory.experiment()
        path.write_text('{"training": {"epoch": 3}}')
        with pytest.raises(InputError, match=r"run/config\.json: training: unknown key 'epoch': did you mean 'epochs'"):
            directory.experiment()

    @pytest.mark.parametrize("name", ["weights.safetensors", "optimiser.safetensors", "position.json"])
    @pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
    def test_a_state_cut_short_is_told_by_its_file(self, directory, name, share):
        state = make(0)
        train_a_little(*state)
        directory.save_last(*state, Position(step=3))
        path = directory.path / "last" / name
        content = path.read_bytes()
        path.write_bytes(content[: int(share * (len(content) - 2))])
        with pytest.raises(InputError, match=f"last/{name}: .*cut short"):
            directory.load_last(*make(1))

    def test_a_missing_file_of_the_state_is_told(self, directory):
        directory.save_last(*make(0), Position())
        (directory.path / "last" / "optimiser.safetensors").unlink()
        with pytest.raises(InputError, match=r"last/optimiser\.safetensors: the file is missing"):
            directory.load_last(*make(1))

    def test_a_wrong_position_is_told(self, directory):
        directory.save_last(*make(0), Position())
        path = directory.path / "last" / "position.json"
        for values, message in (({"steps": 1}, "unknown key 'steps'"), ({"step": "one"}, "step is 'one'")):
            path.write_text(json.dumps(values))
            with pytest.raises(InputError, match=rf"last/position\.json: {message}"):
                directory.load_last(*make(1))

    def test_the_optimiser_of_another_model_is_told(self, directory):
        state, other = make(0), make(0, "lstm")
        train_a_little(*state)
        train_a_little(*other)
        directory.save_last(state[0], other[1], Position())
        with pytest.raises(InputError, match=r"optimiser\.safetensors: not the optimiser's state of this model"):
            directory.load_last(*make(1))

    def test_the_weights_of_another_model_are_told(self, directory):
        directory.save_last(*make(0, "lstm"), Position())
        with pytest.raises(InputError, match=r"last/weights\.safetensors: .* is "):
            directory.load_last(*make(1))


class TestLock:
    def test_one_process_at_a_time(self, directory):
        # The lock stands between two openings of the file, in whatever processes they are.
        refused = pytest.raises(InputError, match="run: another process is training here")
        with directory.locked(), refused, directory.locked():
            pass
        with directory.locked():
            pass

    def test_an_error_inside_is_not_taken_for_one_of_the_lock(self, directory):
        with pytest.raises(BrokenPipeError), directory.locked():
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    def test_a_directory_that_cannot_be_locked_is_told(self, tmp_path):
        with (
            pytest.raises(InputError, match="absent: cannot be locked: No such file"),
            RunDirectory(tmp_path / "absent").locked(),
        ):
            pass
