"""Libraries that were built before, kept by content in a folder of the user's.

An entry is a folder, named by a digest of the source, the compiler, its options and the processor. In it are the list of
the headers that the source included and a library for each state of these headers.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.measure.user_cache import VARIABLE, user_cache

_ENVIRONMENT = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "NVCC_APPEND_FLAGS", "NVCC_PREPEND_FLAGS")
_LISTED = "includes.json"
_SCRATCH = "build-"


def folder() -> Path:
    """The folder of built libraries.

    Example:
        >>> folder().name
        'native'
    """
    return user_cache() / "native"


def digest_of(*parts: Any) -> str:
    """A digest of plain data, and of all else that decides what a compiler makes of it here."""
    environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
    text = json.dumps([parts, environment, _processor()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def obtain(key: str, build: Callable[[Path], Iterable[Path]]) -> tuple[Path, bool]:
    """The library of an entry, built unless it is there.

    Safe with any number of processes: one builds, the others wait, and a library appears whole or not at all. The next one
    builds where a process was killed amid a build, and removes what that left.

    Args:
        key: The entry's digest.
        build: Makes ``kernel.so`` in the folder that it is given; returns the files that the source included.

    Returns:
        The library, and whether it was there.

    Raises:
        InvalidArgument: The folder cannot be written to.
    """
    entry = folder() / key
    try:
        library = _look_up(entry)
        if library is not None:
            return library, True
        with _locked(entry):
            library = _look_up(entry)
            return (library, True) if library is not None else (_built(entry, build), False)
    except OSError as error:
        raise _unusable(error) from error


def _built(entry: Path, build: Callable[[Path], Iterable[Path]]) -> Path:
    for leftover in entry.glob(f"{_SCRATCH}*"):  # of a process that was killed: it would hold the lock otherwise
        shutil.rmtree(leftover, ignore_errors=True)
    with TemporaryDirectory(dir=entry, prefix=_SCRATCH) as scratch:
        included = sorted({str(path) for path in build(Path(scratch))})
        library = entry / f"{_state(included)}.so"
        listed = Path(scratch) / _LISTED
        listed.write_text(json.dumps(included), encoding="utf-8")
        os.replace(Path(scratch) / "kernel.so", library)
        os.replace(listed, entry / _LISTED)
    return library


def _look_up(entry: Path) -> Path | None:
    try:
        state = _state(json.loads((entry / _LISTED).read_text(encoding="utf-8")))
    except (FileNotFoundError, NotADirectoryError):  # nothing was built, or a header is gone
        return None
    library = entry / f"{state}.so"
    return library if library.is_file() else None


def _state(files: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.encode())
        digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
    return digest.hexdigest()[:32]


@contextmanager
def _locked(entry: Path) -> Iterator[None]:
    entry.mkdir(parents=True, exist_ok=True)
    lock = os.open(entry / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _unusable(error: OSError) -> InvalidArgument:
    return InvalidArgument(
        f"the folder for built kernels cannot be used: {error}",
        f"a folder that can be written to, instead of {folder()}",
        f"name one in the environment variable {VARIABLE}",
    )


@cache
def _processor() -> str:
    """What ``-march=native`` depends on: a home directory may be shared by different machines."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            # The first processor's block tells; a large machine has hundreds.
            lines = file.read(16_384).partition("\n\n")[0].splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    fields = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU part", "CPU implementer")
    return "\n".join([platform.machine(), *(line for line in lines if line.partition("\t")[0].strip() in fields)])
