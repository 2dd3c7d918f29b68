"""Space on a disk: whether it is what a cell lacked."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

_LACKS = tuple(os.strerror(code) for code in (errno.ENOSPC, errno.EDQUOT))
_LEAST_BYTES = 2**16


def lacked(said: str) -> str:
    """What of the last lines of a process tells that space was lacking; empty if none does.

    Args:
        said: Lines, joined by " | ".

    Example:
        >>> lacked("a table | deep-bench: cannot write a.json: No space left on device | What to do: free some space")
        'deep-bench: cannot write a.json: No space left on device'
    """
    return next((line for line in said.split(" | ") if any(words in line for words in _LACKS)), "")


def used_up(folder: Path) -> bool:
    """Whether there is no space for as much as a line."""
    return shutil.disk_usage(folder).free < _LEAST_BYTES
