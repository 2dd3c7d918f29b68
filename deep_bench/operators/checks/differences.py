"""Slopes of a vector of functions by differences: each with how far off it may be, and whether it exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

Line = Callable[[float], np.ndarray]
"""A vector of functions of one variable, in float64."""

_SMOOTH = 1e-3
"""How closely, beside its own size, extrapolations of a slope agree where the function is smooth."""

_SURE = 6.0
"""How many times its noise a difference is from being noise."""

_WITNESSES = 3
"""How many other extrapolations the best one is compared with."""

_QUANTILE, _OF_NORMAL = 0.2, 0.2533
"""A quantile of magnitudes, and what it is for normal ones of variance 1."""

_ORDER = 4
"""Of the differences that noise is read off: what is smooth cancels in them."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """The slopes of a vector of functions at 0.

    Args:
        value: One for each function.
        error: How far off the extrapolation may be, beyond noise.
        noise: The root mean square of what rounding in the functions does to it.
        smooth: Where the function is smooth, so that there is a slope.
        kink: Where it has a slope to each side.
        low, high: These two at kinks, the lesser one first.
    """

    value: np.ndarray
    error: np.ndarray
    noise: np.ndarray
    smooth: np.ndarray
    kink: np.ndarray
    low: np.ndarray
    high: np.ndarray


def noise_of(line: Line, here: np.ndarray, expected: np.ndarray, step: float) -> np.ndarray:
    """The root mean square of the rounding errors of each function, as the functions themselves show it.

    Fourth differences over steps so small that nothing else is left in them; a low quantile of them tells by how much the
    errors exceed what is expected of them, even where many of the functions jump.

    Args:
        line: The functions.
        here: Their values at 0.
        expected: The root mean square that is expected, for each.
        step: The distance of the points.

    Source:
        Moré and Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33 (2011).
    """
    values = [line(-2 * step), line(-step), here, line(step), line(2 * step)]
    with np.errstate(all="ignore"):
        difference = sum((-1) ** k * comb(_ORDER, k) * v for k, v in enumerate(values))
        ratios = np.abs(np.asarray(difference)) / np.sqrt(comb(2 * _ORDER, _ORDER)) / expected
    ratios = ratios[np.isfinite(ratios)]
    excess = float(np.quantile(ratios, _QUANTILE)) / _OF_NORMAL if ratios.size else 1.0
    return expected * max(excess, 1.0)


def slopes_of(line: Line, here: np.ndarray, noise: np.ndarray, steps: Sequence[float]) -> Slopes:
    r"""Slopes by central differences over several steps, extrapolated to none.

    With :math:`D(h) = (f(h) - f(-h)) / 2h = f' + c_2 h^2 + c_4 h^4 + …` over steps that halve, each column of the table
    :math:`T_{k,j} = T_{k,j-1} + (T_{k,j-1} - T_{k-1,j-1}) / (4^j - 1)` cancels one more term. The entry is taken whose
    neighbours agree best, noise included.

    Args:
        line: The functions.
        here: Their values at 0.
        noise: The root mean square of the rounding error of each value.
        steps: Each half of the one before; at least three.

    Example:
        >>> line = lambda t: np.array([(1 + t) ** 3, abs(t)])
        >>> found = slopes_of(line, line(0.0), np.full(2, 1e-16), [0.1, 0.05, 0.025])
        >>> round(float(found.value[0]), 6), found.smooth.tolist(), found.kink.tolist(), float(found.low[1])
        (3.0, [True, False], [False, True], -1.0)

    Source:
        Richardson, 1911; Ridders, "Accurate computation of F'(x) and F'(x)F''(x)", Adv. Eng. Softw. 4 (1982).
    """
    with np.errstate(all="ignore"):
        above, below = [line(step) for step in steps], [line(-step) for step in steps]
        table = _table([(a - b) / (2 * h) for a, b, h in zip(above, below, steps, strict=True)])
        value, raw, level = _best(table, noise, steps)
        scale = np.abs(value) + _rms(value)
        slope_noise = 1.5 * noise / (np.sqrt(2) * steps[level])
        finite = np.all([np.isfinite(v) for v in (here, *above, *below)], axis=0)
        wrong = raw > _SMOOTH * scale + _SURE * slope_noise
        right_slope, left_slope = (above[-1] - here) / steps[-1], (here - below[-1]) / steps[-1]
        bent = _bent(here, above, below, steps, noise, scale)
        smooth = finite & ~wrong & ~bent
        one_sided = np.abs((above[-2] - here) / steps[-2] - right_slope) + np.abs(
            (here - below[-2]) / steps[-2] - left_slope
        )
        kink = finite & ~smooth & (one_sided <= 0.05 * np.abs(right_slope - left_slope) + _SURE * noise / steps[-1])
    return Slopes(
        np.where(smooth, value, 0.0),
        np.where(smooth, np.maximum(raw - 3 * slope_noise, 0.0), 0.0),
        slope_noise,
        smooth,
        kink,
        np.where(kink, np.minimum(left_slope, right_slope), 0.0),
        np.where(kink, np.maximum(left_slope, right_slope), 0.0),
    )


def _table(column: list[np.ndarray]) -> list[list[np.ndarray]]:
    """Richardson's table, one row for each step."""
    rows: list[list[np.ndarray]] = []
    for k, first in enumerate(column):
        row = [first]
        for j in range(1, k + 1):
            row.append(row[-1] + (row[-1] - rows[-1][j - 1]) / (4**j - 1))
        rows.append(row)
    return rows


@dataclass(frozen=True, eq=False)
class _Entry:
    """An entry of the table: its values, how far their neighbours are, their noise, the step, and the usual error."""

    value: np.ndarray
    error: np.ndarray
    noise: np.ndarray
    step: int
    usual: float


def _best(rows: list[list[np.ndarray]], noise: np.ndarray, steps: Sequence[float]) -> tuple[np.ndarray, np.ndarray, int]:
    """The entry with the least error over most functions that move, the error of each there, and which step it is of.

    Neighbours may agree by chance, where a term of the series happens to be 0 or a kink is near; the next best entries then
    disagree with it by more than their noise.
    """
    entries = [_entry(rows, k, j, noise, steps) for k in range(1, len(rows)) for j in range(1, k + 1)]
    best, *witnesses = sorted(entries, key=lambda entry: entry.usual)
    error = best.error
    for witness in witnesses[:_WITNESSES]:
        error = np.maximum(error, np.abs(best.value - witness.value) - 3 * (best.noise + witness.noise))
    return best.value, np.where(np.isfinite(error), error, np.inf), best.step


def _entry(rows: list[list[np.ndarray]], k: int, j: int, noise: np.ndarray, steps: Sequence[float]) -> _Entry:
    value, slope_noise = rows[k][j], 1.5 * noise / (np.sqrt(2) * steps[k])
    error = np.maximum(np.abs(value - rows[k][j - 1]), np.abs(value - rows[k - 1][j - 1]))
    size = np.abs(value)
    moving = size >= 0.01 * np.max(size[np.isfinite(size)], initial=0.0)
    usual = (error + np.sqrt(2) * slope_noise)[np.isfinite(error) & moving]
    typical = float(np.median(usual)) + 0.1 * float(np.quantile(usual, 0.9)) if usual.size else float("inf")
    return _Entry(value, error, slope_noise, k, typical)


def _bent(
    centre: np.ndarray,
    above: Sequence[np.ndarray],
    below: Sequence[np.ndarray],
    steps: Sequence[float],
    noise: np.ndarray,
    scale: np.ndarray,
) -> np.ndarray:
    """Where the function is bent at the very point: it leaves the line as the step grows, not as its square does."""
    near, far = (np.abs(above[k] + below[k] - 2 * centre) for k in (-1, -2))
    large = near / steps[-1] > 10 * _SMOOTH * scale + _SURE * 2.5 * noise / steps[-1]
    return large & (far < 3 * near)


def _rms(x: np.ndarray) -> float:
    finite = x[np.isfinite(x)]
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
