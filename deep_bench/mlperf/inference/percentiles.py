"""Percentiles of latencies, each with its definition, and whether there are enough queries for it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, isclose

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deep_bench.measure.statistics import samples_needed

SHARES = (0.5, 0.9, 0.95, 0.97, 0.99, 0.999)
"""Those that LoadGen prints."""

EARLY_CONFIDENCE = 0.99
"""Of early stopping, in the rules."""

LOADGEN = "the element floor(n p), counted from 0, of the n sorted latencies"
OURS = "the smallest latency that at least a share p of all does not exceed: element ceil(n p) - 1"
BOUND = "the order statistic that is not below the percentile with 95 % confidence"
EARLY = "the highest latency that is left when as many are discarded as still let p hold with 99 % confidence"


@dataclass(frozen=True)
class Percentile:
    """One percentile of n latencies, in the same unit.

    Args:
        share: Of the latencies that are not above it.
        loadgen: By LoadGen's definition, `LOADGEN`.
        ours: By `OURS`.
        bound: `BOUND`; ``None`` where n is below ``needed``: the percentile is then no more than the largest seen.
        needed: The fewest latencies that bound it.
    """

    share: float
    loadgen: float
    ours: float
    bound: float | None
    needed: int


def percentiles(latencies: NDArray[np.int64], looked_at: float = 0.99) -> list[Percentile]:
    """All that LoadGen prints, and the one that it looks at; none of no latencies.

    Args:
        latencies: Of queries.
        looked_at: A share.

    Example:
        >>> p90 = percentiles(np.arange(1, 101))[1]
        >>> p90.loadgen, p90.ours, p90.bound
        (91.0, 90.0, 96.0)
    """
    n, ordered = len(latencies), np.sort(latencies)
    if not n:
        return []
    entries = []
    extra = (looked_at,) if 0 < looked_at < 1 and not any(isclose(looked_at, share) for share in SHARES) else ()
    for share in sorted((*SHARES, *extra)):
        needed = samples_needed(share)
        rank = int(stats.binom.ppf(0.95, n, share))
        bound = float(ordered[rank]) if n >= needed and rank < n else None
        place = ordered[min(floor(n * share), n - 1)]
        entries.append(Percentile(share, float(place), float(ordered[ceil(round(n * share, 6)) - 1]), bound, needed))
    return entries


def early_stopping(latencies: NDArray[np.int64], share: float) -> float | None:
    r"""The estimate that the rules take for the percentile, in the latencies' unit.

    With :math:`t` of :math:`n` latencies discarded as too long, the claim that a share p is shorter holds with confidence c
    as long as :math:`P(X \le t) \le 1 - c` for X binomial of n and 1 - p; the estimate is the longest of the rest, with the
    largest such t, less one, discarded.

    Args:
        latencies: Of queries.
        share: p.

    Returns:
        The estimate; ``None`` where there are too few latencies for any (64 for p = 0.9, 662 for p = 0.99).

    Example:
        >>> early_stopping(np.arange(1, 65), 0.9), early_stopping(np.arange(1, 64), 0.9)
        (64.0, None)

    Source:
        MLPerf Inference rules, appendix on early stopping.
    """
    n = len(latencies)
    discarded = _most_discarded(n, share)
    return None if discarded < 1 else float(np.partition(latencies, n - discarded)[n - discarded])


def _most_discarded(n: int, share: float) -> int:
    """The largest t with P(X <= t) <= 1 - c; 0 or less for none."""
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if stats.binom.cdf(middle, n, 1 - share) < 1 - EARLY_CONFIDENCE else (low, middle - 1)
    return low
