"""A pointer is sharpened at the end, as far as the validation set likes it, once."""

import dataclasses
import re

import pytest
import torch

from ordered_memory.classifier import Classifier, load_tensors
from ordered_memory.errors import InputError
from ordered_memory.memory import OrderedMemory
from ordered_memory.training import loop
from ordered_memory.training.evaluation import Evaluation, evaluate
from ordered_memory.training.loop import train
from ordered_memory.training.progress import Silent
from ordered_memory.training.sharpening import SHARPER
from tests.training import everything_that_lasts, tiny


def liking(monkeypatch: pytest.MonkeyPatch, accuracies: list[float], losses: list[float]) -> list[float]:
    """Evaluations of the training's end answer with these figures, in turn, and note the scale of the scores."""
    scales: list[float] = []

    def judged(model: Classifier, *arguments, **options) -> Evaluation:
        found = evaluate(model, *arguments, **options)
        if len(scales) == len(accuracies):
            return found
        scales.append(model.state_dict()[SCORE].abs().sum().item())
        place = len(scales) - 1
        return dataclasses.replace(found, accuracy=accuracies[place], loss=losses[place])

    def measured_from_now_on(run) -> dict:
        monkeypatch.setattr(loop, "evaluate", judged)
        return finish(run)

    finish = loop._Run.finish
    monkeypatch.setattr(loop._Run, "finish", measured_from_now_on)
    return scales


SCORE = "encoder.memory.directions.0.attention.score.weight.weight"


@pytest.mark.parametrize("backend", ["readable", "native"])
@pytest.mark.parametrize("attention", ["released", "paper"])
def test_a_soft_pointer_comes_near_the_hard_one(backend, attention):
    torch.manual_seed(0)
    om = OrderedMemory(3, 8, 4, attention=attention, backend=backend, bidirectional=True)
    x = torch.randn(7, 5, 3)
    hard, state = om.read(x, pointer="hard"), om.state_dict()
    before = (om.read(x).output - hard.output).abs().max()
    om.sharpen(10_000)
    torch.testing.assert_close(om.read(x).p.round(), hard.p)
    assert (om.read(x).output - hard.output).abs().max() < before / 50
    torch.testing.assert_close(om.read(x, pointer="hard").output, hard.output)
    assert om.state_dict().keys() == state.keys()


def test_the_best_on_the_validation_set_is_kept_and_told(tmp_path, monkeypatch):
    scales = liking(monkeypatch, [0.5, 0.75, 0.75, 0.5], [0.1, 0.4, 0.3, 0.2])
    result = train(tiny(sharpen=True), tmp_path / "run", Silent())
    assert [scale / scales[0] for scale in scales] == pytest.approx(SHARPER)
    assert result["sharpened"] == SHARPER[2]  # the accuracy of the one before, at a smaller loss
    best = load_tensors(tmp_path / "run" / "best" / "weights.safetensors")
    assert best[SCORE].abs().sum().item() == pytest.approx(scales[2])
    assert Classifier.from_pretrained(tmp_path / "run").card["sharpened"] == SHARPER[2]


def test_what_was_best_before_is_still_best_where_nothing_is_better(tmp_path, monkeypatch):
    plain = train(tiny(), tmp_path / "plain", Silent())
    assert plain["sharpened"] is None
    liking(monkeypatch, [0.5] * 4, [0.1] * 4)
    result = train(tiny(sharpen=True), tmp_path / "run", Silent())
    assert result["sharpened"] == 1
    assert result["test"]["accuracy"] == plain["test"]["accuracy"]


def test_cut_off_before_the_result_it_is_not_sharpened_twice(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        liking(patched, [0.5, 0.75, 0.25, 0.5], [0.1] * 4)
        assert train(tiny(sharpen=True), tmp_path / "run", Silent())["sharpened"] == SHARPER[1]
    whole = everything_that_lasts(tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    monkeypatch.setattr(loop._Run, "sharpen", lambda *_: pytest.fail("a second time"))
    train(tiny(), tmp_path / "run", Silent(), resume=True)
    assert everything_that_lasts(tmp_path / "run") == whole


def test_a_pointer_that_found_no_trees_yet_is_left_as_it_is_and_told(tmp_path):
    told: list[str] = []

    class Told(Silent):
        def tell(self, text: str) -> None:
            told.append(text)

    result = train(tiny(sharpen=True, pointer_steps=1_000_000, budget="1s"), tmp_path / "run", Told())
    assert result["sharpened"] is None
    assert any(re.match("it ended after [0-9,]+ steps, while trees were still sought", text) for text in told)


def test_a_model_without_a_pointer_is_refused_and_leaves_no_folder(tmp_path):
    with pytest.raises(InputError, match="sharpen is set, and lstm has no pointer"):
        train(tiny("lstm", sharpen=True), tmp_path / "run", Silent())
    assert not (tmp_path / "run").exists()
