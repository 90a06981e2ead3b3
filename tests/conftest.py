"""Fixtures every test may use: where the shared data lies, and torch set up as the trainer sets it up."""

import os
from pathlib import Path

import pytest
import torch

torch.set_num_threads(1)  # the tests' tensors are tiny, and pytest-xdist has the other core

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden files and real data; a test that needs it says so where it is absent."""
    folder = Path(os.environ.get("ORDERED_MEMORY_SHARED", ROOT.parent / "shared"))
    if not (folder / "golden").is_dir():
        pytest.skip(f"no golden files: {folder} is absent (set ORDERED_MEMORY_SHARED)")
    return folder
