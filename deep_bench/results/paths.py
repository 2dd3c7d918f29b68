"""What callers name as files and folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument


def path_of(value: Any, what: str) -> Path:
    """A path, as it was named.

    Args:
        value: Text, or what ``os.fspath`` makes text of.
        what: It is to be, for messages.

    Raises:
        InvalidArgument: It is none.

    Example:
        >>> path_of(["a.json"], "a record, or a folder of records")
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: ['a.json'] is a list, which is no path
        Expected: a record, or a folder of records: text or a pathlib.Path
        What to do: give several as arguments of their own: gather(*paths)
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(text, str) and "\0" not in text:
        return Path(text)
    several = isinstance(value, list | tuple | set | frozenset)
    raise InvalidArgument(
        f"{value!r:.200} is {_kind(value)}, which is no path" if text is None else f"{text!r:.200} is no path",
        f"{what}: text or a pathlib.Path",
        "give several as arguments of their own: gather(*paths)" if several else "",
    )


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
