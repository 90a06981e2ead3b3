"""Presets: those that the README names are there, and each can be trained with each model."""

import dataclasses
from collections.abc import Iterator

import pytest

from ordered_memory.classifier import Classifier
from ordered_memory.cli.arguments import data_in
from ordered_memory.config import ENCODER_CONFIGS, LSTMConfig, OrderedMemoryConfig
from ordered_memory.errors import InputError
from ordered_memory.presets import DEFAULTS, PRESETS, preset
from ordered_memory.tasks import TASKS
from ordered_memory.training.turns import needs_pointer
from tests.treebank import write_treebank

TEXTS = {
    "listops": ["[MAX 2 [MIN 4 7 ] 0 ]"],
    "logic": ["( a ( and b ) )", "( not a )"],
    "sst": ["(3 (2 a) (3 (3 lovely) (2 film)))"],
    "files": ["( ( the cat ) sat )"],
}


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory) -> Iterator[None]:
    """A made-up treebank: the vocabulary of its task is in its files."""
    with data_in(write_treebank(tmp_path_factory.mktemp("data"))):
        yield


def test_each_task_has_a_preset_of_its_own():
    assert DEFAULTS.keys() == TASKS.keys()
    for task, name in DEFAULTS.items():
        assert preset(task) is PRESETS[name]
        assert PRESETS[name].task == task


@pytest.mark.parametrize("model", ENCODER_CONFIGS)
@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_makes_each_model(name, model, tmp_path):
    experiment = preset(PRESETS[name].task, name, model)
    assert experiment.model == model
    assert type(experiment.encoder) is ENCODER_CONFIGS[model]
    data = experiment.data
    if experiment.task == "files":
        (tmp_path / "train.tsv").write_text("yes\t( the cat )\nno\t( the dog )\n" * 5)
        data = dataclasses.replace(data, train=str(tmp_path / "train.tsv"), gold_trees=True)
    task = TASKS[experiment.task](data)
    made = Classifier(
        task.vocabulary,
        task.labels,
        model,
        experiment.encoder,
        experiment.classifier,
        sentences=task.sentences,
    )
    sentences, trees = zip(*map(task.sentence, TEXTS[experiment.task]), strict=True)
    assert made.predict(*sentences, trees=trees).label in task.labels


def test_another_model_changes_the_encoder_only():
    ours, other = preset("listops", "listops-paper"), preset("listops", "listops-paper", "lstm")
    assert isinstance(ours.encoder, OrderedMemoryConfig)
    assert isinstance(other.encoder, LSTMConfig)
    assert (ours.data, ours.classifier, ours.training) == (other.data, other.classifier, other.training)


@pytest.mark.parametrize("model", ENCODER_CONFIGS)
def test_every_model_but_one_is_shown_the_same_short_examples(model):
    ours, theirs = (preset("listops", "listops", name).training for name in ("ordered-memory", model))
    shown = (ours.short_share, ours.short_length)
    if model == "cooperative":  # it learns sums while its trees are still random, and so from the shortest
        shown = 0.9, 10
    assert (theirs.short_share, theirs.short_length) == shown
    assert ours.short_share > 0
    assert (theirs.dropout_from > 0) == (model == "ordered-memory")
    assert theirs.short_epochs / theirs.epochs == pytest.approx(ours.short_epochs / ours.epochs, abs=0.02)


@pytest.mark.parametrize("model", ENCODER_CONFIGS)
def test_trees_of_logic_are_sought_by_the_model_that_has_a_pointer_only(model):
    training = preset("logic", "logic", model).training
    ours = model == "ordered-memory"
    assert (training.written, training.drawn_steps > 0, training.sharpen) == (ours, ours, ours)
    assert (training.seeking_steps > 0, needs_pointer(training) is not None) == (ours, ours)


def test_the_papers_setting_of_listops():
    paper = PRESETS["listops-paper"]
    assert (paper.encoder.hidden_size, paper.encoder.num_slots) == (128, 21)
    assert (paper.encoder.dropout, paper.encoder.attention_dropout) == (0.1, 0.3)
    assert (paper.data.pool_size, paper.data.test_size, paper.data.train_max_length) == (100_000, 10_000, 50)
    assert (paper.training.batch_size, paper.training.learning_rate, paper.training.clip) == (128, 1e-3, 1.0)


@pytest.mark.parametrize("model", ["transformer", "universal-transformer"])
def test_the_papers_transformers_are_as_deep_as_ordered_memory_has_slots(model):
    faithful, working = preset("listops", "listops-paper", model), preset("listops", "listops", model)
    depth = "num_layers" if model == "transformer" else "num_steps"
    assert (getattr(faithful.encoder, depth), faithful.encoder.norm) == (
        PRESETS["listops-paper"].encoder.num_slots,
        "after",
    )
    assert getattr(working.encoder, depth) < 10
    assert (working.encoder.norm, working.training.warmup > 0, working.data) == ("before", True, faithful.data)


def test_the_papers_setting_of_logic():
    paper = PRESETS["logic-paper"]
    task = TASKS["logic"](paper.data)
    made = Classifier(task.vocabulary, task.labels, paper.model, paper.encoder, paper.classifier, sentences=2)
    # As many as the released model has, with the padding's row.
    assert sum(parameter.numel() for parameter in made.parameters()) == 1_247_608
    assert (paper.encoder.num_slots, paper.encoder.test_slots) == (12, 24)
    assert (paper.encoder.dropout, paper.encoder.attention_dropout) == (0.2, 0.2)
    assert (paper.classifier.input_dropout, paper.classifier.output_dropout) == (0.1, 0.3)
    assert made.embedding.weight.abs().max() <= 0.1


def test_the_papers_setting_of_sst():
    paper = PRESETS["sst-paper"]
    task = TASKS["sst"](paper.data)
    made = Classifier(task.vocabulary, task.labels, paper.model, paper.encoder, paper.classifier)
    # As many as the released model of two classes has without its embeddings.
    trained = [parameter for parameter in made.parameters() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == 2_526_303
    assert (paper.encoder.num_slots, paper.encoder.dropout, paper.encoder.attention_dropout) == (15, 0.2, 0.2)
    assert (paper.classifier.input_dropout, paper.classifier.output_dropout) == (0.3, 0.4)
    assert made.embedding.weight.shape[1] == 300


def test_an_unknown_preset_names_those_there_are():
    with pytest.raises(
        InputError, match="--preset tiny: listops has no such preset; there are listops, listops-paper, "
    ):
        preset("listops", "tiny")


def test_a_model_may_train_in_a_way_of_its_own():
    ours, other = preset("listops", "listops-paper"), preset("listops", "listops-paper", "cooperative")
    assert (other.training.optimiser, other.training.batch_size, other.training.clip) == ("adadelta", 64, 0.5)
    assert (other.training.learning_rate, other.encoder.parser_rate, other.encoder.ppo_updates) == (1.0, 0.1, 15)
    assert ours.training.optimiser == "adam"


def test_what_finds_no_trees_with_its_papers_setting_has_another_in_the_preset_that_works():
    faithful, working = (preset("listops", name, "cooperative") for name in ("listops-paper", "listops"))
    assert working.encoder.entropy_weight > 100 * faithful.encoder.entropy_weight
    assert working.encoder.ppo_updates < faithful.encoder.ppo_updates
    assert working.encoder.hidden_size == faithful.encoder.hidden_size
    for task in ("logic", "sst", "files"):
        assert preset(task, task, "cooperative").encoder == working.encoder
