"""Axes that the plots of reports share: values with their units, ticks that can be read, colours of systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, exp, floor, log, log10

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from deep_bench.measure.pictures import colour, marker, tidy
from deep_bench.measure.units import amount, time_unit

_SPREAD = 4.0
"""From this ratio of the largest to the smallest value on, an axis is logarithmic."""

_MOST_TICKS = 6
_LEAST = 1e-305
_LINES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Looks:
    """Colour, marker and line of each system, the same in all plots of a report.

    Args:
        numbers: System to its number.
    """

    numbers: Mapping[str, int]

    def colour(self, system: str) -> str:
        """Its colour."""
        return colour(self.numbers.get(system, 0))

    def marker(self, system: str) -> str:
        """Its marker."""
        return marker(self.numbers.get(system, 0))

    def line(self, system: str) -> str:
        """Its kind of line."""
        return _LINES[self.numbers.get(system, 0) % len(_LINES)]


def value_axis(axes: Axes, low: float, high: float, unit: str) -> None:
    """Set the limits, scale and ticks of the horizontal axis for values between two.

    Args:
        axes: Which.
        low: The least value that is drawn.
        high: The largest.
        unit: Of the values.
    """
    span = log(high) - log(low) if low > 0 else 0.0
    logarithmic = span >= log(_SPREAD)
    if logarithmic:
        axes.set_xscale("log")
        room = exp(0.06 * span)
        low, high = max(low / room, _LEAST), min(high * room, 1 / _LEAST)
    else:
        room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = low - room, high + room
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks(low, high) if logarithmic else _linear(low, high, unit))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: label(value, unit)))
    tidy(axes, axis="x")


def ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis between two values above 0.

    Example:
        >>> ticks(0.9, 120), ticks(3.1, 3.9), [f"{tick:g}" for tick in ticks(1e-9, 1.0)]
        ([1.0, 3.0, 10.0, 30.0, 100.0], [3.2, 3.4, 3.6, 3.8], ['1e-09', '1e-07', '1e-05', '0.001', '0.1'])
    """
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        positions = [step * 10.0**decade for decade in decades for step in steps]
        positions = [value for value in positions if low <= value <= high]
        if len(positions) <= _MOST_TICKS:
            break
    else:
        positions = positions[:: ceil(len(positions) / _MOST_TICKS)]
    if len(positions) >= 3:
        return positions
    return [float(f"{value:.12g}") for value in MaxNLocator(4).tick_values(low, high) if low <= value <= high]


def _linear(low: float, high: float, unit: str) -> list[float]:
    scale = time_unit(high)[0] if unit == "s" else 1.0  # whole numbers of the unit that is shown
    return [value * scale for value in MaxNLocator(4).tick_values(low / scale, high / scale) if low <= value * scale <= high]


def label(value: float, unit: str) -> str:
    """A value at a tick.

    Example:
        >>> label(0.0005, "s"), label(25e6, "B/s"), label(0.25, ""), label(0, "s"), label(5e9, "samples/s")
        ('500 µs', '25 MB/s', '0.25', '0', '5e+09')
    """
    if value == 0:
        return "0"
    if unit == "s":
        scale, name = time_unit(abs(value))
        return f"{value / scale:.4g} {name}"
    if unit in ("B", "B/s"):
        return amount(value, unit, digits=None)
    return f"{value:.4g}"
