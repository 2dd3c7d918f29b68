"""Checking the options that adapters take."""

from __future__ import annotations

import os
from collections.abc import Collection

from deep_bench.errors import InvalidArgument

MOST_THREADS = 4096
"""More than any machine has cores; frameworks crash, or stop without a word, on numbers that the system cannot start."""


def one_of(option: str, value: str | None, allowed: Collection[str]) -> str | None:
    """``value``, if it is allowed or ``None``.

    Raises:
        InvalidArgument: It is neither.
    """
    if value is not None and value not in allowed:
        raise InvalidArgument(f"option {option}={value}", f"one of {', '.join(allowed)}")
    return value


def thread_count(value: int | None) -> int | None:
    """``value``, if it is a possible number of threads or ``None`` (the framework's own choice).

    Raises:
        InvalidArgument: It is no whole number, below one, or more threads than a process can have.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_THREADS):
        raise InvalidArgument(
            f"option threads={value!r}", f"a whole number from 1 to {MOST_THREADS}; this machine has {os.cpu_count()} cores"
        )
    return value
