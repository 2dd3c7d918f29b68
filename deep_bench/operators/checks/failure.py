"""What a user's code raised, in one line."""

from __future__ import annotations

import traceback
from pathlib import Path

import deep_bench
from deep_bench.errors import DeepBenchError

_OURS = str(Path(deep_bench.__file__).parent)
_LONGEST = 500


class KernelFailure(DeepBenchError):
    """A kernel raised, or returned something that cannot be read."""


def in_a_line(error: BaseException) -> str:
    """An error with what was expected, or its kind and the last place outside of deep_bench.

    Example:
        >>> in_a_line(ValueError("no such size\\nsecond line"))
        'ValueError: no such size'
    """
    if isinstance(error, DeepBenchError):
        return f"{error.came}{f'; expected: {error.expected}' if error.expected else ''}"
    first = next(iter(str(error).strip().splitlines()), "")[:_LONGEST]
    return f"{type(error).__name__}{f': {first}' if first else ''}{_place(error)}"


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith((_OURS, "<"))]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
