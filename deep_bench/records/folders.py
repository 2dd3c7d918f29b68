"""The folders that deep_bench writes to: that of records, and that of what is costly to find out again."""

from __future__ import annotations

import os
from pathlib import Path

from deep_bench.errors import InvalidArgument


def output_folder(path: str | Path) -> Path:
    """The folder, made if it is not there.

    Raises:
        InvalidArgument: It cannot be made or written.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"the output folder {folder} cannot be made: {error.strerror}", advice="name another folder"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidArgument(f"the output folder {folder} is read-only", advice="name another folder")
    return folder


VARIABLE = "DEEP_BENCH_CACHE"
"""The environment variable that names the folder; by default it is ``deep_bench`` in ``XDG_CACHE_HOME`` or ``~/.cache``."""


def user_cache() -> Path:
    """The folder, which may not exist yet.

    Raises:
        InvalidArgument: The user has no home folder, and no other one is named.

    Source:
        XDG Base Directory Specification: relative paths are ignored.
    """
    try:
        named = os.environ.get(VARIABLE)
        if named:
            return Path(named).expanduser().absolute()
        home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
        return (home if home.is_absolute() else Path("~/.cache").expanduser()) / "deep_bench"
    except RuntimeError as error:  # how pathlib says that nobody knows where the home folder is
        raise InvalidArgument(
            "there is no folder to keep things in: this user has no home folder",
            advice=f"name a folder in the environment variable {VARIABLE}",
        ) from error
