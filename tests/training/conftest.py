"""What every test of training needs."""

import dataclasses
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.training import loop


@pytest.fixture(autouse=True)
def _no_commit(monkeypatch):
    """Runs are compared byte for byte, and the source tree may change under them."""
    monkeypatch.setattr(loop, "commit", lambda: None)


@pytest.fixture(autouse=True)
def interruptible():
    """As in a terminal: a test run in the background may have been told to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def quick_clock(monkeypatch):
    """A clock that goes on by a quarter of a second whenever the loop looks at it."""
    now = [1000.0]

    def perf_counter() -> float:
        now[0] += 0.25
        return now[0]

    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=perf_counter))


@pytest.fixture
def made(monkeypatch) -> SimpleNamespace:
    """The model and the optimiser of the run, once it has made them."""
    kept = SimpleNamespace()
    make_classifier, make_optimiser = loop.make_classifier, loop.make_optimiser

    def keep_model(*arguments: Any) -> Classifier:
        kept.model = make_classifier(*arguments)
        return kept.model

    def keep_optimiser(*arguments: Any) -> torch.optim.Optimizer:
        kept.optimiser = make_optimiser(*arguments)
        return kept.optimiser

    monkeypatch.setattr(loop, "make_classifier", keep_model)
    monkeypatch.setattr(loop, "make_optimiser", keep_optimiser)
    return kept


@pytest.fixture
def before_updates(monkeypatch) -> Callable[[Callable[[Classifier, torch.optim.Optimizer, Batch], Any]], list[Any]]:
    """Notes what a look at model, optimiser and batch finds before each update."""

    def note(look: Callable[[Classifier, torch.optim.Optimizer, Batch], Any]) -> list[Any]:
        found, update = [], loop.update

        def watched(model: Classifier, optimiser: torch.optim.Optimizer, batch: Batch, *rest: Any) -> Any:
            found.append(look(model, optimiser, batch))
            return update(model, optimiser, batch, *rest)

        monkeypatch.setattr(loop, "update", watched)
        return found

    return note


@pytest.fixture
def moved(monkeypatch) -> list[set[str]]:
    """What each update moves: the pointer, the rest, or both."""
    found, update = [], loop.update

    def watched(model: Classifier, *rest: Any) -> Any:
        before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
        done = update(model, *rest)
        names = [name for name, weight in model.named_parameters() if not torch.equal(before[name], weight)]
        found.append({"pointer" if ".attention." in name else "rest" for name in names})
        return done

    monkeypatch.setattr(loop, "update", watched)
    return found


@pytest.fixture
def script(monkeypatch) -> Callable[..., None]:
    """Validation accuracy and loss as told, one evaluation after the other; the last one stays."""
    evaluate = loop.evaluate

    def tell(accuracies: list[float], losses: list[float] | None = None) -> None:
        told = [{"accuracy": accuracy, "loss": 1.0} for accuracy in accuracies]
        told = [values | {"loss": loss} for values, loss in zip(told, losses, strict=True)] if losses else told
        left = iter(told)

        def scripted(*arguments: Any, dataset: Any = None, **options: Any) -> Any:
            found = evaluate(*arguments, dataset=dataset, **options)
            return found if dataset is None else dataclasses.replace(found, **next(left, told[-1]))

        monkeypatch.setattr(loop, "evaluate", scripted)

    return tell
