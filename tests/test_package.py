"""The package as a whole: what it offers at the top, and that imports go one way."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import ordered_memory

SOURCE = Path(ordered_memory.__file__).parent
HOUSE = [
    {"errors", "__init__", "atomic", "provenance"},
    {"memory", "native", "trees", "vocabulary"},
    {"scoring", "drawing", "tasks", "vectors"},
    {"config", "presets"},
    {"encoders"},
    {"classifier"},
    {"training", "doctor", "models"},
    {"bench"},
    {"reproduce"},
    {"cli"},
]


@pytest.mark.parametrize("name", [name for name in ordered_memory.__all__ if not name.startswith("__")])
def test_each_name_is_there(name):
    assert getattr(ordered_memory, name).__module__.startswith("ordered_memory.")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Ordered'"):
        ordered_memory.Ordered  # noqa: B018


def test_nothing_imports_from_its_right():
    place = {name: number for number, names in enumerate(HOUSE) for name in names}
    for path in SOURCE.rglob("*.py"):
        own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ordered_memory."):
                other = node.module.split(".")[1]
                assert own == "__init__" or place[other] <= place[own], f"{path.name} imports {other}"


def test_memory_imports_torch_only():
    """The whole model is in one file; the engine is looked for only when a layer is called."""
    top = ast.parse((SOURCE / "memory.py").read_text()).body
    modules = {node.module for node in top if isinstance(node, ast.ImportFrom)}
    assert not [name for name in modules if name.startswith("ordered_memory")]


def test_every_module_imports():
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        importlib.import_module(".".join(part for part in parts if part != "__init__"))


def test_a_prediction_does_not_load_the_compiler():
    """PyTorch's compiler takes two seconds to import, and nothing here needs it unless the user compiles."""
    words = "import sys; from ordered_memory import Classifier; Classifier.from_pretrained('listops-demo').predict('7')"
    program = f"{words}; print('torch._dynamo' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "False", done.stderr
