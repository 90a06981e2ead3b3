"""The compared systems side by side: all on the same expressions, beside the LSTM, and none beyond its bounds."""

import io
import json
import signal

import pytest
import torch
from rich.console import Console

from ordered_memory.bench import document, run, systems, systems_chart
from ordered_memory.bench.measure import in_fresh_process
from ordered_memory.bench.systems import Growth, Size, System
from ordered_memory.cli import main
from ordered_memory.encoders import ENCODERS
from ordered_memory.errors import InputError
from ordered_memory.models import TITLES
from tests.bench.processes import interrupts_itself, sends_and_fails, sends_and_is_killed


def test_every_model_is_compared_and_has_a_line_of_its_own():
    assert set(TITLES) == set(ENCODERS) == set(systems_chart.LINES)
    looks = {(look["color"], look["marker"]) for look in systems_chart.LINES.values()}
    assert len(looks) == len(TITLES)
    names = [system.name for system in systems.systems("listops")]
    assert names[:3] == ["Ordered Memory, trained", "Ordered Memory, random", "LSTM"]
    assert len(names) == len(set(names)) == 1 + len(TITLES)
    assert len(systems.systems(None)) == len(TITLES)
    assert [system.model for system in systems.systems(None, "gold trees")] == ["tree-rnn", "tree-lstm", "tree-cell"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--only chess", "--only chess: no system has that in its name; there are ordered-memory, lstm"),
        (
            "--checkpoint listops-demo",
            "--checkpoint listops-demo: its hidden size is 64, and",
        ),
        ("--checkpoint nowhere", "nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused(words, message, tmp_path, capsys):
    assert main(["bench", "--systems", "--out", str(tmp_path / "bench"), *words.split()]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "bench").exists()


@pytest.mark.parametrize("system", systems.systems(None), ids=lambda system: system.model)
def test_training_learns_from_the_same_expressions_and_inference_does_not(system):
    model = system.classifier()
    batch = systems.batch_of(model, 10, 3)
    assert all(9 <= length <= 11 for length in batch.lengths)
    assert (batch.trees is not None) == (model.encoder.trees == "gold")
    systems.inference(model, batch)()
    assert all(parameter.grad is None for parameter in model.parameters())
    systems.training_step(model, batch)()
    assert any(parameter.grad is not None for parameter in model.parameters())


def test_all_are_as_large():
    sizes = {system.classifier().encoder.output_size for system in systems.systems(None, "")}
    assert sizes == {systems.SIZE}


class SeveralLosses(torch.nn.Linear):
    """Notes the gradient that each of its losses gave."""

    def losses(self, _):
        self.found = []
        for factor in (1.0, 2.0, 3.0):
            yield factor * self.weight.sum()
            self.found.append(float(self.weight.grad))


def test_a_step_is_all_of_its_losses_each_by_itself():
    model = SeveralLosses(1, 1)
    systems.training_step(model, None)()
    assert model.found == [1.0, 2.0, 3.0]


def test_the_lstm_is_the_measure_of_the_others(monkeypatch):
    monkeypatch.setattr(systems, "memories", lambda *_: [(10, 4096)])
    monkeypatch.setattr(systems, "best_of", lambda _, *actions, **__: [3.0, 2.0][: len(actions)])
    [size] = systems.measure(System("tree-rnn"), (10,), 2).sizes
    assert (size.length, size.memory, size.training, size.training_ratio) == (10, 4096, 3.0, 1.5)
    assert 18 <= size.tokens <= 22
    [size] = systems.measure(System("lstm"), (10,), 2).sizes
    assert size.training_ratio == size.inference_ratio == 1


class Sender(list):
    """Keeps what a process would send."""

    send = list.append


@pytest.mark.parametrize(("slow", "large", "reached"), [(0.0, 2**40, [6]), (60.0, -1, [6]), (60.0, 2**40, [6, 12])])
def test_a_system_grows_as_long_as_it_is_within_bounds(slow, large, reached, monkeypatch):
    monkeypatch.setattr(systems, "SLOW", slow)
    monkeypatch.setattr(systems, "LARGE", large)
    sender = Sender()
    systems._grow(System("tree-rnn"), (6, 12), 2, 1, sender)
    assert [length for length, _ in sender] == reached


def test_memory_is_measured_in_a_process_of_its_own_and_grows():
    (short, little), (long, much) = systems.memories(System("lstm"), (50, 400), 8)
    assert (short, long) == (50, 400)
    assert much > little >= 0


def test_what_a_killed_process_has_sent_counts_and_a_failure_is_told():
    assert in_fresh_process(sends_and_is_killed) == [1]
    with pytest.raises(RuntimeError, match="code 3"):
        in_fresh_process(sends_and_fails)


def test_a_measuring_process_leaves_ctrl_c_to_its_parent():
    before = signal.getsignal(signal.SIGINT)
    assert in_fresh_process(interrupts_itself) == ["still here"]
    assert signal.getsignal(signal.SIGINT) is before


def growth(system, lengths, **_):
    """As `measure`, of figures that can be told beforehand: Ordered Memory stops early."""
    factor = 1 if system.model == "lstm" else 2 if system.checkpoint else 120
    reached = lengths[: 2 if factor == 120 else None]
    return Growth(system, [Size(n, 16 * n, factor * n, n, factor * n << 10, factor, 1) for n in reached])


def test_ratios_are_printed_written_and_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(run, "sgemm_peak", lambda: 1e9)
    monkeypatch.setattr(systems, "measure", growth)
    console = Console(file=io.StringIO(), width=120)
    run.bench_systems(tmp_path, "listops", quick=True, only="ordered", console=console)
    assert "time of training for each token, LSTM = 1" in console.file.getvalue()
    figures = json.loads((tmp_path / document.SYSTEMS).read_text())
    assert [system["name"] for system in figures["systems"]] == [
        "Ordered Memory, trained",
        "Ordered Memory, random",
        "LSTM",
    ]
    assert {"machine", "cores", "threads", "torch", "commit", "version"} <= figures.keys()
    assert b"</svg>" in (tmp_path / "systems.svg").read_bytes()

    bench = {"sgemm_peak": {}, "machine": "m", "cores": 2, "torch": "2", "commit": "c", "cases": []}
    (tmp_path / document.BENCH).write_text(json.dumps(bench))
    page = document.render(tmp_path)
    assert "| Ordered Memory, trained | 2.00 | 2.00 | 2.00 | 2.00 |" in page
    dash = document.NOTHING
    assert "| time of training, LSTM = 1 | 25 | 50 | 100 | 200 |\n" in page
    assert f"| Ordered Memory, random | 120 | 120 | {dash} | {dash} |" in page
    (tmp_path / document.SYSTEMS).unlink()
    assert "Compared systems" not in document.render(tmp_path)


def test_without_the_engine_nothing_is_compared(tmp_path, monkeypatch):
    status = type("Status", (), {"available": False, "reason": "no compiler"})
    monkeypatch.setattr(run.native, "status", status)
    with pytest.raises(InputError, match="no native engine, with which Ordered Memory is measured: no compiler"):
        run.bench_systems(tmp_path / "out", None, True, "", Console(file=io.StringIO()))
