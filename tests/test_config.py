"""Configs: to JSON and back, and what is said to each kind of wrong value."""

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordered_memory.config import (
    ENCODER_CONFIGS,
    ClassifierConfig,
    Experiment,
    LSTMConfig,
    OrderedMemoryConfig,
    TrainingConfig,
    from_dict,
    parse_duration,
)
from ordered_memory.errors import InputError
from ordered_memory.presets import PRESETS, preset
from ordered_memory.tasks.listops import ListOpsConfig


def through_json(values):
    return json.loads(json.dumps(values))


class TestRoundTrip:
    @pytest.mark.parametrize("model", ENCODER_CONFIGS)
    @pytest.mark.parametrize("name", PRESETS)
    def test_every_preset_comes_back_from_json_as_it_was(self, name, model):
        experiment = preset(PRESETS[name].task, name, model)
        again = Experiment.from_dict(through_json(experiment.to_dict()))
        assert again == experiment
        assert type(again.encoder) is type(experiment.encoder)

    def test_json_is_plain(self):
        values = Experiment().to_dict()
        assert json.loads(json.dumps(values, allow_nan=False))["data"]["operators"] == ["MIN", "MAX", "MED", "SM"]

    @given(
        seed=st.integers(0, 2**64 - 1),
        learning_rate=st.floats(1e-12, 1e6),
        budget=st.none() | st.integers(1, 10**6).map(lambda seconds: f"{seconds}s"),
        schedule=st.sampled_from(["plateau", "cosine", "constant"]),
        warmup=st.floats(0, 1, exclude_max=True),
        draws=st.integers(1, 99),
    )
    def test_any_training_config_comes_back(self, **values):
        config = TrainingConfig(**values)
        assert from_dict(TrainingConfig, through_json(dataclasses.asdict(config)), "config") == config

    def test_what_is_left_out_takes_its_default(self):
        assert Experiment.from_dict({}) == Experiment()
        assert Experiment.from_dict({"training": {"seed": 3}}).training == TrainingConfig(seed=3)

    def test_the_encoder_left_out_is_that_of_the_model_named(self):
        assert Experiment.from_dict({"model": "lstm"}).encoder == LSTMConfig()


class TestRefusal:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"trainning": {}}, "run.json: unknown key 'trainning': did you mean 'training'?"),
            (
                {"training": {"learning_rat": 1.0}},
                "training: unknown key 'learning_rat': did you mean 'learning_rate'?",
            ),
            ({"encoder": {"num_slot": 3}}, "encoder: unknown key 'num_slot': did you mean 'num_slots'?"),
            ({"data": {"pool": 3}}, "data: unknown key 'pool'"),
            ({"training": {"zzz": 1}}, "unknown key 'zzz': the keys are seed, epochs"),
            ({"encoder": {"_ids": 1}}, "unknown key '_ids'"),
            ([], "run.json: not a JSON object"),
            ({"training": [1]}, "run.json: training: not a JSON object"),
            ({"classifier": None}, "run.json: classifier: not a JSON object"),
            ({"task": "listop"}, "task is 'listop', and must be one of listops"),
            ({"task": []}, "task is [], and must be one of listops"),
            ({"model": None}, "model is None, and must be one of ordered-memory, lstm"),
            ({"model": {}}, "model is {}, and must be one of ordered-memory, lstm"),
            ({"training": {"epochs": "3"}}, "training: epochs is '3', and must be of type int"),
            ({"training": {"epochs": 3.0}}, "epochs is 3.0, and must be of type int"),
            ({"training": {"epochs": True}}, "epochs is True, and must be of type int"),
            ({"training": {"clip": None}}, "clip is None, and must be of type float"),
            ({"training": {"clip": False}}, "clip is False, and must be of type float"),
            ({"training": {"budget": 5}}, "budget is 5, and must be of type str"),
            ({"training": {"optimiser": "sgd"}}, "optimiser is 'sgd', and must be one of 'adam', 'adamw'"),
            ({"training": {"schedule": ["cosine"]}}, "schedule is ['cosine'], and must be one of"),
            ({"training": {"written": 1}}, "written is 1, and must be of type bool"),
            ({"training": {"rounds": 2}}, "training: rounds is 2: this version has no such setting any more"),
            ({"data": {"operators": "MAX"}}, "operators is 'MAX', and must be a list"),
            ({"data": {"operators": ["MAX", 1]}}, "operators is 1, and must be of type str"),
            ({"data": {"train_max_length": "long"}}, "train_max_length is 'long', and must be of type int"),
            ({"encoder": {"num_layers": 2}}, "unknown key 'num_layers'"),
            ({"model": "lstm", "encoder": {"num_slots": 2}}, "encoder: unknown key 'num_slots'"),
        ],
    )
    def test_wrong_keys_and_types_are_told_by_name_and_place(self, values, message):
        with pytest.raises(InputError) as caught:
            Experiment.from_dict(values, "run.json")
        assert message in str(caught.value)
        assert str(caught.value).startswith("run.json: ")

    @pytest.mark.parametrize(
        ("kind", "name", "bad"),
        [
            *((OrderedMemoryConfig, name, bad) for name in ("hidden_size", "num_slots") for bad in (0, -1)),
            *(
                (OrderedMemoryConfig, name, bad)
                for name in ("dropout", "attention_dropout", "threshold")
                for bad in (-0.1, 1.0, math.nan, math.inf)
            ),
            (LSTMConfig, "hidden_size", 0),
            (LSTMConfig, "num_layers", 0),
            (LSTMConfig, "dropout", 1.0),
            (ClassifierConfig, "embedding_size", 0),
            (ClassifierConfig, "input_dropout", 1.0),
            (ClassifierConfig, "output_dropout", -1e-9),
            (TrainingConfig, "seed", -1),
            (TrainingConfig, "seed", 2**64),
            *((TrainingConfig, name, 0) for name in ("epochs", "batch_size", "clip", "halve_after")),
            *(
                (TrainingConfig, name, bad)
                for name in ("learning_rate", "epsilon", "clip", "drawn_sharpness")
                for bad in (0.0, -1.0, math.nan, math.inf)
            ),
            *((TrainingConfig, name, bad) for name in ("beta1", "beta2", "warmup") for bad in (-0.1, 1.0, math.nan)),
            *((TrainingConfig, name, -1) for name in ("evaluate_every", "early_stop", "copy_steps", "drawn_steps")),
            *(
                (TrainingConfig, name, bad)
                for name in ("weight_decay", "checkpoint_seconds")
                for bad in (-1.0, math.nan, math.inf)
            ),
            *((TrainingConfig, "budget", bad) for bad in ("", "soon", "5x", "-5m", "0s", "m", "5m5h", "1e3s", "inf")),
            (ListOpsConfig, "pool_size", 3),
        ],
    )
    def test_values_out_of_range_are_told_by_name(self, kind, name, bad):
        with pytest.raises(InputError, match=f"^{name} is "):
            kind(**{name: bad})

    def test_a_value_out_of_range_in_a_file_is_told_with_its_place(self):
        with pytest.raises(InputError, match=r"^run\.json: training: epochs is 0, and must be greater than 0"):
            Experiment.from_dict({"training": {"epochs": 0}}, "run.json")

    def test_the_limits_themselves_are_allowed(self):
        TrainingConfig(seed=2**64 - 1, weight_decay=0.0, beta1=0.0, warmup=0.0, early_stop=0, checkpoint_seconds=0.0)
        OrderedMemoryConfig(hidden_size=1, num_slots=1, dropout=0.0, threshold=0.0)


class TestDuration:
    @pytest.mark.parametrize(
        ("text", "seconds"),
        [("90s", 90), ("5m", 300), ("1h30m", 5400), ("45", 45), ("0.5m", 30), ("1h1m1s", 3661), (" 2m ", 120)],
    )
    def test_seconds(self, text, seconds):
        assert parse_duration(text) == seconds
        assert TrainingConfig(budget=text).budget_seconds == seconds

    def test_no_budget(self):
        assert TrainingConfig().budget_seconds is None

    @given(hours=st.integers(0, 1000), minutes=st.integers(0, 1000), seconds=st.integers(0, 10**6))
    def test_parts_add_up(self, hours, minutes, seconds):
        total = 3600 * hours + 60 * minutes + seconds
        text = f"{hours}h{minutes}m{seconds}s"
        if total:
            assert parse_duration(text) == total
        else:
            with pytest.raises(InputError):
                parse_duration(text)

    @given(st.text(max_size=8) | st.text("0123456789.hms ", max_size=8) | st.just("9" * 400))
    def test_anything_is_a_positive_time_or_refused_in_words(self, text):
        try:
            assert 0 < parse_duration(text) < math.inf
        except InputError as error:
            assert repr(text) in str(error)  # noqa: PT017 - both outcomes are right, each for its own texts
