"""What the tests of `om` share: it is called as a person types it."""

import subprocess
import sys

import pytest

from ordered_memory.cli import main

SMALL_DATA = (
    "--data.pool-size 300 --data.test-size 50 --data.validation-size 50 --data.max-depth 3 "
    "--data.operators MIN MAX MED --data.train-max-length 30 --data.test-max-length 30"
)
SMALL = f"--preset listops-demo --epochs 1 --budget None --evaluate-every 0 --embedding-size 8 --threads 1 {SMALL_DATA}"
TINY = [*SMALL.split(), "--hidden-size", "8", "--num-slots", "4"]
TEXT = "[MAX 2 9 [MIN 4 7 ] 0 ]"


@pytest.fixture(scope="session")
def run(tmp_path_factory) -> str:
    """A run of a few seconds; its model knows nothing."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    assert main(["train", "listops", "--out", str(folder), *TINY]) == 0
    return str(folder)


@pytest.fixture(scope="session")
def lstm(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "lstm"
    assert main(["train", "listops", "--model", "lstm", "--out", str(folder), *SMALL.split()]) == 0
    return str(folder)


def om(*words: str, **options) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ordered_memory.cli", *words], capture_output=True, text=True, timeout=120, **options
    )


def error_of(capsys, *words: str) -> str:
    """The one line that bad input gets, with exit code 2 and no traceback."""
    try:
        code = main(words)
    except SystemExit as stop:  # tyro's own refusals
        code = stop.code
    error = capsys.readouterr().err
    assert code == 2
    assert "Traceback" not in error
    return error
