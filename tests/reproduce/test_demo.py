"""The demo: all it promises is there, finished runs are used again, begun ones gone on with."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ordered_memory.classifier import Prediction, SentenceParse, load_tensors
from ordered_memory.errors import InputError
from ordered_memory.reproduce import demo as demo_module
from ordered_memory.reproduce.demo import run_demo, tree_pair
from ordered_memory.reproduce.runs import Sample, percent
from ordered_memory.tasks import Example
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position
from ordered_memory.trees import Tree, left_branching, right_branching

from .conftest import Demo, a_console, said


def test_it_says_what_will_happen(demo: Demo) -> None:
    before = demo.said[: demo.said.index("training ordered-memory")]
    assert "ListOps" in before
    assert " =  " in before, "one example with its value"
    assert "No tree is ever shown" in before.replace("\n", " ")


@pytest.mark.parametrize("model", ["ordered-memory", "lstm"])
def test_it_trains_both_models_and_returns_what_they_wrote(demo: Demo, model: str) -> None:
    written = json.loads((demo.folder / model / "result.json").read_text())
    assert demo.answer[model]["test"] == written["test"]
    assert f"training {model} on listops" in demo.said


def test_the_table_holds_the_figures_of_the_results(demo: Demo) -> None:
    lines = {line.split("│")[1].strip(): line for line in demo.said.splitlines() if line.count("│") == 7}
    memory, lstm = demo.answer["ordered-memory"], demo.answer["lstm"]
    for figure in ("accuracy", "f1", "f1_without_root"):
        assert percent(memory["test"][figure]) in lines["Ordered Memory"]
    assert f"{memory['parameters']:,}" in lines["Ordered Memory"]
    assert percent(lstm["test"]["accuracy"]) in lines["LSTM"]
    assert percent(memory["majority"]) in lines["Majority class"]
    for name, figures in memory["trivial_f1"].items():
        for figure in figures:
            assert percent(figure) in lines[f"{name.capitalize()} trees"]


def test_what_was_not_learned_in_the_time_is_told(demo: Demo) -> None:
    result = demo.answer["ordered-memory"]
    assert result["test"]["accuracy"] < demo_module.LEARNED  # seconds of training
    words = " ".join(demo.said.split())
    assert f"was not learned to the end in {result['position']['step']:,} steps" in words


def test_it_shows_three_trees_a_pointer_and_the_way_to_the_report(demo: Demo) -> None:
    after = demo.said[demo.said.index("Results") :]
    assert after.count("gold; value") == after.count("induced; answer") == 3
    assert after.count("the same tree") + after.count("only in gold") == 3
    assert "weight:" in after, "the heat map's key"
    assert demo.answer["report"] == str(demo.folder / "report.html")
    assert demo.answer["report"] in after
    assert Path(demo.answer["report"]).is_file()


def test_a_second_call_uses_what_is_finished(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_module, "train", lambda *_, **__: pytest.fail("it trained again"))
    console = a_console()
    assert run_demo(demo.folder, console) == demo.answer
    assert said(console).count("is trained already") == 2


def test_an_interrupted_one_is_gone_on_with(demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(demo_module, "Live", _stopping_at(6))
        with pytest.raises(KeyboardInterrupt):
            run_demo(tmp_path, a_console())
    console = a_console()
    answer = run_demo(tmp_path, console)
    assert "from step 4" in said(console)
    assert answer["ordered-memory"]["test"]["accuracy"] == demo.answer["ordered-memory"]["test"]["accuracy"]
    for model in ("ordered-memory", "lstm"):
        never_stopped, resumed = (
            load_tensors(path / model / "last/weights.safetensors") for path in (demo.folder, tmp_path)
        )
        assert all((never_stopped[name] == resumed[name]).all() for name in never_stopped)


def _stopping_at(step: int) -> Callable[..., Silent]:
    class Stopping(Silent):
        def __init__(self, *_: Any) -> None: ...

        def step(self, position: Position, share: float) -> None:  # noqa: ARG002
            if position.step == step:
                raise KeyboardInterrupt

    return Stopping


@pytest.mark.parametrize(
    ("asked", "message"),
    [({"seed": 1}, "training seed is 0, not 1"), ({"budget": "9s"}, "training budget is None, not '9s'")],
)
def test_a_run_with_other_settings_is_not_taken_for_this_one(demo: Demo, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"ordered-memory: holds a run whose {message}"):
        run_demo(demo.folder, a_console(), **asked)


def test_budget_and_seed_reach_the_runs(tmp_path: Path) -> None:
    answer = run_demo(tmp_path, a_console(), budget="0.2s", seed=3)
    for model in ("ordered-memory", "lstm"):
        training = answer[model]["config"]["training"]
        assert (training["budget"], training["seed"]) == ("0.2s", 3)


@pytest.mark.parametrize("width", [30, 120])
def test_what_differs_between_two_trees_is_said(width: int) -> None:
    tokens = ("[MAX", "1", "[/red]", "]")
    console = a_console(width)
    console.print(tree_pair(_sample(left_branching(tokens), right_branching(tokens)), console))
    text = said(console)
    words = " ".join(text.split())
    assert "WRONG" in words
    assert "only in gold: ([MAX 1 [/red]), ([MAX 1)" in words
    assert "only in the induced tree: (1 [/red] ]), ([/red] ])" in words
    beside = any("gold; value" in line and "induced" in line for line in text.splitlines())
    assert beside == (width == 120)


def test_the_same_tree_is_said_to_be_the_same() -> None:
    tree, console = left_branching(("[MAX", "1", "2", "]")), a_console()
    console.print(tree_pair(_sample(tree, tree), console))
    assert "the same tree" in said(console)
    assert "only in" not in said(console)


def _sample(gold: Tree, induced: Tree) -> Sample:
    example = Example((gold.tokens,), "1", (gold,))
    pointer = np.zeros((len(gold), 2), np.float32)
    return Sample(example, Prediction("2", {"1": 0.25, "2": 0.75}, (SentenceParse(gold.tokens, induced, pointer),)))
