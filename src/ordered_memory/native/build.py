"""Builds the engine's shared library on first use, keeps it in a cache, and loads it.

The library has a plain C interface and knows nothing of torch, so that it builds in seconds with any C++17 compiler and
serves every version of torch and Python. What it does depend on (source, compiler, flags, CPU) is in its file name.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffast-math", "-fPIC", "-pthread")
SETTINGS = ("CXX", "ORDERED_MEMORY_CACHE", "ORDERED_MEMORY_CXXFLAGS", "XDG_CACHE_HOME")  # of the environment
HOW_TO_GET_IT = "install a C++17 compiler (on Debian and Ubuntu: apt install g++), or name one in CXX"

_lock = threading.Lock()


@dataclass(frozen=True)
class Status:
    """Whether the engine can be used, and all that tells why or why not."""

    available: bool
    reason: str
    path: Path | None = None
    compiler: str | None = None
    flags: tuple[str, ...] = ()
    build_seconds: float | None = None  # none: it was in the cache already


class BuildError(RuntimeError):
    """The engine could not be built or loaded."""


def cache_folder() -> Path:
    """Where built libraries are kept: ORDERED_MEMORY_CACHE, else the user's cache folder."""
    if named := os.environ.get("ORDERED_MEMORY_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ordered-memory"


def find_compiler() -> str:
    """The compiler that CXX names, else the first that is found."""
    named = os.environ.get("CXX")
    for name in (named,) if named else COMPILERS:
        if found := shutil.which(name):
            return found
    raise BuildError(f"there is no C++ compiler ({named or ', '.join(COMPILERS)})")


def flags_in_use() -> tuple[str, ...]:
    """Ours, and those that ORDERED_MEMORY_CXXFLAGS adds."""
    return *FLAGS, *shlex.split(os.environ.get("ORDERED_MEMORY_CXXFLAGS", ""))


def library_path(compiler: str) -> Path:
    """Where the library for this source, compiler, flags and CPU lies, or will lie once built."""
    parts = [source.read_bytes() for source in sorted([*SOURCE.glob("*.h"), *SOURCE.glob("*.cpp")])]
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    parts += [compiler.encode(), version, " ".join(flags_in_use()).encode(), _cpu().encode()]
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]
    return cache_folder() / f"engine-{key}.so"


def _cpu() -> str:
    """What ``-march=native`` depends on: the same cache may be mounted on different machines."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return f"{platform.machine()} {line}"
    return f"{platform.machine()} {platform.processor()} {platform.node()}"


def compile_library(compiler: str, target: Path) -> None:
    """Compiles and links, and puts the library in its place only once it is whole."""
    flags = flags_in_use()
    object_file, library = (target.with_suffix(f".{os.getpid()}.{end}") for end in ("o", "so"))
    # Two commands, for one with -ffast-math would link code that changes the arithmetic of the whole process.
    compiling = [compiler, *flags, "-c", str(SOURCE / "memory.cpp"), "-o", str(object_file)]
    kept = [flag for flag in flags if flag != "-ffast-math"]
    linking = [compiler, *kept, "-shared", str(object_file), "-o", str(library)]
    try:
        for command in (compiling, linking):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise BuildError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
        os.replace(library, target)
    finally:
        for file in (object_file, library):
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(lock_file: Path) -> Iterator[None]:
    """Lets one process at a time build; the others wait and then find the library there."""
    try:
        import fcntl
    except ImportError:  # not on Windows: two builds then run side by side, and the last one wins, whole
        yield
        return
    with lock_file.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure_built() -> Status:
    """Makes sure that the library is in the cache; raises BuildError where it cannot be built."""
    compiler = find_compiler()
    path = library_path(compiler)
    if path.exists():
        return Status(True, "found in the cache", path, compiler, flags_in_use())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.with_suffix(".lock")):
            if path.exists():
                return Status(True, "found in the cache", path, compiler, flags_in_use())
            print("ordered-memory: building the native engine, once ...", end="", file=sys.stderr, flush=True)
            start = time.perf_counter()
            compile_library(compiler, path)
            seconds = time.perf_counter() - start
            print(f" done in {seconds:.0f} s", file=sys.stderr, flush=True)
            return Status(True, "built", path, compiler, flags_in_use(), seconds)
    except OSError as error:
        raise BuildError(f"cannot write to {path.parent}: {error}") from error


@functools.cache
def _load(_settings: tuple[str | None, ...]) -> tuple[ctypes.CDLL | None, Status]:
    try:
        made = ensure_built()
        return ctypes.CDLL(str(made.path)), made
    except (BuildError, OSError) as error:
        return None, Status(False, str(error))


def load() -> tuple[ctypes.CDLL | None, Status]:
    """The library, built if need be, or none; and why."""
    with _lock:
        return _load(tuple(os.environ.get(name) for name in SETTINGS))


def status(build: bool = True) -> Status:
    """Whether the engine can be used. Builds it if that has not been done, unless told not to."""
    if not build:
        try:
            compiler = find_compiler()
        except BuildError as error:
            return Status(False, str(error))
        path = library_path(compiler)
        if not path.exists():
            return Status(False, "not built yet: that is done on first use", path, compiler, flags_in_use())
    return load()[1]


@functools.cache
def warn_once(reason: str) -> None:
    """Says, once for each reason, that the slow path is taken and how to get the fast one."""
    warnings.warn(
        f"the native engine cannot be used, so Ordered Memory runs many times slower: {reason}. To get the speed, "
        f"{HOW_TO_GET_IT}; backend='readable' silences this.",
        stacklevel=3,
    )
