"""Numbers with units, as people read and write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from math import floor, isfinite, log10
from types import MappingProxyType
from typing import Any

_SCALES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BINARY = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_PLAIN_BELOW = 10_000


def time_unit(seconds: float) -> tuple[float, str]:
    """The unit that suits a time: its length in seconds, and its sign.

    Example:
        >>> time_unit(0.012), time_unit(0.0)
        ((0.001, 'ms'), (1e-09, 'ns'))
    """
    return next(((scale, unit) for scale, unit in _SCALES if seconds >= scale), _SCALES[-1])


def duration(seconds: float | None) -> str:
    """A time with four significant digits.

    Example:
        >>> duration(0.00012345), duration(2.0), duration(None)
        ('123.5 µs', '2.000 s', '–')
    """
    if seconds is None:
        return "–"
    scale, unit = time_unit(seconds)
    return f"{significant(seconds / scale, 4)} {unit}"


def duration_range(low: float, high: float) -> str:
    """Two times in the unit of the larger one.

    Example:
        >>> duration_range(0.00012345, 0.0001321)
        '123.5 to 132.1 µs'
    """
    scale, unit = time_unit(high)
    return f"{significant(low / scale, 4)} to {significant(high / scale, 4)} {unit}"


def in_bytes(count: float, digits: int | None = 4) -> str:
    """A number of bytes: in binary units where it is a round number of them, in decimal ones elsewhere.

    Args:
        count: Bytes; may be negative, as a difference is.
        digits: Significant digits in decimal units; ``None`` for as many as it has, so that no two sizes look alike.

    Example:
        >>> in_bytes(8), in_bytes(3000), in_bytes(16 * 2**20), in_bytes(1.5 * 2**30), in_bytes(-4096)
        ('8 B', '3000 B', '16 MiB', '1.5 GiB', '-4 KiB')
        >>> in_bytes(67_108_868), in_bytes(67_108_868, digits=None), in_bytes(153_440_000, digits=None)
        ('67.11 MB', '67.108868 MB', '153.44 MB')
    """
    factor, unit = next((pair for pair in _BINARY if abs(count) >= pair[0]), (1, "B"))
    if factor > 1 and 4 * count % factor == 0:
        return f"{count / factor:g} {unit}"
    if abs(count) < _PLAIN_BELOW and count == int(count):
        return f"{int(count)} B"
    return _decimal(count, "B", digits)


def amount(value: float, unit: str, digits: int | None = 4) -> str:
    """A value with its unit, times and amounts of memory in the unit that suits them.

    Args:
        value: In the unit.
        unit: Such as ``"s"``, ``"B"``, ``"B/s"``; empty for a pure number.
        digits: Significant digits; ``None`` for as many as it has, of bytes.

    Example:
        >>> amount(0.0012, "s"), amount(0.98765, ""), amount(345_200_000, "B"), amount(2.5e9, "B/s"), amount(7.0, "W")
        ('1.200 ms', '0.9877', '345.2 MB', '2.500 GB/s', '7.000 W')
    """
    if not isfinite(value):
        return f"{value:g} {unit}".strip()
    if unit == "s":
        return duration(value)
    if unit == "B":
        return in_bytes(value, digits)
    if unit == "B/s":
        return _decimal(value, unit, digits)
    return f"{significant(value, digits or 4)} {unit}".strip()


def amount_range(low: float, high: float, unit: str, between: str = " to ") -> str:
    """Two values, with their unit once where it is the same.

    Example:
        >>> amount_range(2.0, 3.0, "W"), amount_range(9.9e5, 1.2e6, "B/s"), amount_range(0.5, 0.75, "")
        ('2.000 to 3.000 W', '990.0 kB/s to 1.200 MB/s', '0.5000 to 0.7500')
    """
    if unit == "s":
        return duration_range(low, high)
    (number, _, of), last = amount(low, unit).rpartition(" "), amount(high, unit)
    shared = number and last.rpartition(" ")[2] == of
    return f"{number if shared else amount(low, unit)}{between}{last}"


def _decimal(value: float, unit: str, digits: int | None) -> str:
    factor, prefix = next((pair for pair in _DECIMAL if abs(value) >= pair[0]), (1.0, ""))
    scaled = value / factor
    return f"{scaled:.15g} {prefix}{unit}" if digits is None else f"{significant(scaled, digits)} {prefix}{unit}"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, and no exponent where it can be helped.

    Example:
        >>> significant(1.0), significant(0.98765), significant(0.025432), significant(123.4), significant(123456.0)
        ('1.00', '0.988', '0.0254', '123', '123000')
    """
    if value == 0 or not abs(value) < float("inf"):
        return f"{value:g}"
    rounded = float(f"{value:.{digits - 1}e}")
    before = floor(log10(abs(rounded))) + 1
    return f"{rounded:.{max(digits - before, 0)}f}" if abs(rounded) >= 1e-3 else f"{rounded:.{digits - 1}e}"


def share(value: float) -> str:
    """A share in per cent.

    Example:
        >>> share(0.0312), share(-0.5)
        ('3.1 %', '-50.0 %')
    """
    return f"{100 * value:.1f} %"


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


def read_amount(text: str) -> tuple[float, str]:
    """A number, and the unit after it.

    Raises:
        ValueError: It is no number with at most one unit behind it, or one that is too large.

    Example:
        >>> read_amount("5 ms"), read_amount("1e-3"), read_amount("200 samples/s")
        ((5.0, 'ms'), (0.001, ''), (200.0, 'samples/s'))
    """
    match = re.fullmatch(rf"\s*({_NUMBER})\s*([^\s\d<>=]\S*)?\s*", text)
    if match is None:
        raise ValueError(f"{text!r} is no number with a unit")
    return _finite(float(match[1]), text), match[2] or ""


def read_scaled(text: str, scales: Mapping[str, float]) -> float:
    """A number that is not negative, with one of several units.

    Args:
        text: Such as ``5ms``.
        scales: Each unit that may be written, to what one of it is.

    Raises:
        ValueError: It is something else.

    Example:
        >>> read_scaled("5min", SCALES["s"]), read_scaled("48K", {"": 1, "K": 1024})
        (300.0, 49152.0)
    """
    number, unit = read_amount(text)
    if number < 0 or unit not in scales:
        raise ValueError(f"{text!r} is no number of {', '.join(filter(None, scales))}")
    return _finite(number * scales[unit], text)


def in_unit(value: float, written: str, unit: str) -> float:
    """A number in the unit of a figure.

    Args:
        value: The number,
        written: the unit that it is written in,
        unit: and that of the figure.

    Raises:
        ValueError: One is not the other's, and what may be written is named; or it is too large.

    Example:
        >>> in_unit(5.0, "ms", "s"), in_unit(90.0, "%", ""), in_unit(3.0, "samples/s", "samples/s")
        (0.005, 0.9, 3.0)
    """
    scales = {**SCALES.get(unit, {}), unit: 1.0}
    if written not in scales:
        raise ValueError(
            f"the unit {written or '(none)'!r}, where "
            f"{', '.join(unit_name or '(none)' for unit_name in scales)} can be written"
        )
    return _finite(value * scales[written], f"{value:g} {written}")


def _finite(value: float, written: str) -> float:
    if not isfinite(value):
        raise ValueError(f"{written!r} is more than any number that is kept: write one below 1e300")
    return value


def read_seconds(value: Any) -> Any:
    """A duration in seconds: a number of them, or a text such as ``"5min"``.

    Raises:
        ValueError: It is none, or longer than ten years; what may be written is told.

    Example:
        >>> read_seconds("5min"), read_seconds("500 ms"), read_seconds(3)
        (300.0, 0.5, 3.0)
    """
    length = 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        length = float(value)
    elif isinstance(value, str):
        with suppress(ValueError):
            length = read_scaled(value, {"": 1.0, **_SECONDS})
    if not 0 < length <= _LONGEST_S:
        raise ValueError("a duration above 0 and up to 3650d, such as 20s, 500ms, 5min or 2h")
    return length
