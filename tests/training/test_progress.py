"""What a person sees: plain lines in a file, a bar in a terminal."""

import math
from io import StringIO

import pytest
from rich.console import Console

from ordered_memory.config import Experiment, TrainingConfig
from ordered_memory.training.progress import Live, Silent, duration
from ordered_memory.training.run_directory import Position

RECORD = {
    "step": 50,
    "epoch": 0.5,
    "seconds": 75.0,
    "learning_rate": 0.001,
    "training_loss": 1.2345,
    "loss": 1.0,
    "accuracy": 0.5,
    "f1": 0.25,
    "f1_without_root": 0.1,
    "skipped": 0,
}


def told(terminal: bool, interval: float = 0.0, record=RECORD, experiment=None, first: Position | None = None) -> str:
    """The output of a short training."""
    text = StringIO()
    live = Live(Console(file=text, force_terminal=terminal, width=80), interval)
    live.start(experiment or Experiment(), 100, first or Position(), 0.0)
    live.step(Position(step=1, skipped=2), 0.01)
    live.evaluated(record)
    live.stop()
    return text.getvalue()


class TestPlain:
    def test_lines_without_a_single_control_character(self):
        output = told(terminal=False)
        assert "\x1b" not in output
        assert "\r" not in output
        start, step, evaluation = output.splitlines()
        assert start == "training ordered-memory on listops, 50 epochs of 100 steps"
        assert step.startswith("  step 1, 2 skipped  ")
        assert "examples/s" in step
        assert step.endswith(" left")
        assert evaluation == "  step     50    1m15s  loss 1.234  validation accuracy  50.00  F1  25.00"

    def test_steps_are_told_at_intervals_only(self):
        assert len(told(terminal=False, interval=1e9).splitlines()) == 2

    def test_f1_of_words_stands_beside_it_where_there_are_other_tokens(self):
        assert told(terminal=False, record={**RECORD, "f1_words": 0.5}).endswith("F1  25.00 (of words  50.00)\n")

    def test_no_trees_no_f1(self):
        assert "F1" not in told(terminal=False, record={**RECORD, "f1": None})

    def test_skipped_steps_are_told_on_one_line(self):
        last = told(terminal=False, record={**RECORD, "skipped": 12}).splitlines()[-1]
        assert last.endswith("F1  25.00  12 steps not finite, skipped")

    def test_a_budget_and_a_resumed_run(self):
        experiment = Experiment(training=TrainingConfig(budget="5m"))
        output = told(terminal=False, experiment=experiment, first=Position(step=70))
        assert output.startswith("training ordered-memory on listops, for 5m, from step 70\n")

    @pytest.mark.parametrize(
        ("budget", "goal"),
        [
            (None, "1,200 steps that seek trees, then 50 epochs of 100 steps"),
            ("5m", "for 5m, with first 1,200 steps that seek trees"),
        ],
    )
    def test_steps_that_seek_trees_come_first(self, budget, goal):
        steps = {"pointer_steps": 200, "copy_steps": 300, "drawn_steps": 700}
        experiment = Experiment(training=TrainingConfig(budget=budget, **steps))
        assert told(False, experiment=experiment).startswith(f"training ordered-memory on listops, {goal}\n")

    def test_measuring_is_told_at_intervals(self):
        text = StringIO()
        live = Live(Console(file=text), interval=0.0)
        live.measured(512, 37_367)
        assert text.getvalue() == "  measured 512 of 37,367\n"
        live.interval = 1e9
        live.measured(1_024, 37_367)
        assert "1,024" not in text.getvalue()


class TestTerminal:
    def test_a_bar_with_rate_and_time_left(self):
        output = told(terminal=True)
        assert "\x1b[" in output
        assert "━" in output
        assert "examples/s" in output
        assert "left" in output

    def test_evaluations_stay_as_lines(self):
        assert "validation accuracy  50.00  F1  25.00\n" in told(terminal=True).replace("\r", "")

    def test_measuring_has_a_bar_too(self):
        text = StringIO()
        live = Live(Console(file=text, force_terminal=True, width=80))
        live.measured(512, 37_367)
        live.measured(37_367, 37_367)
        live.stop()
        assert "━" in text.getvalue()
        assert "measured 37,367 of 37,367" in text.getvalue()
        assert text.getvalue().rfind("\x1b[?25h") > text.getvalue().rfind("\x1b[?25l") > -1

    def test_the_cursor_is_given_back(self):
        output = told(terminal=True)
        assert output.rfind("\x1b[?25h") > output.rfind("\x1b[?25l") > -1

    def test_stopping_twice_or_unstarted_is_no_harm(self):
        live = Live(Console(file=StringIO(), force_terminal=True))
        live.stop()
        live.start(Experiment(), 100, Position(), 0.0)
        live.stop()
        live.stop()


def test_rate_and_time_left_are_those_since_the_start(monkeypatch):
    clock = iter([0.0, 0.0, 10.0, 10.0])
    monkeypatch.setattr("ordered_memory.training.progress.time.perf_counter", lambda: next(clock))
    text = StringIO()
    live = Live(Console(file=text), interval=0.0)
    live.start(Experiment(training=TrainingConfig(batch_size=8)), 100, Position(step=100), 0.5)
    live.step(Position(step=150), 0.75)
    monkeypatch.undo()
    assert text.getvalue().splitlines()[-1] == "  step 150  40 examples/s  10s left"


def test_silence(capsys):
    silent = Silent()
    silent.start(Experiment(), 1, Position(), 0.0)
    silent.step(Position(), 0.5)
    silent.evaluated(RECORD)
    silent.measured(1, 2)
    silent.stop()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (12.4, "12s"),
        (59.6, "1m00s"),
        (200, "3m20s"),
        (3599.7, "1h00m"),
        (7500, "2h05m"),
        (math.nan, "?"),
        (math.inf, "?"),
    ],
)
def test_duration(seconds, text):
    assert duration(seconds) == text


def test_rate_and_time_left_forget_what_was_long_ago(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("ordered_memory.training.progress.time.perf_counter", lambda: now[0])
    text = StringIO()
    live = Live(Console(file=text, width=200), interval=0.0)
    live.start(Experiment(training=TrainingConfig(batch_size=50)), 1000, Position(), 0.0)
    for step in range(1, 201):  # a second each, and then ten
        now[0] += 1.0 if step <= 100 else 10.0
        live.step(Position(step=step), step / 1000)
    monkeypatch.undo()
    *_, last = text.getvalue().splitlines()
    assert last == "  step 200  5 examples/s  2h13m left"
