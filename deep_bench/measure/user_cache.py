"""Where deep_bench keeps what is costly to find out again."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "DEEP_BENCH_CACHE"
"""The environment variable that names the folder; by default it is ``deep_bench`` in ``XDG_CACHE_HOME`` or ``~/.cache``."""


def user_cache() -> Path:
    """The folder, which may not exist yet.

    Source:
        XDG Base Directory Specification: relative paths are ignored.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return (home if home.is_absolute() else Path("~/.cache").expanduser()) / "deep_bench"
