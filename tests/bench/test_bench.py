"""The benchmark: it measures what it says, and prints no speed where the two engines disagree."""

import dataclasses
import io
import json

import pytest
import torch
from rich.console import Console

from ordered_memory.bench import document, measure, run, step
from ordered_memory.bench.cases import RIVALS, Case, cases
from ordered_memory.classifier import Classifier
from ordered_memory.errors import InputError

TINY = Case("tiny", hidden_size=8, num_slots=4, rows=3, tokens=6)


@pytest.fixture(autouse=True)
def threads():
    """The benchmark sets the number of threads: put it back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_every_case_can_be_made_smaller_and_agrees():
    for case in cases("listops-demo"):
        small = dataclasses.replace(case, rows=2, tokens=8, hidden_size=8 if case.checkpoint is None else 64)
        assert measure.disagreement(small) < measure.TOLERANCE, case.name


def test_work_counts_what_a_slow_count_counts():
    work = TINY.work()
    om, (x, lengths) = TINY.layer("readable").eval(), TINY.batch()
    p = om.read(x, lengths=lengths).p[0].detach()
    cells = keys = 0
    for row, length in enumerate(lengths.tolist()):
        for time in range(1, length):
            cells += sum(float(p[time, row, : i + 1].sum()) >= om.threshold for i in range(4))
            keys += 1 + sum(float(p[time - 1, row, : i + 1].sum()) >= 1e-5 for i in range(1, 4))
    tokens = int(lengths.sum())
    assert work.tokens == tokens
    assert work.cells == pytest.approx(cells / tokens)
    assert work.operations == 3 * 2 * (24 * cells + keys + 2 * tokens) * 8**2


def test_sharp_pointers_are_sharp():
    sharp = dataclasses.replace(TINY, weights="sharp", hidden_size=32)
    om, (x, lengths) = sharp.layer("native").eval(), sharp.batch()
    assert om.read(x, lengths=lengths).p[0][1].max(-1).values.min() > 0.99


def test_prints_a_ratio_and_writes_json(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "cases", lambda _: [TINY])
    monkeypatch.setattr(measure, "sgemm_peak", lambda: 1e9)
    monkeypatch.setattr(run, "sgemm_peak", lambda: 1e9)
    console = Console(file=io.StringIO(), width=200)
    assert run.bench(tmp_path, None, quick=True, only="tiny", console=console)
    assert " x " in console.file.getvalue()
    figures = json.loads((tmp_path / "bench.json").read_text())
    [case] = figures["cases"]
    assert case["speeds"][0]["ratio"] == case["speeds"][0]["readable"] / case["speeds"][0]["native"]
    assert figures["cores"]


def test_no_speed_where_the_two_disagree(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "cases", lambda _: [TINY])
    monkeypatch.setattr(run, "sgemm_peak", lambda: 1e9)
    monkeypatch.setattr(measure, "disagreement", lambda _: 1e-3)
    console = Console(file=io.StringIO(), width=200)
    assert not run.bench(tmp_path, None, quick=True, only="tiny", console=console)
    text = console.file.getvalue()
    assert "DISAGREE" in text
    assert " x " not in text
    assert json.loads((tmp_path / "bench.json").read_text())["cases"][0]["speeds"] == []


def test_memory_of_a_step_is_measured_in_a_process_of_its_own():
    case = dataclasses.replace(TINY, hidden_size=64, rows=64, tokens=64)
    assert measure.peak_memory(case, "readable") > measure.peak_memory(case, "native") > 0


def test_an_unknown_case(tmp_path):
    with pytest.raises(InputError, match="--only chess"):
        run.bench(tmp_path, None, quick=True, only="chess", console=Console(file=io.StringIO()))


def test_a_slow_action_is_not_repeated_beyond_its_time():
    calls = []
    assert len(measure.best_of(50, lambda: calls.append(1), seconds=0.0)) == 1
    assert len(calls) == 1
    measure.best_of(3, lambda: calls.append(1), seconds=60.0)
    assert len(calls) == 1 + 4


def test_evaluation_is_compared_on_the_same_sequences():
    speed = measure.evaluation("listops-demo", 12, 5)
    assert speed is not None
    assert (speed.sequences, speed.few) == (12, 5)
    assert speed.ratio == speed.readable / speed.native


def test_the_layers_part_of_a_step():
    times = step.step_times("listops-demo", threads=1, batches=1, runs=1)
    assert times.threads == torch.get_num_threads() == 1
    assert times.step > 0
    assert times.layer > 0
    assert step.StepTimes(2, step=2.0, layer=1.9).rest == pytest.approx(0.05)
    assert step.StepTimes(2, step=2.0, layer=2.1).rest == 0  # noise is no gain


def test_measured_steps_leave_the_weights_as_they_are(monkeypatch):
    kept = []
    read = Classifier.from_pretrained
    monkeypatch.setattr(Classifier, "from_pretrained", lambda name: kept.append(read(name)) or kept[-1])
    step.step_times("listops-demo", threads=1, batches=1, runs=1)
    for new, old in zip(kept[0].parameters(), read("listops-demo").parameters(), strict=True):
        torch.testing.assert_close(new, old)


def test_rivals_stand_beside_their_cases():
    names = {case.name for case in cases("listops-demo")}
    assert set(RIVALS) <= names
    speeds = [measure.Speed(1, 2.0, 3.0, 0.5, 0.1)]
    comparison = measure.Comparison(Case("1 row of 250, training", "sharp"), 0.0, TINY.work(), speeds)
    console = Console(file=io.StringIO(), width=200)
    run.show(comparison, console)
    assert "6.0 x every cell" in console.file.getvalue()
    assert "CRvNN 34 x" in console.file.getvalue()
    values = run.plain(comparison)
    assert values["rivals"] == {"EBT-GRC": 3.3, "CRvNN": 34.0}
    assert "EBT-GRC 3.3, CRvNN 34" in document._cases([values])


def test_the_whole_benchmark_ends_and_its_page_is_rendered(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "cases", lambda _: [TINY])
    monkeypatch.setattr(run, "GROWTH", {"tokens": (3, 6), "rows": (1, 2)})
    monkeypatch.setattr(run, "evaluation", lambda *_: measure.EvaluationSpeed(10, 1.0, 5, 3.0, 0.5))
    monkeypatch.setattr(run, "step_times", lambda _, threads: step.StepTimes(threads, 2.0, 1.9))
    for module in (run, measure):
        monkeypatch.setattr(module, "sgemm_peak", lambda: 1e9)
        monkeypatch.setattr(module, "peak_memory", lambda case, *_, **__: case.tokens << 20)
    assert run.bench(tmp_path, None, quick=False, only="", console=Console(file=io.StringIO(), width=200))
    page = document.page(json.loads((tmp_path / "bench.json").read_text()))
    assert "on the first 5 of them that is 6.0 times" in page
    assert "6.0 MB" in page
    assert "by number of threads: 5.0% on 1" in page
