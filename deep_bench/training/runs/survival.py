"""Times that some runs never reached: the Kaplan-Meier estimate, and how many runs succeed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.measure.statistics import CONFIDENCE, quantile_ranks

FEWEST = 6
"""Fewer runs have no interval: the smallest number for which order statistics bound a median at 95 %."""

Ends = tuple[float, float | None]


@dataclass(frozen=True)
class Survival:
    r"""How the share of runs that have not reached the target falls with time: the Kaplan-Meier estimate.

    :math:`\hat S(t) = \prod_{t_i \le t} (1 - d_i / n_i)`, where :math:`d_i` of the :math:`n_i` runs that were still going
    reached it at :math:`t_i`. A run that ended without reaching it counts as going until its end. That is fair as long as
    its end says nothing of when it would have reached it: so with a limit that is the same for all.

    Args:
        times: When runs reached it, each time once, ascending.
        going: The share that has not reached it after each of these times.
        low: The lower end of the 95 % band, pointwise; empty for fewer than `FEWEST` runs.
        high: Its upper end.
        median: When half of the runs have reached it; ``None`` where the share never falls to a half.
        interval: The 95 % interval of the median; ``None`` where there is none; its upper end is ``None`` where the data do
            not bound it.
        n: The number of runs.
        reached: How many reached it.

    Source:
        Kaplan and Meier, *Nonparametric estimation from incomplete observations*, JASA 53 (1958); Greenwood's variance on
        the scale of :math:`\log(-\log S)`; Brookmeyer and Crowley, *A confidence interval for the median survival time*,
        Biometrics 38 (1982).
    """

    times: NDArray[np.float64]
    going: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    median: float | None
    interval: Ends | None
    n: int
    reached: int


def survival(times: Sequence[float], reached: Sequence[bool]) -> Survival:
    """The Kaplan-Meier estimate.

    Args:
        times: When each run reached the target, or else ended; at least 0.
        reached: Whether it reached it.

    Raises:
        InvalidArgument: No runs, unequal numbers, or a time below 0.

    Example:
        >>> found = survival([3, 5, 8, 8], [True, False, True, False])
        >>> found.times, found.going, found.median, found.interval
        (array([3., 8.]), array([0.75 , 0.375]), 8.0, None)
    """
    at, hit = np.asarray(times, np.float64), np.asarray(reached, bool)
    if not len(at) or at.shape != hit.shape or not np.all(at >= 0):
        raise InvalidArgument(
            f"times {list(times)} with {len(hit)} outcomes", "one time of at least 0 for each of some runs"
        )
    if not hit.any():
        none = np.zeros(0)
        return Survival(none, none, none, none, None, None, len(at), 0)
    curve = scipy.stats.ecdf(scipy.stats.CensoredData.right_censored(at, ~hit)).sf
    mask = np.isin(curve.quantiles, at[hit])
    moments, going = curve.quantiles[mask], curve.probabilities[mask]
    low = high = np.zeros(0)
    if len(at) >= FEWEST:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # at a share of 0 the formula has no value: NaN
            band: Any = curve.confidence_interval(CONFIDENCE, method="log-log")
        low, high = band.low.probabilities[mask], band.high.probabilities[mask]
    interval = _interval(at, hit, moments, low, high) if len(at) >= FEWEST else None
    return Survival(moments, going, low, high, _first(moments, going), interval, len(at), int(hit.sum()))


def _interval(at: np.ndarray, hit: np.ndarray, moments: np.ndarray, low: np.ndarray, high: np.ndarray) -> Ends | None:
    """The interval of the median: exact where all reached it, else where the band holds a half."""
    if hit.all():
        ranks = quantile_ranks(len(at))
        assert ranks is not None
        ordered = np.sort(at)
        return float(ordered[ranks[0]]), float(ordered[ranks[1]])
    begin = _first(moments, low)
    return None if begin is None else (begin, _first(moments, high))


def _first(moments: np.ndarray, shares: np.ndarray) -> float | None:
    """The first moment when at most half are going."""
    below = np.flatnonzero(shares <= 0.5 + 1e-12)
    return float(moments[below[0]]) if len(below) else None


@dataclass(frozen=True)
class Success:
    """How many runs reached the target.

    Args:
        reached: How many did.
        n: How many there were.
        interval: The 95 % interval of the probability (Wilson); ``None`` for fewer than `FEWEST` runs.
        exact: The same by Clopper and Pearson, which is never too narrow.
    """

    reached: int
    n: int
    interval: tuple[float, float] | None
    exact: tuple[float, float] | None

    @property
    def share(self) -> float:
        """The share of runs that reached it."""
        return self.reached / self.n


def success(reached: int, n: int) -> Success:
    """The probability to reach the target, and its interval.

    Raises:
        InvalidArgument: No runs, or more that reached it.

    Example:
        >>> found = success(9, 10)
        >>> found.share, [round(end, 3) for end in found.interval], success(3, 3).interval
        (0.9, [0.596, 0.982], None)

    Source:
        Wilson, JASA 22 (1927); Clopper and Pearson, Biometrika 26 (1934); Brown, Cai and DasGupta, Statist. Sci. 16 (2001).
    """
    if not 0 <= reached <= n or n < 1:
        raise InvalidArgument(f"{reached} of {n} runs", "at least one run")
    if n < FEWEST:
        return Success(reached, n, None, None)
    test = scipy.stats.binomtest(reached, n)
    wilson, exact = (test.proportion_ci(CONFIDENCE, method) for method in ("wilson", "exact"))
    return Success(reached, n, (float(wilson.low), float(wilson.high)), (float(exact.low), float(exact.high)))
