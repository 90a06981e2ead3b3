"""The examples run, and do what they say."""

import runpy

from tests.conftest import ROOT


def test_layer_in_your_model_learns():
    main = runpy.run_path(str(ROOT / "examples" / "layer_in_your_model.py"))["main"]
    assert main() > 0.97
