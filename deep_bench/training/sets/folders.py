"""Where data sets lie, and who may write there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deep_bench.errors import InvalidData
from deep_bench.measure.user_cache import user_cache

VARIABLE = "DEEP_BENCH_DATA"
"""The environment variable that names the folder of data sets; by default it is ``data`` in deep_bench's cache."""


def data_folder(root: Path | str | None = None) -> Path:
    """The folder of data sets, which may not exist yet: the one asked for, or that of the environment, or the default."""
    named = root or os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else user_cache() / "data"


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Makes a folder, and keeps other processes that do the same waiting.

    Raises:
        InvalidData: It cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        advice = f"name another folder: root=…, or the environment variable {VARIABLE}"
        raise InvalidData(f"{folder} cannot be written to: {error.strerror}", advice=advice) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released by the system if this process dies
        yield
