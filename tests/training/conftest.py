"""What every test of training needs."""

import signal

import pytest

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
