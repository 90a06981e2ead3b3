"""A model that is shown the trees of another, and the scouts of whom the best becomes that other one."""

import dataclasses
import signal
from pathlib import Path

import pytest
import torch

from ordered_memory import presets
from ordered_memory.classifier import Classifier
from ordered_memory.config import Experiment, TrainingConfig
from ordered_memory.encoders.ordered_memory import distance_from_trees
from ordered_memory.errors import InputError
from ordered_memory.tasks.listops import ListOps
from ordered_memory.training.batching import Dataset
from ordered_memory.training.evaluation import evaluate
from ordered_memory.training.loop import Interrupted, scouts_of, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position, RunDirectory
from ordered_memory.training.teacher import SCOUTS, Teacher
from tests.training import Listener, everything_that_lasts, tiny


@pytest.fixture
def teacher(tmp_path) -> str:
    train(tiny(seed=5), tmp_path / "teacher", Silent())
    return str(tmp_path / "teacher")


class TestTeacher:
    def test_it_shows_the_trees_of_its_hard_pointer(self, tmp_path, teacher, monkeypatch):
        model = Classifier.from_pretrained(teacher)
        seen, losses = [], Classifier.losses
        monkeypatch.setattr(Classifier, "losses", lambda self, batch: seen.append(batch) or losses(self, batch))
        train(tiny(teacher=teacher, epochs=1), tmp_path / "run", Silent())
        assert seen
        for batch in seen:
            expected = model.parse(batch._replace(trees=None), pointer="hard").spans
            assert all((one == other).all() for one, other in zip(batch.trees, expected, strict=True))

    def test_it_leaves_when_told(self, tmp_path, teacher, monkeypatch):
        seen, losses = [], Classifier.losses
        monkeypatch.setattr(Classifier, "losses", lambda self, batch: seen.append(batch) or losses(self, batch))
        train(tiny(teacher=teacher, teacher_until=0.25), tmp_path / "run", Silent())
        assert [batch.trees is not None for batch in seen] == [True] * 3 + [False] * 9

    def test_the_student_comes_nearer_to_its_trees(self, tmp_path, teacher):
        distances = []
        for name, told in (("alone", {}), ("taught", {"teacher": teacher})):
            experiment = tiny(epochs=60, **told)
            larger = dataclasses.replace(experiment.encoder, hidden_size=32, dropout=0.0, attention_dropout=0.0)
            train(dataclasses.replace(experiment, encoder=larger), tmp_path / name, Silent())
            student = Classifier.from_pretrained(tmp_path / name / "last").eval()
            examples = ListOps(RunDirectory.open(tmp_path / name).experiment().data).splits()["validation"]
            batch = Dataset.encode(examples, student).batch(range(len(examples)), student)
            shown = Teacher.load(teacher, student).show(batch).trees
            with torch.inference_mode():
                pointers = student.parse(batch).pointer.transpose(0, 1)
            distances.append(distance_from_trees(pointers, batch.lengths, shown).item())
        assert distances[1] < 0.8 * distances[0]

    def test_another_vocabulary_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="teacher logic: it has another vocabulary"):
            train(tiny(teacher="logic"), tmp_path / "run", Silent())
        assert not (tmp_path / "run").exists()

    def test_a_student_without_a_pointer_is_refused(self, tmp_path, teacher):
        with pytest.raises(InputError, match="the student is of the kind lstm, and must be ordered-memory"):
            train(tiny("lstm", teacher=teacher), tmp_path / "run", Silent())

    def test_a_teacher_without_a_pointer_is_refused(self, tmp_path, teacher):
        train(tiny("lstm"), tmp_path / "lstm", Silent())
        with pytest.raises(InputError, match="the teacher is of the kind lstm"):
            Teacher.load(str(tmp_path / "lstm"), Classifier.from_pretrained(teacher))

    def test_one_that_is_not_there(self, tmp_path):
        with pytest.raises(InputError, match="nowhere"):
            train(tiny(teacher="nowhere"), tmp_path / "run", Silent())
        assert not (tmp_path / "run").exists()


@pytest.fixture
def scout(monkeypatch) -> Experiment:
    """A scout for the task of these tests, as small as the rest."""
    made = tiny(evaluate_every=6)
    monkeypatch.setitem(presets.PRESETS, "listops-scout", made)
    return made


def evaluate_half_way(folder: Path, seed: int) -> float:
    """What that scout's trees were worth after half of its training."""
    experiment = presets.PRESETS["listops-scout"]
    experiment = dataclasses.replace(experiment, training=dataclasses.replace(experiment.training, seed=seed))
    train(experiment, folder, Silent(), until=0.5)
    examples = ListOps(experiment.data).splits()["validation"]
    return evaluate(Classifier.from_pretrained(folder), examples, str, pointer="hard").accuracy


class TestScouts:
    def test_the_best_on_validation_data_is_the_teacher(self, tmp_path, scout, monkeypatch):
        taught = []
        monkeypatch.setattr(Teacher, "load", classmethod(lambda _, name, __: taught.append(name)))
        result = train(tiny(scouts=3, seed=2), tmp_path / "run", Silent())
        assert [one["seed"] for one in result["scouts"]] == [6, 7, 8]
        accuracies = [one["accuracy"] for one in result["scouts"]]
        examples = ListOps(scout.data).splits()["validation"]
        for number, accuracy in enumerate(accuracies):
            path = tmp_path / "run" / SCOUTS / str(number)
            assert RunDirectory.open(path).experiment().training == dataclasses.replace(scout.training, seed=6 + number)
            with_hard_pointer = evaluate(Classifier.from_pretrained(path), examples, str, pointer="hard")
            assert accuracy == with_hard_pointer.accuracy
        assert taught == [str(tmp_path / "run" / SCOUTS / str(accuracies.index(max(accuracies))))]

    @pytest.mark.usefixtures("scout")
    def test_the_best_half_way_goes_on_alone(self, tmp_path, monkeypatch):
        taught = []
        monkeypatch.setattr(Teacher, "load", classmethod(lambda _, name, __: taught.append(name)))
        whole = train(tiny(scouts=3), tmp_path / "whole", Silent())["scouts"]
        half = train(tiny(scouts=3, scouts_until=0.5), tmp_path / "half", Silent())["scouts"]
        assert [one["steps"] for one in whole] == [12] * 3
        assert sorted(one["steps"] for one in half) == [6, 6, 12]
        chosen = next(number for number, one in enumerate(half) if one["steps"] == 12)
        assert taught[-1] == str(tmp_path / "half" / SCOUTS / str(chosen))
        folders = [tmp_path / name / SCOUTS / str(chosen) for name in ("whole", "half")]
        first, second = ((folder / "last" / "weights.safetensors").read_bytes() for folder in folders)
        assert first == second  # as if it had never waited for the others
        others = [one["accuracy"] for one in half if one["steps"] == 6]
        assert evaluate_half_way(tmp_path / "again", chosen) >= max(others)

    @pytest.mark.usefixtures("scout")
    def test_they_have_the_data_of_the_run_and_are_not_measured_on_its_test_set(self, tmp_path):
        train(tiny(scouts=1), tmp_path / "run", Silent())
        run, other = (RunDirectory.open(path) for path in (tmp_path / "run", tmp_path / "run" / SCOUTS / "0"))
        assert run.experiment().data == other.experiment().data
        assert (run.path / "result.json").exists()
        assert not (other.path / "result.json").exists()

    @pytest.mark.usefixtures("scout")
    @pytest.mark.parametrize("until", [1.0, 0.5])
    @pytest.mark.parametrize("stops", [(3,), (8,), (15,), (20,), (28,), (8, 28)])
    def test_stopped_in_a_scout_or_after_it_and_resumed_to_the_same_bits(self, tmp_path, stops, until):
        experiment = tiny(scouts=2, scouts_until=until)  # twelve steps each, or six, six, and six of one of them
        train(experiment, tmp_path / "whole", Silent())
        taken = 0

        def stop(_: Position) -> None:
            nonlocal taken
            taken += 1
            if taken in stops:
                signal.raise_signal(signal.SIGTERM)

        for again in range(len(stops)):
            with pytest.raises(Interrupted):
                train(experiment, tmp_path / "resumed", Listener(stop), resume=again > 0)
        train(experiment, tmp_path / "resumed", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "whole") == everything_that_lasts(tmp_path / "resumed")

    def test_a_task_without_a_preset_for_them(self, tmp_path):
        with pytest.raises(InputError, match="listops-scout: listops has no such preset"):
            train(tiny(scouts=1), tmp_path / "run", Silent())
        assert not (tmp_path / "run").exists()

    def test_a_model_without_a_pointer(self):
        with pytest.raises(InputError, match="scouts is 1, and lstm has no pointer"):
            scouts_of(tiny("lstm", scouts=1))

    def test_scouts_and_a_teacher_do_not_go_together(self):
        with pytest.raises(InputError, match="leave one of them out"):
            TrainingConfig(scouts=1, teacher="logic")


def test_the_logic_preset_sends_scouts_of_its_own_split():
    experiment = presets.preset("logic")
    data = dataclasses.replace(experiment.data, split="B")
    scouts = scouts_of(dataclasses.replace(experiment, data=data))
    assert len(scouts) == experiment.training.scouts > 1
    assert {scout.data for scout in scouts} == {data}
    assert len({scout.training.seed for scout in scouts}) == len(scouts)
