"""Writes that are whole or not at all: killed before every single operation on the disk, and with the disk full."""

import errno
import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from ordered_memory import atomic
from ordered_memory.errors import InputError


@contextmanager
def largest_file(size: int):
    """The operating system itself refuses to let a file grow past this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill_with(text: str):
    def fill(folder: Path) -> None:
        for name in ("first", "second"):
            (folder / name).write_text(f"{name} {text}")

    return fill


def content(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def holds(folder: Path, text: str) -> bool:
    return content(folder) == {"first": f"first {text}", "second": f"second {text}"}


# Kills itself before the n-th operation on the disk, for n = 0, 1, 2, ... until it gets through, each time in a folder
# of its own that holds an old directory. A forked child is killed as any process is: nothing of it runs any more.
KILLED_EVERYWHERE = """
import os, signal, sys
from pathlib import Path
from ordered_memory import atomic

def fill(text):
    def inner(folder):
        for name in ("first", "second"):
            (folder / name).write_text(f"{name} {text}")
    return inner

def write(root, kind):
    if kind == "directory":
        atomic.write_directory(root / "thing", fill("new"))
    else:
        atomic.write_text(root / "thing", "new text")

def child(root, kind, number):
    left = number
    def hook(event, arguments):
        nonlocal left
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.listdir"):
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
    sys.addaudithook(hook)
    write(root, kind)
    os._exit(0)

kind, before, top = sys.argv[1], sys.argv[2], Path(sys.argv[3])
number, through = 0, False
while not through:
    root = top / str(number)
    root.mkdir()
    if before == "old":
        if kind == "directory":
            atomic.write_directory(root / "thing", fill("old"))
        else:
            atomic.write_text(root / "thing", "old text")
    if (pid := os.fork()) == 0:
        child(root, kind, number)
    _, status = os.waitpid(pid, 0)
    through = os.WIFEXITED(status)  # and was not killed
    if through and os.WEXITSTATUS(status):
        sys.exit("it failed where it was to be killed or to get through")
    number += 1
"""


def killed_everywhere(kind: str, before: str, top: Path) -> list[Path]:
    """A folder for each moment of the kill; the last one got through."""
    subprocess.run([sys.executable, "-c", KILLED_EVERYWHERE, kind, before, str(top)], check=True)
    return [top / str(number) for number in range(len(list(top.iterdir())))]


class TestKill:
    def test_a_directory_is_the_old_or_the_new_one_at_every_moment(self, tmp_path):
        roots = killed_everywhere("directory", "old", tmp_path)
        assert len(roots) > 10
        for root in roots:
            seen_by_reader = atomic.whole(root / "thing")
            assert holds(seen_by_reader, "old") or holds(seen_by_reader, "new")
            is_new = holds(seen_by_reader, "new")
            atomic.recover(root / "thing")
            assert holds(root / "thing", "new" if is_new else "old")
            assert [item.name for item in root.iterdir()] == ["thing"]
        assert holds(roots[-1] / "thing", "new")

    def test_a_killed_write_can_be_done_again_without_recovering_first(self, tmp_path):
        for root in killed_everywhere("directory", "old", tmp_path):
            atomic.write_directory(root / "thing", fill_with("newer"))
            assert holds(root / "thing", "newer")
            assert [item.name for item in root.iterdir()] == ["thing"]

    def test_a_new_directory_is_whole_or_absent(self, tmp_path):
        roots = killed_everywhere("directory", "nothing", tmp_path)
        for root in roots:
            atomic.recover(root / "thing")
            assert not (root / "thing").exists() or holds(root / "thing", "new")
        assert holds(roots[-1] / "thing", "new")

    def test_a_file_is_the_old_or_the_new_one_at_every_moment(self, tmp_path):
        roots = killed_everywhere("text", "old", tmp_path)
        assert len(roots) > 2
        assert {(root / "thing").read_text() for root in roots} == {"old text", "new text"}

    def test_between_the_renames_a_reader_finds_the_old_and_the_writer_puts_it_back(self, tmp_path):
        """The one moment in which the directory's name is free, made by hand."""
        atomic.write_directory(tmp_path / "thing", fill_with("old"))
        (tmp_path / "thing").rename(tmp_path / ".thing.replaced")
        (tmp_path / ".thing.unfinished").mkdir()
        assert holds(atomic.whole(tmp_path / "thing"), "old")
        atomic.recover(tmp_path / "thing")
        assert holds(tmp_path / "thing", "old")
        assert [item.name for item in tmp_path.iterdir()] == ["thing"]


class TestFailure:
    """The process lives on: the old directory is back at once, and nothing half made is left."""

    @pytest.mark.parametrize("failing", [1, 2])
    def test_a_rename_that_fails(self, tmp_path, monkeypatch, failing):
        atomic.write_directory(tmp_path / "thing", fill_with("old"))
        calls = []
        rename = Path.rename

        def fails_once(self, target):
            calls.append(self)
            if len(calls) == failing:
                raise OSError(errno.EIO, "Input/output error")
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", fails_once)
        with pytest.raises(InputError, match="thing: cannot be written: Input/output error"):
            atomic.write_directory(tmp_path / "thing", fill_with("new"))
        assert holds(tmp_path / "thing", "old")
        assert [item.name for item in tmp_path.iterdir()] == ["thing"]

    def test_an_interrupt_between_the_renames(self, tmp_path, monkeypatch):
        atomic.write_directory(tmp_path / "thing", fill_with("old"))
        rename = Path.rename

        def interrupted_after(self, target):
            rename(self, target)
            if target.name == ".thing.replaced":
                raise KeyboardInterrupt

        monkeypatch.setattr(Path, "rename", interrupted_after)
        with pytest.raises(KeyboardInterrupt):
            atomic.write_directory(tmp_path / "thing", fill_with("new"))
        assert holds(tmp_path / "thing", "old")

    def test_a_full_disk(self, tmp_path, monkeypatch):
        atomic.write_directory(tmp_path / "thing", fill_with("old"))
        atomic.write_text(tmp_path / "text", "old")

        def full(*_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(InputError, match="thing: cannot be written: No space left on device"):
            atomic.write_directory(tmp_path / "thing", fill_with("new"))
        with pytest.raises(InputError, match="text: cannot be written: No space left on device"):
            atomic.write_text(tmp_path / "text", "new")
        assert holds(tmp_path / "thing", "old")
        assert (tmp_path / "text").read_text() == "old"
        assert sorted(item.name for item in tmp_path.iterdir()) == ["text", "thing"]

    def test_a_file_that_the_system_does_not_let_grow(self, tmp_path):
        atomic.write_text(tmp_path / "text", "old")
        with largest_file(1000), pytest.raises(InputError, match="text: cannot be written: File too large"):
            atomic.write_text(tmp_path / "text", "new" * 1000)
        assert (tmp_path / "text").read_text() == "old"
        assert [item.name for item in tmp_path.iterdir()] == ["text"]

    @pytest.mark.parametrize("name", [".", "folder"])
    def test_a_directory_in_the_way_of_a_file_stays(self, tmp_path, monkeypatch, name):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder").mkdir()
        with pytest.raises(InputError, match="cannot be written: Is a directory"):
            atomic.write_text(Path(name), "text")
        assert [path.name for path in tmp_path.iterdir()] == ["folder"]

    def test_a_file_in_the_way_of_a_directory_stays(self, tmp_path):
        (tmp_path / "thing").write_text("precious")
        with pytest.raises(InputError, match="thing: a file of this name is in the way"):
            atomic.write_directory(tmp_path / "thing", fill_with("new"))
        assert (tmp_path / "thing").read_text() == "precious"

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match=r"file/text: cannot be written: "):
            atomic.write_text(tmp_path / "file" / "text", "new")
        with pytest.raises(InputError, match=r"file/thing: cannot be written: "):
            atomic.write_directory(tmp_path / "file" / "thing", fill_with("new"))


class TestJSON:
    def test_round_trip(self, tmp_path):
        values = {"number": 1.5, "text": "größer", "list": [None, True]}
        atomic.write_json(tmp_path / "new folder" / "values.json", values)
        assert atomic.read_json(tmp_path / "new folder" / "values.json") == values
        assert "größer" in (tmp_path / "new folder" / "values.json").read_text(encoding="utf-8")

    @pytest.mark.parametrize("damaged", [b"", b'{"a": 1', b"\xff\xfe\x00", '{"ä"'.encode()[:3], b"PK\x03\x04"])
    def test_damaged_files_are_told(self, tmp_path, damaged):
        path = tmp_path / "values.json"
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"values\.json: not JSON, or cut short: "):
            atomic.read_json(path)

    def test_every_cut_is_told(self, tmp_path):
        path = tmp_path / "values.json"
        text = json.dumps({"tokens": ["a", "b"], "number": 12})
        for size in range(len(text)):
            path.write_text(text[:size])
            with pytest.raises(InputError, match="not JSON, or cut short"):
                atomic.read_json(path)

    def test_a_missing_file_is_told(self, tmp_path):
        with pytest.raises(InputError, match=r"none\.json: cannot be read: No such file or directory"):
            atomic.read_json(tmp_path / "none.json")
        with pytest.raises(InputError, match="cannot be read: Is a directory"):
            atomic.read_json(tmp_path)
