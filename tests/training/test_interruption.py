"""A run that is killed, stopped or out of space: it goes on to the same bits as if nothing had been."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest
import torch

from ordered_memory.errors import InputError
from ordered_memory.training import loop
from ordered_memory.training.loop import Interrupted, train
from ordered_memory.training.progress import Silent
from ordered_memory.training.run_directory import Position, RunDirectory
from tests.test_atomic import largest_file
from tests.training import Listener, everything_that_lasts, last_position, metrics, tiny

# A process that starts the run, kills it, resumes it, and kills it again, ten times, and then lets it end. torch is
# imported once: each run is a fork. A kill comes so many steps after the start, and then a random moment later: inside
# a step, an evaluation or a save; or, without waiting for a step, while the run is being set up.
KILLED_TEN_TIMES = """
import json, os, random, signal, sys, time
from pathlib import Path

import torch

from ordered_memory.config import Experiment
from ordered_memory.training import loop
from ordered_memory.training.progress import Silent

torch.set_num_threads(1)
torch.optim.Adam([torch.zeros(1)])  # the first optimiser of a process imports for seconds
loop.commit = lambda: None
experiment, folder = Experiment.from_dict(json.loads(sys.argv[1])), Path(sys.argv[2])
chance = random.Random(0)

class Ticking(Silent):
    def __init__(self, pipe):
        self.pipe = pipe

    def step(self, position, share):
        os.write(self.pipe, b".")

def start():
    reading, writing = os.pipe()
    if (process := os.fork()) == 0:
        try:
            loop.train(experiment, folder, Ticking(writing), resume=(folder / "config.json").exists())
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    os.close(writing)
    return process, reading

def end(process, reading):
    os.close(reading)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

ends = []
for _ in range(10):
    process, reading = start()
    steps = chance.randint(0, 8)
    for _ in range(steps):
        os.read(reading, 1)
    time.sleep(chance.uniform(0, 0.02 if steps else 0.2))
    os.kill(process, signal.SIGKILL)
    ends.append(end(process, reading))
ends.append(end(*start()))
print(json.dumps(ends))
"""


class TestKill:
    def test_a_run_killed_at_ten_random_moments_ends_in_the_same_bits(self, tmp_path):
        experiment = tiny(epochs=40, evaluate_every=3, checkpoint_seconds=0.01, halve_after=3)
        train(experiment, tmp_path / "whole", Silent())
        arguments = [json.dumps(experiment.to_dict()), str(tmp_path / "killed")]
        environment = {**os.environ, "PYTHONHASHSEED": "12345"}  # it must not matter either
        done = subprocess.run(
            [sys.executable, "-c", KILLED_TEN_TIMES, *arguments], capture_output=True, text=True, env=environment
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == [-signal.SIGKILL] * 10 + [0], done.stderr
        whole, killed = everything_that_lasts(tmp_path / "whole"), everything_that_lasts(tmp_path / "killed")
        assert whole.keys() == killed.keys()
        for name, expected in whole.items():
            assert killed[name] == expected, name
        # Nothing half written is left over either.
        assert {path.name for path in (tmp_path / "killed").iterdir()} == {
            path.name for path in (tmp_path / "whole").iterdir()
        }

    def test_cut_off_between_the_log_and_the_save_it_logs_nothing_twice(self, tmp_path, monkeypatch):
        train(tiny(evaluate_every=2), tmp_path / "whole", Silent())
        save_last = RunDirectory.save_last

        def cut_off(self, model, optimiser, position, *found):
            if position.step == 6:
                raise KeyboardInterrupt
            save_last(self, model, optimiser, position, *found)

        monkeypatch.setattr(RunDirectory, "save_last", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train(tiny(evaluate_every=2), tmp_path / "cut", Silent())
        monkeypatch.setattr(RunDirectory, "save_last", save_last)
        assert [record["step"] for record in metrics(tmp_path / "cut")] == [2, 4, 6]
        assert last_position(tmp_path / "cut")["step"] == 4
        train(tiny(evaluate_every=2), tmp_path / "cut", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "cut") == everything_that_lasts(tmp_path / "whole")

    def test_killed_after_the_last_step_it_has_only_to_be_measured(self, tmp_path):
        result = train(tiny(), tmp_path / "run", Silent())
        (tmp_path / "run" / "result.json").unlink()
        steps = []
        again = train(tiny(), tmp_path / "run", Listener(steps.append), resume=True)
        assert steps == []
        assert again["test"]["accuracy"] == result["test"]["accuracy"]
        assert again["position"] == result["position"] == last_position(tmp_path / "run")


class TestStop:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_it_stops_after_the_step_and_goes_on_to_the_same_bits(self, tmp_path, number):
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        train(tiny(), tmp_path / "whole", Silent())
        listener = Listener(lambda position: signal.raise_signal(number) if position.step == 6 else None)
        with pytest.raises(Interrupted):
            train(tiny(), tmp_path / "stopped", listener)
        assert listener.stops == 1
        assert last_position(tmp_path / "stopped")["step"] == 6
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
        train(tiny(), tmp_path / "stopped", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "stopped") == everything_that_lasts(tmp_path / "whole")

    def test_resumed_in_other_circumstances_it_tells_both(self, tmp_path, monkeypatch):
        def ask(position: Position) -> None:
            if position.step == 6:
                signal.raise_signal(signal.SIGTERM)

        monkeypatch.setattr(loop, "commit", lambda: "one")
        with pytest.raises(Interrupted):
            train(tiny(), tmp_path / "run", Listener(ask))
        with pytest.raises(Interrupted):  # nothing is different yet
            train(tiny(), tmp_path / "run", Listener(lambda _: signal.raise_signal(signal.SIGTERM)), resume=True)
        monkeypatch.setattr(loop, "commit", lambda: "two")
        result = train(tiny(), tmp_path / "run", Silent(), resume=True)
        cores = torch.get_num_threads()
        assert result["position"]["parts"] == [
            {"step": 0, "commit": "one", "cores": cores},
            {"step": 7, "commit": "two", "cores": cores},
        ]
        assert RunDirectory.open(tmp_path / "run").result()["position"] == result["position"]

    def test_asked_twice_it_stops_at_once_and_nothing_saved_is_lost(self, tmp_path):
        def twice(position: Position) -> None:
            if position.step == 6:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

        listener = Listener(twice)
        with pytest.raises(KeyboardInterrupt):
            train(tiny(), tmp_path / "stopped", listener)
        assert listener.stops == 1
        assert last_position(tmp_path / "stopped")["step"] == 4  # the save at the epoch's end
        train(tiny(), tmp_path / "stopped", Silent(), resume=True)
        train(tiny(), tmp_path / "whole", Silent())
        assert everything_that_lasts(tmp_path / "stopped") == everything_that_lasts(tmp_path / "whole")

    def test_asked_in_the_last_step_it_finishes(self, tmp_path):
        listener = Listener(lambda position: signal.raise_signal(signal.SIGINT) if position.step == 12 else None)
        assert train(tiny(), tmp_path / "run", listener)["position"]["finished"]

    def test_it_trains_outside_the_main_thread_too(self, tmp_path):
        results = []
        thread = threading.Thread(target=lambda: results.append(train(tiny(), tmp_path / "run", Silent())))
        thread.start()
        thread.join()
        assert results[0]["position"]["step"] == 12


class TestDisk:
    def test_a_full_disk_is_told_and_the_run_can_go_on_later(self, tmp_path):
        train(tiny(), tmp_path / "whole", Silent())
        listener = Listener()
        with largest_file(3000), pytest.raises(InputError, match=r"full/.*: cannot be written: File too large"):
            train(tiny(), tmp_path / "full", listener)
        assert listener.stops == 1
        train(tiny(), tmp_path / "full", Silent(), resume=True)
        assert everything_that_lasts(tmp_path / "full") == everything_that_lasts(tmp_path / "whole")
