"""Word vectors in a run: they start the embeddings, the config tells the file, and a run goes on with the same one."""

import dataclasses
import hashlib

import numpy as np
import pytest
import torch

from ordered_memory.classifier import Classifier, load_tensors
from ordered_memory.config import ClassifierConfig, Experiment, OrderedMemoryConfig, TrainingConfig
from ordered_memory.errors import InputError
from ordered_memory.tasks.sst import SSTConfig
from ordered_memory.training.loop import train
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import RunDirectory
from tests.treebank import VECTORS, VECTORS_FILE, write_treebank, write_vectors


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """The folder of data, with trees and vectors."""
    monkeypatch.setenv("ORDERED_MEMORY_DATA", str(tmp_path / "data"))
    write_vectors(write_treebank(tmp_path / "data"))
    return tmp_path / "data"


def experiment(**classifier) -> Experiment:
    settings = {"embedding_size": 4, "vectors": "auto", "freeze_vectors": True, "shared_input_dropout": True}
    return Experiment(
        task="sst",
        data=SSTConfig(),
        encoder=OrderedMemoryConfig(hidden_size=6, num_slots=3),
        classifier=ClassifierConfig(**(settings | classifier)),
        training=TrainingConfig(epochs=2, batch_size=4, learning_rate=0.01, checkpoint_seconds=0),
    )


class Telling(Silent):
    """Keeps what is told, and stops after so many steps, as a kill would."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.told: list[str] = []
        self.stop_after = stop_after

    def tell(self, text: str) -> None:
        self.told.append(text)

    def step(self, position, share) -> None:  # noqa: ARG002
        if position.step == self.stop_after:
            raise RuntimeError("killed")


def test_frozen_vectors_are_the_embeddings_of_the_trained_model(data, tmp_path):
    progress = Telling()
    result = train(experiment(), tmp_path / "run", progress)
    assert progress.told[1].endswith(f"{VECTORS_FILE}: 4 of 14 words have one")
    (data / "glove" / VECTORS_FILE).unlink()  # the checkpoint holds all that is needed
    model = Classifier.from_pretrained(tmp_path / "run")
    for word, values in VECTORS.items():
        if word == "elsewhere":
            assert word not in model.vocabulary
        else:  # also a word that only the test set has
            row = model.embedding.weight[model.vocabulary.encode([word])[0]]
            np.testing.assert_array_equal(row.detach(), np.array(values, dtype=np.float32))
    lovely = model.embedding.weight[model.vocabulary.encode(["lovely"])[0]]
    assert 0 < lovely.abs().max() <= 0.1
    assert not model.embedding.weight.requires_grad
    assert model.predict("A delightful FILM").label in ("negative", "positive")
    assert result["config"]["classifier"]["vectors"] == VECTORS_FILE


def test_vectors_that_are_not_frozen_are_trained(tmp_path):
    train(experiment(freeze_vectors=False), tmp_path / "run", Silent())
    weights = load_tensors(tmp_path / "run" / "last" / "weights.safetensors")["embedding.weight"]
    model = Classifier.from_pretrained(tmp_path / "run")
    row = weights[model.vocabulary.encode(["film"])[0]]
    assert not np.array_equal(row, np.array(VECTORS["film"], dtype=np.float32))
    np.testing.assert_allclose(row, VECTORS["film"], atol=0.5)


def test_the_config_tells_the_file(data, tmp_path):
    train(experiment(), tmp_path / "run", Silent())
    config = RunDirectory.open(tmp_path / "run").experiment().classifier
    digest = hashlib.sha256((data / "glove" / VECTORS_FILE).read_bytes()).hexdigest()
    assert (config.vectors, config.vectors_sha256) == (VECTORS_FILE, digest)


def test_without_a_file_the_embeddings_are_learned(data, tmp_path):
    (data / "glove" / VECTORS_FILE).unlink()
    progress = Telling()
    train(experiment(), tmp_path / "run", progress)
    assert progress.told[1] == f"no word vectors: there is no *.4d*.txt in {data / 'glove'}; the embeddings are learned"
    config = RunDirectory.open(tmp_path / "run").experiment().classifier
    assert (config.vectors, config.vectors_sha256) == (None, None)
    model = Classifier.from_pretrained(tmp_path / "run")
    assert model.embedding.weight.requires_grad
    assert "delightful" not in model.vocabulary


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path):
    train(experiment(), tmp_path / "whole", Silent())
    with pytest.raises(RuntimeError, match="killed"):
        train(experiment(), tmp_path / "killed", Telling(stop_after=5))
    train(experiment(), tmp_path / "killed", Silent(), resume=True)
    ours, theirs = (load_tensors(tmp_path / name / "last" / "weights.safetensors") for name in ("whole", "killed"))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_does_not_go_on_with_another_file(data, tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        train(experiment(), tmp_path / "run", Telling(stop_after=2))
    path = data / "glove" / VECTORS_FILE
    path.write_text(path.read_text().replace("0.1 -0.2", "0.1 0.2"))
    with pytest.raises(InputError, match=f"{VECTORS_FILE}: not the file that the config names: its SHA-256 is"):
        train(experiment(), tmp_path / "run", Silent(), resume=True)


def test_bad_vectors_leave_nothing_behind(tmp_path):
    for changes, message in (
        ({"embedding_size": 5, "vectors": VECTORS_FILE}, "its vectors have 4 numbers, and embedding_size is 5"),
        ({"vectors": "absent.txt"}, "absent.txt: there is no such file"),
        ({"vectors_sha256": "0" * 64}, "not the file that the config names"),
    ):
        with pytest.raises(InputError, match=message):
            train(experiment(**changes), tmp_path / "run", Silent())
        assert not (tmp_path / "run").exists()


def test_a_checksum_needs_a_file():
    with pytest.raises(InputError, match="vectors_sha256 is named, yet no file of vectors is"):
        dataclasses.replace(ClassifierConfig(), vectors_sha256="0" * 64)
