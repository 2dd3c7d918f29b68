"""Slopes of a function of one variable, by differences, where it is smooth and where it has a kink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

_STEPS = (2.0**-9, 2.0**-13, 2.0**-20)
_AGREE = 2.0**-17
"""How closely, beside the largest of them, slopes over different steps agree where a function is smooth."""

_KINK = 2.0**-11
"""How far apart, beside the larger one, slopes to both sides are at a kink."""


@dataclass(frozen=True)
class Slope:
    """The slopes of a function to both sides of a point; equal where it is smooth.

    Args:
        low: The lesser one.
        high: The greater one.
        word: ``"smooth"``, ``"kink"``, ``"jump"`` (no slope at all), or ``"undefined"`` (no number there).
    """

    low: float
    high: float
    word: str = "smooth"

    def admits(self, found: float, tolerance: float) -> bool:
        """Whether a gradient is one of these slopes, or between them; at a jump, and where nothing is defined, any is."""
        return self.word in ("jump", "undefined") or self.low - tolerance <= found <= self.high + tolerance

    def __str__(self) -> str:
        return f"{self.low:.6g}" if self.low == self.high else f"{self.low:.6g} to {self.high:.6g} ({self.word})"


def slope(function: Callable[[float], float], scale: float = 1.0) -> Slope:
    r"""The slope of ``function`` at 0.

    Where central differences over two steps agree, Richardson's extrapolation of them; else the differences to both sides
    over a step so small that what lies near the point no longer matters.

    Args:
        function: In float64, of a step from the point.
        scale: The size of the point's coordinates; steps are taken in proportion.

    Example:
        >>> slope(lambda t: (1 + t) ** 3).low, slope(abs)
        (3.0, Slope(low=-1.0, high=1.0, word='kink'))

    Source:
        Richardson, 1911; Clarke, *Optimization and Nonsmooth Analysis*, section 2.1.
    """
    center = function(0.0)
    if not isfinite(center):
        return Slope(0.0, 0.0, "undefined")
    values = {step: (function(step * scale), function(-step * scale)) for step in _STEPS[:2]}
    wide, near = (_central(values[step], step * scale) for step in _STEPS[:2])
    if abs(wide - near) <= _AGREE * max(abs(wide), abs(near), _small(2.0**-10, scale)) and _joins(
        values[_STEPS[1]], center, near, scale
    ):
        ratio = (_STEPS[0] / _STEPS[1]) ** 2
        refined = near + (near - wide) / (ratio - 1)
        return Slope(refined, refined)
    return _one_sided(function, center, scale)


def _central(values: tuple[float, float], step: float) -> float:
    return (values[0] - values[1]) / (2 * step)


def _joins(values: tuple[float, float], center: float, central: float, scale: float) -> bool:
    """Whether the point lies between its neighbours, as it does not on top of a kink that is the same to both sides."""
    bend = abs(values[0] + values[1] - 2 * center) / (_STEPS[1] * scale)
    return bend <= 64 * _STEPS[1] * max(abs(central), _small(2.0**-6, scale))


def _small(slope: float, scale: float) -> float:
    """A slope that counts as none: over a longer step it changes as much."""
    return slope / max(scale, 1.0)


def _one_sided(function: Callable[[float], float], center: float, scale: float) -> Slope:
    above, below = (
        [(function(sign * step * scale) - center) / (sign * step * scale) for step in _STEPS[1:]] for sign in (1, -1)
    )
    if not all(map(isfinite, (*above, *below))):
        return Slope(0.0, 0.0, "undefined")
    low, high = sorted((above[-1], below[-1]))
    apart, before = high - low, abs(above[0] - below[0])
    if max(abs(above[-1]), abs(below[-1])) > 4 * max(abs(above[0]), abs(below[0]), _small(2.0**-10, scale)):
        return Slope(low, high, "jump")
    curved = apart < before / 4  # what is only curved is straight over a smaller step
    if curved or apart <= _KINK * max(abs(low), abs(high), _small(2.0**-6, scale)):
        middle = (low + high) / 2
        return Slope(middle, middle)
    return Slope(low, high, "kink")
