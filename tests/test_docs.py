"""The Python in the README and the docs runs as it stands there."""

import re

import pytest

from ordered_memory.bench import document
from ordered_memory.reproduce.readme import render
from tests.conftest import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL), 1)
    if "import torch" in block  # the others are signatures
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_runs(block):
    exec(compile(block, "document", "exec"), {})


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        assert target.startswith("https://") or (path.parent / target).exists(), f"{path.name}: {target}"


def test_the_readme_shows_the_figures_of_the_results():
    text = (ROOT / "README.md").read_text()
    assert render(text, ROOT / "results") == text


def test_the_page_about_speed_shows_the_benchmark():
    assert document.render(ROOT / "results" / "bench") == (ROOT / "docs" / "speed.md").read_text()
