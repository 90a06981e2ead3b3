"""Building: once, whole, by one process at a time; and what happens where it cannot be done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ordered_memory import native
from ordered_memory.memory import OrderedMemory
from ordered_memory.native import build

FAKE_COMPILER = """#!/bin/sh
case "$*" in
  *--version*) echo "fake 1.0"; exit 0;;
esac
echo called >> "{folder}/calls"
sleep 0.3
while [ $# -gt 0 ]; do
  if [ "$1" = "-o" ]; then printf whole > "$2"; fi
  shift
done
exit {code}
"""

BUILD = "from ordered_memory.native import build; print(build.ensure_built().reason)"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A compiler that writes its name down when it is called; gives its folder."""

    def install(code=0):
        compiler = tmp_path / "fake-compiler"
        compiler.write_text(FAKE_COMPILER.format(folder=tmp_path, code=code))
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        monkeypatch.setenv("ORDERED_MEMORY_CACHE", str(tmp_path / "cache"))
        return tmp_path

    build.warn_once.cache_clear()
    return install


class TestBuilding:
    def test_builds_once_and_says_so_in_one_line(self, fake, capsys):
        folder = fake()
        first, second = build.ensure_built(), build.ensure_built()
        assert first.path == second.path
        assert first.path.read_text() == "whole"
        assert first.build_seconds > 0
        assert (first.reason, second.reason) == ("built", "found in the cache")
        assert second.build_seconds is None
        assert len((folder / "calls").read_text().split()) == 2  # compiled once, linked once
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "building the native engine" in said
        assert " s\n" in said
        assert sorted(file.suffix for file in first.path.parent.iterdir()) == [".lock", ".so"]

    def test_two_processes_at_once_build_once(self, fake):
        folder = fake()
        command = [sys.executable, "-c", BUILD]
        environment = os.environ | {"PYTHONPATH": str(Path(native.__file__).parents[2])}
        processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = sorted(process.communicate()[0].strip() for process in processes)
        assert said == ["built", "found in the cache"]
        assert len((folder / "calls").read_text().split()) == 2

    def test_status_can_be_asked_for_without_building(self, fake, monkeypatch):
        folder = fake()
        status = native.status(build=False)
        assert not status.available
        assert "not built yet" in status.reason
        assert not (folder / "calls").exists()
        monkeypatch.setenv("CXX", "no-such-compiler")
        assert "no-such-compiler" in native.status(build=False).reason

    @pytest.mark.parametrize(("name", "value"), [("ORDERED_MEMORY_CXXFLAGS", "-DOTHER"), ("CXX", "true")])
    def test_other_flags_or_compilers_are_other_libraries(self, fake, monkeypatch, name, value):
        fake()
        before = build.library_path(build.find_compiler())
        monkeypatch.setenv(name, value)
        assert build.library_path(build.find_compiler()) != before

    def test_a_build_that_fails_leaves_nothing(self, fake):
        folder = fake(code=1)
        with pytest.raises(build.BuildError, match="failed"):
            build.ensure_built()
        assert [file.suffix for file in (folder / "cache").iterdir()] == [".lock"]

    def test_a_cache_that_cannot_be_written_is_named(self, fake, monkeypatch):
        folder = fake()
        (folder / "file").write_text("")
        monkeypatch.setenv("ORDERED_MEMORY_CACHE", str(folder / "file" / "cache"))
        with pytest.raises(build.BuildError, match=r"cannot write to .*cache"):
            build.ensure_built()

    def test_the_cache_is_the_user_s(self, monkeypatch, tmp_path):
        monkeypatch.delenv("ORDERED_MEMORY_CACHE", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert build.cache_folder() == tmp_path / "ordered-memory"


class TestWithoutIt:
    def test_no_compiler_means_the_readable_path_and_one_warning(self, fake, monkeypatch):
        fake()
        monkeypatch.setenv("CXX", "no-such-compiler")
        om, x = OrderedMemory(2, 3, 2), torch.randn(3, 1, 2)
        with pytest.warns(UserWarning, match=r"no C\+\+ compiler.*To get the speed, install"):
            output, _ = om(x)
        om(x)  # no second warning: it would be an error here
        om.backend = "readable"
        assert torch.equal(output, om(x)[0])
        assert not native.status().available
        assert "no-such-compiler" in native.status().reason

    def test_a_library_that_cannot_be_loaded_means_the_readable_path(self, fake):
        fake()  # what this compiler makes is no library
        with pytest.warns(UserWarning, match="cannot be used"):
            OrderedMemory(2, 3, 2)(torch.randn(3, 1, 2))

    def test_asked_for_by_name_it_is_an_error(self, fake, monkeypatch):
        fake()
        monkeypatch.setenv("CXX", "no-such-compiler")
        with pytest.raises(build.BuildError, match=r"no C\+\+ compiler"):
            OrderedMemory(2, 3, 2, backend="native")(torch.randn(3, 1, 2))

    def test_half_precision_is_left_to_torch(self):
        om, x = OrderedMemory(2, 3, 2, dtype=torch.bfloat16), torch.randn(3, 1, 2, dtype=torch.bfloat16)
        assert om(x)[0].dtype == torch.bfloat16
        om.backend = "native"
        with pytest.raises(build.BuildError, match="float32 and float64"):
            om(x)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_status_of_a_real_build():
    status = native.status()
    assert status.available
    assert status.path.exists()
    assert "-march=native" in status.flags


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_nothing_is_read_or_written_out_of_bounds(tmp_path):
    """The engine's tests again, in a build with AddressSanitizer and UndefinedBehaviorSanitizer."""
    libraries = [
        subprocess.check_output(["g++", f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libubsan.so", "libstdc++.so")
    ]
    environment = os.environ | {
        "LD_PRELOAD": ":".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "ORDERED_MEMORY_CACHE": str(tmp_path),
        "ORDERED_MEMORY_CXXFLAGS": "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all",
        "PYTHONPATH": str(Path(native.__file__).parents[2]),
    }
    tests = Path(__file__).with_name("test_operator.py")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", str(tests)]
    command += ["-k", "not pool and not memory_is_used_again and not memory_does_not_grow and not extreme"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tests.parents[2], check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
