"""Durations and amounts as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BeforeValidator

_SECONDS = {"ns": 1e-9, "µs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "B": 1.0,
    **{f"{prefix}B": 1000.0 ** (power + 1) for power, prefix in enumerate("kMGT")},
    **{f"{prefix}iB": 1024.0 ** (power + 1) for power, prefix in enumerate("KMGT")},
}
_JOULES = {"µJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3}

SCALES: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "s": _SECONDS,
        "ns": {unit: scale * 1e9 for unit, scale in _SECONDS.items()},
        "B": _BYTES,
        "B/s": {f"{unit}/s": scale for unit, scale in _BYTES.items()},
        "J": _JOULES,
        "": {"": 1.0, "%": 0.01},
        "%": {"%": 1.0},
    }
)
"""The unit of a figure, to the units that it may be written in and what one of each is in it."""

_LONGEST_S = 3650 * 86400.0

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def amount(text: str) -> tuple[float, str]:
    """A number, and the unit after it.

    Raises:
        ValueError: It is no number with at most one unit behind it, or one that is too large.

    Example:
        >>> amount("5 ms"), amount("1e-3"), amount("200 samples/s")
        ((5.0, 'ms'), (0.001, ''), (200.0, 'samples/s'))
    """
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([^\s\d<>=]\S*)?\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is no number with a unit")
    return _finite(float(match[1]), text), match[2] or ""


def in_unit(value: float, given: str, unit: str) -> float:
    """A number in the unit of a figure.

    Args:
        value: The number,
        given: the unit that it is written in,
        unit: and that of the figure.

    Raises:
        ValueError: One is not the other's, and what may be written is named; or it is too large.

    Example:
        >>> in_unit(5.0, "ms", "s"), in_unit(90.0, "%", ""), in_unit(3.0, "samples/s", "samples/s")
        (0.005, 0.9, 3.0)
    """
    scales = {**SCALES.get(unit, {}), unit: 1.0}
    if given not in scales:
        raise ValueError(
            f"the unit {given or '(none)'!r}, where "
            f"{', '.join(unit_name or '(none)' for unit_name in scales)} can be written"
        )
    return _finite(value * scales[given], f"{value:g} {given}")


def _finite(value: float, written: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{written!r} is more than any number that is kept: write one below 1e300")
    return value


def seconds(value: Any) -> Any:
    """A duration in seconds: a number of them, or a text such as ``"5min"``.

    Raises:
        ValueError: It is none, or longer than ten years; what may be written is told.

    Example:
        >>> seconds("5min"), seconds("500 ms"), seconds(3)
        (300.0, 0.5, 3.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        number, unit = float(value), "s"
    else:
        try:
            number, unit = amount(value) if isinstance(value, str) else (0.0, "")
        except ValueError:
            number, unit = 0.0, ""
    duration = number * _SECONDS.get(unit or "s", 0.0)
    if not 0 < duration <= _LONGEST_S:
        raise ValueError("a duration above 0 and up to 3650d, such as 20s, 500ms, 5min or 2h")
    return duration


Seconds = Annotated[float, BeforeValidator(seconds)]
"""A duration: a number of seconds, or a text such as ``5min``."""
