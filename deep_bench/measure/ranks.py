"""Two samples of a few values each (launches, runs): an exact rank test, and the interval that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

import numpy as np
import scipy
from numpy.typing import NDArray

Ends = tuple[float, float]
Values = NDArray[np.float64]

_MOST_EXACT = 2_000
"""Up to so many pairs the distribution is counted out; above, it is normal to three digits."""


@dataclass(frozen=True)
class Shift:
    r"""By how much the values of one sample exceed those of another.

    All differences of pairs are sorted. Under the hypothesis that both samples come from one distribution but for a shift
    :math:`\theta`, the number of differences below :math:`\theta` has the distribution of Mann and Whitney, whatever the
    distribution of the values: its quantiles give the ranks of the interval's ends, and its tail the p-value. So the p-value
    of a shift is at most 5 % exactly if the 95 % interval leaves it out.

    A run that ended without reaching what was asked of it (censored) has a value of at least its time. A pair of which it is
    not known which came first counts against every claim (Gehan's generalisation, made conservative), and so do ties.

    Args:
        low: The least that each difference can be, sorted.
        high: The most.
        sizes: Of the two samples.

    Source:
        Mann and Whitney, Ann. Math. Statist. 18 (1947); Hodges and Lehmann, Ann. Math. Statist. 34 (1963); Gehan, *A
        generalized Wilcoxon test for comparing arbitrarily singly-censored samples*, Biometrika 52 (1965); Hollander, Wolfe
        and Chicken, *Nonparametric statistical methods*, 2014, section 4.3.
    """

    low: Values
    high: Values
    sizes: tuple[int, int]

    def interval(self, confidence: float = 0.95) -> Ends | None:
        """The ends of the shift's interval; ``None`` where the samples are too small for one."""
        tail = (1 - confidence) / 2
        at_most = int(np.searchsorted(_cumulative(*self.sizes), tail * (1 + 1e-9), side="right"))  # so many ranks are out
        return None if at_most == 0 else (float(self.low[at_most - 1]), float(self.high[-at_most]))

    def below(self, shift: float) -> float:
        """The p-value of the hypothesis that the true shift is at most this one."""
        return self._tail(int(np.count_nonzero(self.low <= shift)))

    def above(self, shift: float) -> float:
        """The p-value of the hypothesis that the true shift is at least this one."""
        return self._tail(int(np.count_nonzero(self.high >= shift)))

    def _tail(self, count: int) -> float:
        return float(min(_cumulative(*self.sizes)[count], 1.0))


def shift(after: Values, before: Values, *, late: NDArray[np.bool_], late_before: NDArray[np.bool_]) -> Shift:
    """The shift from one sample to another.

    Args:
        after: The values of one.
        before: Those of the other.
        late: Which of ``after`` are censored: the true value is at least this.
        late_before: Which of ``before`` are.

    Example:
        >>> none = np.zeros(5, bool)
        >>> found = shift(np.arange(5.0) + 10, np.arange(5.0), late=none, late_before=none)
        >>> found.interval(), round(found.below(0.0), 4)
        ((7.0, 13.0), 0.004)
    """
    with np.errstate(invalid="ignore"):
        low = after[:, None] - np.where(late_before, np.inf, before)[None, :]
        high = np.where(late, np.inf, after)[:, None] - before[None, :]
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    return Shift(np.sort(low, axis=None), np.sort(high, axis=None), (len(after), len(before)))


def least_p(n: int, m: int) -> float:
    """The least two-sided p-value that samples of these sizes can have.

    Example:
        >>> round(least_p(3, 3), 4), round(least_p(4, 4), 4), round(least_p(10, 10), 6)
        (0.1, 0.0286, 1.1e-05)
    """
    return min(2 / comb(n + m, n), 1.0)


@lru_cache(maxsize=64)
def _cumulative(n: int, m: int) -> Values:
    """The probability that at most so many of the n x m differences are below the true shift."""
    if n * m > _MOST_EXACT:
        spread = (n * m * (n + m + 1) / 12) ** 0.5
        return np.asarray(scipy.stats.norm.cdf((np.arange(n * m + 1) + 0.5 - n * m / 2) / spread))
    ways = [np.zeros(n * m + 1) for _ in range(m + 1)]  # of samples of 0 and of 0 … m values
    for row in ways:
        row[0] = 1
    for _ in range(n):
        grown = [ways[0]]
        for second_size in range(1, m + 1):  # the largest of all belongs to the second sample, or to the first
            moved = np.zeros(n * m + 1)
            moved[second_size:] = ways[second_size][: n * m + 1 - second_size]
            grown.append(grown[-1] + moved)
        ways = grown
    return np.cumsum(ways[m]) / ways[m].sum()
