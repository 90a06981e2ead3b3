"""Checkpoints: to disk and back to the same bits, what is damaged is refused, and what is named is found."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from ordered_memory import classifier as classifier_module
from ordered_memory.classifier import CONFIG, WEIGHTS, Classifier, find_checkpoint, shipped
from ordered_memory.errors import InputError
from tests.test_classifier import ENCODERS, LABELS, TEXT, make


@pytest.fixture
def saved(tmp_path) -> Path:
    make().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


class TestSave:
    @pytest.mark.parametrize("head", ["linear", "mlp"])
    @pytest.mark.parametrize("name", list(ENCODERS))
    def test_what_is_loaded_is_what_was_saved(self, tmp_path, name, head):
        model = make(name, head=head)
        model.save_pretrained(tmp_path / "model")
        again = Classifier.from_pretrained(tmp_path / "model")
        for attribute in ("vocabulary", "labels", "model_name", "task", "card", "encoder_config", "config"):
            assert getattr(again, attribute) == getattr(model, attribute)
        assert not again.training
        assert again.predict(TEXT).to_dict() == model.predict(TEXT).to_dict()
        for one, other in zip(again.state_dict().items(), model.state_dict().items(), strict=True):
            assert one[0] == other[0]
            assert torch.equal(one[1], other[1])

    def test_saving_again_takes_the_place_of_the_former_one(self, saved):
        make(seed=1).save_pretrained(str(saved))
        assert Classifier.from_pretrained(str(saved)).card == {"seed": 1}
        assert sorted(item.name for item in saved.iterdir()) == [CONFIG, WEIGHTS]
        assert [item.name for item in saved.parent.iterdir()] == ["model"]

    def test_a_folder_with_something_else_in_it_is_left_alone(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("years of work")
        with pytest.raises(InputError, match=r"holds 'thesis\.tex', .*: name a new folder"):
            make().save_pretrained(tmp_path)
        assert (tmp_path / "thesis.tex").read_text() == "years of work"

    def test_an_empty_folder_may_be_the_working_directory(self, tmp_path, monkeypatch):
        (tmp_path / "empty").mkdir()
        monkeypatch.chdir(tmp_path / "empty")
        make().save_pretrained(".")
        assert Classifier.from_pretrained(tmp_path / "empty").labels == LABELS

    def test_a_link_to_a_folder_stays_a_link(self, saved):
        link = saved.with_name("link")
        link.symlink_to(saved)
        for seed in (1, 2):
            make(seed=seed).save_pretrained(link)
            assert Classifier.from_pretrained(saved).card == {"seed": seed}
        assert link.is_symlink()

    def test_a_full_disk_is_told_and_the_former_model_stays(self, saved, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "write_bytes", full)
        with pytest.raises(InputError, match=r"weights\.safetensors: cannot be written: No space left on device"):
            make(seed=1).save_pretrained(saved)
        assert Classifier.from_pretrained(saved).card == {"seed": 0}
        assert [item.name for item in saved.parent.iterdir()] == ["model"]


def change_config(folder: Path, **changes) -> None:
    values = json.loads((folder / CONFIG).read_text())
    values = {name: value for name, value in {**values, **changes}.items() if value != "(absent)"}
    (folder / CONFIG).write_text(json.dumps(values))


def change_weights(folder: Path, change) -> None:
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file({name: value.clone() for name, value in weights.items()}, folder / WEIGHTS)


class TestDamage:
    def test_weights_cut_anywhere_are_told(self, saved):
        whole = (saved / WEIGHTS).read_bytes()
        header = int.from_bytes(whole[:8], "little")
        for size in (0, 1, 7, 8, 9, header // 2, header + 7, header + 8, len(whole) // 2, len(whole) - 1):
            (saved / WEIGHTS).write_bytes(whole[:size])
            with pytest.raises(InputError, match=r"weights\.safetensors: damaged or cut short"):
                Classifier.from_pretrained(saved)

    def test_weights_that_are_something_else_are_told(self, saved):
        for content in (b"PK\x03\x04" + bytes(100), b"\xff" * 64, bytes(64), b'{"json": 1}' * 9):
            (saved / WEIGHTS).write_bytes(content)
            with pytest.raises(InputError, match=r"weights\.safetensors: damaged or cut short"):
                Classifier.from_pretrained(saved)

    @settings(deadline=None, max_examples=60)
    @given(place=st.integers(0, 200), value=st.integers(0, 255))
    def test_any_byte_of_the_header_may_be_wrong(self, tmp_path_factory, place, value):
        folder = tmp_path_factory.mktemp("damaged") / "model"
        make().save_pretrained(folder)
        content = bytearray((folder / WEIGHTS).read_bytes())
        content[place] = value
        (folder / WEIGHTS).write_bytes(content)
        try:
            Classifier.from_pretrained(folder)
        except InputError as error:
            assert WEIGHTS in str(error)  # noqa: PT017 - some bytes do not matter

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda weights: weights.pop("embedding.weight"), "'embedding.weight' is missing"),
            (lambda weights: weights.update(extra=torch.zeros(1)), "'extra' is not of this model"),
            (
                lambda weights: weights.update({"embedding.weight": torch.zeros(3, 5)}),
                r"'embedding.weight' has shape \(3, 5\), and the config asks for \(16, 5\)",
            ),
        ],
    )
    def test_weights_of_another_model_are_told(self, saved, change, message):
        change_weights(saved, change)
        with pytest.raises(InputError, match=rf"weights\.safetensors: {message}"):
            Classifier.from_pretrained(saved)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"format": 2}, "not a checkpoint that this version"),
            ({"format": "(absent)"}, "not a checkpoint that this version"),
            ({"model": "perceptron"}, "model is 'perceptron', and must be one of ordered-memory, lstm"),
            ({"model": []}, r"model is \[\], and must be one of"),
            ({"encoder": {"hidden_sizes": 6}}, "encoder: unknown key 'hidden_sizes': did you mean 'hidden_size'"),
            ({"encoder": {"hidden_size": 0}}, "encoder: hidden_size is 0"),
            ({"encoder": "(absent)"}, "encoder: not a JSON object"),
            ({"classifier": {"head": "round"}}, "classifier: head is 'round'"),
            ({"classifier": [1]}, "classifier: not a JSON object"),
            ({"vocabulary": "(absent)"}, "'vocabulary' is missing"),
            ({"vocabulary": {"tokens": ["a", "a"]}}, "vocabulary: 'a' is there twice"),
            ({"vocabulary": {"tokens": 3}}, "vocabulary: 'tokens' must be a list"),
            ({"labels": "0123"}, "'labels' is missing or not a list"),
            ({"labels": []}, "'labels' must be different strings, at least one"),
            ({"labels": [1, 2]}, "'labels' must be different strings"),
            ({"labels": ["1", "1"]}, "'labels' must be different strings"),
            ({"task": 3}, "'task' is 3, and must be a name"),
        ],
    )
    def test_a_wrong_config_is_told(self, saved, changes, message):
        change_config(saved, **changes)
        with pytest.raises(InputError, match=rf"model/config\.json: .*{message}"):
            Classifier.from_pretrained(saved)

    def test_a_config_of_another_size_is_told_by_the_weights(self, saved):
        change_config(saved, labels=["0", "1"])
        with pytest.raises(InputError, match=r"'head\.1\.bias' has shape \(10,\), and the config asks for \(2,\)"):
            Classifier.from_pretrained(saved)

    @pytest.mark.parametrize("content", ["", "{", "[]", "3"])
    def test_a_config_that_is_none_is_told(self, saved, content):
        (saved / CONFIG).write_text(content)
        with pytest.raises(InputError, match=r"config\.json: not "):
            Classifier.from_pretrained(saved)

    def test_missing_files_are_told(self, saved):
        (saved / CONFIG).unlink()
        with pytest.raises(InputError, match=r"config\.json: cannot be read: No such file"):
            Classifier.from_pretrained(saved)
        (saved / WEIGHTS).unlink()
        with pytest.raises(InputError, match=r"neither a run directory nor a checkpoint: it holds no weights"):
            Classifier.from_pretrained(saved)


class TestFind:
    def test_a_run_directory_gives_its_best(self, tmp_path):
        make(seed=1).save_pretrained(tmp_path / "run" / "last")
        with pytest.raises(InputError, match="there is no best checkpoint: the run has not evaluated yet"):
            Classifier.from_pretrained(tmp_path / "run")
        make(seed=2).save_pretrained(tmp_path / "run" / "best")
        assert Classifier.from_pretrained(tmp_path / "run").card == {"seed": 2}
        assert Classifier.from_pretrained(tmp_path / "run" / "last").card == {"seed": 1}

    def test_the_best_is_found_between_its_two_renames(self, tmp_path):
        make(seed=2).save_pretrained(tmp_path / "best")
        (tmp_path / "best").rename(tmp_path / ".best.replaced")
        assert Classifier.from_pretrained(tmp_path).card == {"seed": 2}

    def test_nothing_of_that_name_names_what_is_shipped(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(
            InputError, match=r"nothing: there is no such folder, and no shipped checkpoint .*shipped: "
        ):
            find_checkpoint("nothing")

    def test_a_name_too_long_for_the_system_is_told(self):
        with pytest.raises(InputError, match="File name too long"):
            find_checkpoint("[MAX 1 2 ] " * 100)

    def test_shipped_checkpoints_go_by_name(self, tmp_path, monkeypatch):
        make(seed=3).save_pretrained(tmp_path / "checkpoints" / "listops")
        monkeypatch.setattr(classifier_module, "files", lambda _: tmp_path)
        monkeypatch.chdir(tmp_path)
        assert shipped() == ["listops"]
        assert Classifier.from_pretrained("listops").card == {"seed": 3}
        shutil.rmtree(tmp_path / "checkpoints")
        assert shipped() == []

    def test_each_shipped_checkpoint_answers(self):
        for name in shipped():
            model = Classifier.from_pretrained(name)
            if model.task == "listops":
                assert model.predict("[MAX 2 9 ]").label == "9"
            if model.task == "logic":
                for left, relation, right in (
                    ("( a ( and b ) )", "<", "a"),
                    ("( a ( and b ) )", "|", "( not a )"),
                    ("( not ( a ( and b ) ) )", "=", "( ( not a ) ( or ( not b ) ) )"),
                ):
                    assert model.predict(left, right).label == relation
