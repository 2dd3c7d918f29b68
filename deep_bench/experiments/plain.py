"""Whether a recipe is plain data: what a command line, a record and a file in JSON can say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.experiments.refusal import at_line, line_of, several
from deep_bench.yaml_text import Place

_LARGEST = 2**63


def check_plain(content: Mapping[str, Any], lines: Mapping[Place, int]) -> None:
    """See that there is nothing in it but texts, numbers, yes and no, nothing, lists and fields.

    Args:
        content: A recipe as a file has it.
        lines: Where each value of the file is.

    Raises:
        InvalidArgument: There is something else, such as a date.

    Example:
        >>> import datetime
        >>> check_plain({"fixed": {"seed": datetime.date(2026, 1, 1)}}, {("fixed",): 2, ("fixed", "seed"): 3})
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: line 3: 'fixed.seed' is a date, 2026-01-01
        Expected: a text in quotes, or a number
    """
    if faults := list(_faults(content, (), lines)):
        raise several(faults)


def _faults(value: Any, place: Place, lines: Mapping[Place, int]) -> Iterator[InvalidArgument]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _faults(inner, (*place, name), lines)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _faults(inner, (*place, number), lines)
    elif fault := _wrong(value):
        came = f"{at_line(line_of(lines, place))}{'.'.join(map(str, place))!r} is {fault}"
        yield InvalidArgument(came, "a text in quotes, or a number")


def _wrong(value: Any) -> str:
    """What a value is that is none of a recipe's; empty for all others."""
    if value is None or isinstance(value, str | bool):
        return ""
    if isinstance(value, int):
        return "" if -_LARGEST <= value < _LARGEST else "a whole number of more than 64 bits"
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"the number {value}"
    return f"a date, {value}" if isinstance(value, date) else f"a {type(value).__name__}"
