"""Fixtures every test may use: where the shared data lies, and torch set up as the trainer sets it up."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

# Data is what a test says it is, whatever the person who runs it trains on.
os.environ.pop("ORDERED_MEMORY_DATA", None)

torch.set_num_threads(1)  # the tests' tensors are tiny, and pytest-xdist has the other core

# Nothing is timed in a test: machines are shared, and a slow moment is no fault of the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden files and real data; a test that needs it says so where it is absent."""
    folder = Path(os.environ.get("ORDERED_MEMORY_SHARED", ROOT.parent / "shared"))
    if not (folder / "golden").is_dir():
        pytest.skip(f"no golden files: {folder} is absent (set ORDERED_MEMORY_SHARED)")
    return folder
