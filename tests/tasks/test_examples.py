"""What all tasks share: the example, the interface, and reading files line by line."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from ordered_memory.cli.arguments import data_in
from ordered_memory.errors import InputError
from ordered_memory.tasks import SPLITS, TASKS, Example
from ordered_memory.tasks.examples import length_bucket, read_lines
from ordered_memory.trees import Tree
from tests.treebank import write_treebank


def parse(line: str) -> int:
    if not line.isdigit():
        raise InputError(f"{line!r} is not a number")
    return int(line)


def test_an_example_is_a_small_value() -> None:
    tree = Tree.from_brackets("( a b )")
    example = Example((("a", "b"),), "yes", (tree,))
    assert example == Example((("a", "b"),), "yes", (Tree.from_brackets("( a b )"),))
    assert example != Example((("a", "b"),), "yes")
    assert not hasattr(example, "__dict__")
    with pytest.raises(FrozenInstanceError):
        example.label = "no"  # type: ignore[misc]


@pytest.mark.parametrize("name", [name for name in TASKS if name != "files"])  # which has no data of its own
def test_a_task_goes_by_its_name_and_is_made_from_its_config(name: str, tmp_path: Path) -> None:
    task_type = TASKS[name]
    config = task_type.config_type()
    with data_in(write_treebank(tmp_path) if name == "sst" else None):
        task = task_type(config)
        assert task.name == name
        assert task.config == task_type().config == task_type(task.config).config
        assert len(set(task.labels)) == len(task.labels) > 1
        assert len(task.vocabulary) > 1
    assert SPLITS == ("train", "validation", "test")


def test_lengths_fall_into_ranges() -> None:
    ends = {1: "1-7", 7: "1-7", 8: "8-25", 50: "26-50", 100: "51-100", 101: "101-200", 1000: "901-1000", 1001: ">1000"}
    assert {length: length_bucket(length) for length in ends} == ends


def test_blank_lines_may_end_a_file(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(b"\xef\xbb\xbf1\n2\n\n \n")
    assert read_lines(path, parse) == [1, 2]
    path.write_text("1\n2")
    assert read_lines(path, parse) == [1, 2]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"1\nx\n3\n", ":2: 'x' is not a number"),
        (b"1\n\n3\n", ":2: blank line"),
        (b"1\n2\n\xff\n", ":3: not UTF-8 text"),
        (b"", ": the file is empty"),
        (b" \n\n", ": the file is empty"),
    ],
)
def test_a_bad_line_is_told_by_file_and_line(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_lines(path, parse)
    assert str(refused.value) == f"{path}{told}"


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(InputError, match=f"{path.name}: cannot be read: "):
            read_lines(path, parse)
