"""What a call costs whatever its size: found by extrapolating the times of several sizes to none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from deep_bench.operators.studies.trial import Trial

_FEWEST_CASES = 4
_LEAST_SPAN = 4.0
_WIDEST = 3.0
_LARGEST_ERROR = 0.3


@dataclass(frozen=True)
class FixedCost:
    """The time of a call of no size.

    Args:
        seconds: By extrapolation.
        low: The least value when any one of the cases is left out.
        high: The greatest.
        error: The largest relative error of the fit.
        cases: Over how many cases.
    """

    seconds: float
    low: float
    high: float
    error: float
    cases: int

    @property
    def clear(self) -> bool:
        """Whether the times are a straight line over size, and the value stands whichever case is left out."""
        return self.error <= _LARGEST_ERROR and self.low > 0 and self.high <= _WIDEST * self.low


def fixed_cost(trials: Sequence[Trial]) -> FixedCost | None:
    r"""Fit :math:`t = a + b w + c q` to the times of one contestant on one operator, and give :math:`a`.

    ``w`` is the number of FLOPs and ``q`` that of bytes; relative errors are minimised, and no coefficient is negative.
    ``None`` where there are fewer than four cases, or their sizes are within a factor of four.

    Args:
        trials: Those of one contestant, of one operator.
    """
    pairs = [(t.median(), t.case.cost) for t in trials]
    points = [(time, cost.flops, cost.bytes) for time, cost in pairs if time is not None and cost is not None]
    if len(points) < _FEWEST_CASES or min(p[2] for p in points) <= 0:
        return None
    if max(p[2] for p in points) < _LEAST_SPAN * min(p[2] for p in points):
        return None
    table = np.array(points, dtype=float)
    fits = [_fitted(np.delete(table, i, axis=0))[0] for i in range(len(table))]
    seconds, error = _fitted(table)
    return FixedCost(seconds, min(fits), max(fits), error, len(points))


def _fitted(table: NDArray[np.float64]) -> tuple[float, float]:
    """The time of no size, and the largest relative error of the fit."""
    times, sizes = table[:, 0], table[:, 1:]
    scale = np.maximum(sizes.max(axis=0), 1.0)
    columns = np.column_stack([np.full(len(times), times.min()), sizes / scale * times.max()])
    solution, _ = nnls(columns / times[:, None], np.ones(len(times)))
    return float(solution[0] * times.min()), float(np.abs(columns @ solution / times - 1).max())
