"""Clearing what the system remembers of files, as MLPerf's rules ask for before each run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_DROP = Path("/proc/sys/vm/drop_caches")


@dataclass(frozen=True)
class Cleared:
    """Whether caches were cleared.

    Args:
        done: Whether they were.
        how: How, or why not.
    """

    done: bool
    how: str


def clear_caches(file: Path = _DROP) -> Cleared:
    """Write out what is to be written, and let the kernel forget pages, directories and inodes that it can read again.

    It concerns the whole machine, and needs its administrator's rights.

    Args:
        file: Where the kernel is told to.

    Example:
        >>> clear_caches(Path("/nowhere/drop_caches"))
        Cleared(done=False, how='not permitted or not there: /nowhere/drop_caches: No such file or directory')

    Source:
        proc_sys_vm(5), drop_caches; MLCommons, *MLPerf training rules*, data state at start of run.
    """
    os.sync()
    try:
        with open(file, "w", encoding="ascii") as stream:
            stream.write("3")
    except OSError as error:
        return Cleared(False, f"not permitted or not there: {file}: {error.strerror}")
    return Cleared(True, "page cache, dentries and inodes of this machine")


def kept_caches() -> Cleared:
    """Nothing is done: for trying."""
    return Cleared(False, "not asked for")
