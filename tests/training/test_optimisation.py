"""The optimiser, its rates, and dropout, step by step."""

import pytest
import torch

from ordered_memory.classifier import Classifier
from ordered_memory.config import ClassifierConfig, OrderedMemoryConfig, TrainingConfig
from ordered_memory.tasks.listops import VOCABULARY
from ordered_memory.training.loop import train
from ordered_memory.training.optimisation import learning_rate, make_optimiser, update
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position
from tests.training import Listener, metrics, tiny


def test_a_step_that_nothing_can_be_learned_from_is_passed_over():
    """The pointer alone learns, and every row is one token."""
    config = OrderedMemoryConfig(hidden_size=6, num_slots=3)
    model = Classifier(VOCABULARY, tuple("0123456789"), encoder=config, config=ClassifierConfig(embedding_size=5))
    model.encoder.memory.backend = "readable"
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(".attention." in name)
    optimiser = torch.optim.Adam([parameter for parameter in model.parameters() if parameter.requires_grad])
    loss, whole = update(model, optimiser, model.collate([[1], [2]], [3, 4]), 1.0)
    assert loss > 0
    assert whole


class TestSchedule:
    def test_warm_up_grows_from_zero(self):
        config = TrainingConfig(learning_rate=0.5, schedule="constant", warmup=0.2)
        rates = [learning_rate(config, share, 1.0) for share in (0.0, 0.1, 0.2, 0.6, 1.0)]
        assert rates == pytest.approx([0.0, 0.25, 0.5, 0.5, 0.5])

    def test_cosine_falls_to_zero_after_the_warm_up(self):
        config = TrainingConfig(learning_rate=2.0, schedule="cosine", warmup=0.5)
        rates = [learning_rate(config, share, 1.0) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        assert rates == pytest.approx([0.0, 1.0, 2.0, 1.0, 0.0])

    def test_plateau_and_constant_stay_but_for_the_halving(self):
        for schedule in ("plateau", "constant"):
            config = TrainingConfig(learning_rate=1.0, schedule=schedule)
            assert {learning_rate(config, share, 0.25) for share in (0.0, 0.5, 1.0)} == {0.25}

    def test_plateau_halves_when_accuracy_has_not_risen(self, tmp_path, script):
        script([0.1, 0.2, 0.2, 0.1, 0.2, 0.3, 0.3, 0.3, 0.3, 0.3])
        train(tiny(epochs=11, learning_rate=1.0, halve_after=2), tmp_path / "run", Silent())
        rates = [record["learning_rate"] for record in metrics(tmp_path / "run")]
        assert rates == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]

    def test_other_schedules_do_not_halve(self, tmp_path, script):
        script([0.5])
        train(tiny(epochs=5, schedule="constant", halve_after=1), tmp_path / "run", Silent())
        assert {record["learning_rate"] for record in metrics(tmp_path / "run")} == {0.01}

    def test_the_rate_reaches_the_optimiser_step_by_step(self, tmp_path, made):
        rates = []
        listener = Listener(lambda _: rates.append(made.optimiser.param_groups[0]["lr"]))
        config = tiny(schedule="cosine", warmup=0.25, learning_rate=1.0)
        train(config, tmp_path / "run", listener)
        assert rates == pytest.approx([learning_rate(config.training, step / 12, 1.0) for step in range(12)])
        assert rates[0] == 0
        assert max(rates) == rates[3] == 1

    @pytest.mark.parametrize("name", ["adam", "adamw"])
    def test_the_optimiser_is_the_one_named(self, name):
        config = TrainingConfig(optimiser=name, beta1=0.1, beta2=0.2, epsilon=0.3, weight_decay=0.4)
        optimiser = make_optimiser(config, torch.nn.Linear(1, 1))
        assert type(optimiser) is {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
        group = optimiser.param_groups[0]
        assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.1, 0.2), 0.3, 0.4)

    def test_adadelta(self):
        config = TrainingConfig(optimiser="adadelta", learning_rate=0.1, beta2=0.2, epsilon=0.3, weight_decay=0.4)
        optimiser = make_optimiser(config, torch.nn.Linear(1, 1))
        assert type(optimiser) is torch.optim.Adadelta
        group = optimiser.param_groups[0]
        assert [group[name] for name in ("lr", "rho", "eps", "weight_decay")] == [0.1, 0.2, 0.3, 0.4]

    def test_an_encoders_parameters_may_have_a_rate_of_their_own(self, tmp_path, made):
        rates = []
        listener = Listener(lambda _: rates.append([group["lr"] for group in made.optimiser.param_groups]))
        config = tiny("cooperative", schedule="cosine", warmup=0.25)
        train(config, tmp_path / "run", listener)
        for step, (rate, parsers) in enumerate(rates):
            assert rate == pytest.approx(learning_rate(config.training, step / 12, 1.0))
            assert parsers == pytest.approx(config.encoder.parser_rate * rate)
        names = {parameter: name for name, parameter in made.model.named_parameters()}
        parser, other = ({names[one] for one in group["params"]} for group in reversed(made.optimiser.param_groups))
        assert parser == {name for name in names.values() if name.startswith("encoder.parser.")}
        assert parser | other == set(names.values())


class TestDropout:
    def test_it_begins_where_it_should_and_the_attentions_is_there_all_along(self, tmp_path, made):
        seen = []

        def after_step(_: Position) -> None:
            direction = made.model.encoder.memory.directions[0]
            parts = (
                made.model.input_dropout,
                direction.cell.dropout,
                made.model.head[0],
                direction.attention.score.dropout,
            )
            seen.append(tuple(part.training for part in parts))

        train(tiny(dropout_from=0.5, evaluate_every=3), tmp_path / "run", Listener(after_step))
        assert seen == [(False, False, False, True)] * 6 + [(True, True, True, True)] * 6
