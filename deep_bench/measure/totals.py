"""The cost of several problems together: total times, and the ratio of two systems' totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deep_bench.errors import InvalidArgument
from deep_bench.measure.comparison import Ends, Ratio, resampled_medians
from deep_bench.measure.statistics import CONFIDENCE, batch_medians, neighbour_stretch, select
from deep_bench.measure.timing import Block

_FEWEST_GROUPS = 3


@dataclass(frozen=True)
class Part:
    """One problem as a part of a total.

    Args:
        count: How often it occurs.
        blocks: Its samples.
    """

    count: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Total:
    """The sum of the medians of several problems, each times how often it occurs, in nanoseconds.

    Args:
        value: The sum.
        interval: The ends of its 95 % interval; None where a part has fewer than three blocks.
    """

    value: float
    interval: Ends | None


def total(parts: Sequence[Part], *, seed: int = 0) -> Total:
    """The total time of several problems.

    Its interval is from a bootstrap over the blocks of each part; the spread of each is stretched as Student's t is against
    the normal distribution, since few blocks are too sure of themselves, and as that of a median where neighbours are alike.

    Args:
        parts: At least one.
        seed: Of the resampling.

    Raises:
        InvalidArgument: There are no parts.

    Source:
        As `deep_bench.measure.comparison.ratio`.
    """
    value, draws = _drawn(parts, np.random.default_rng(seed), CONFIDENCE, alone=True)
    return Total(value, None if draws is None else _ends(draws, CONFIDENCE))


def ratio_of_totals(parts: Sequence[Part], base: Sequence[Part], *, seed: int = 0) -> Ratio:
    """The total time of one system over that of another, the base, with an interval from the same bootstrap.

    Args:
        parts: One system's.
        base: Those of the other, on the same problems.
        seed: Of the resampling.

    Raises:
        InvalidArgument: There are no parts.
    """
    ends: list[Ends | None] = []
    for level in (CONFIDENCE, 0.9):
        random = np.random.default_rng(seed)
        (value, ours), (base_value, theirs) = (_drawn(p, random, level) for p in (parts, base))
        ends.append(None if ours is None or theirs is None else _ends(ours / theirs, level))
    return Ratio(value / base_value, ends[0], ends[1], value, base_value, "blocks")


def _drawn(
    parts: Sequence[Part], random: np.random.Generator, level: float, *, alone: bool = False
) -> tuple[float, NDArray[np.float64] | None]:
    """The total, and resampled ones; None where there are too few blocks.

    Args:
        parts: The parts.
        random: Draws.
        level: Of the interval that the draws are for.
        alone: Whether drift matters: it hits systems that take turns alike, and their ratio less.
    """
    if not parts:
        raise InvalidArgument("a total of nothing", "at least one part")
    value, draws = 0.0, np.zeros(1)
    known = True
    for part in parts:
        groups, _ = select(part.blocks)
        median = float(np.median(np.concatenate(groups)))
        value += part.count * median
        if len(groups) < _FEWEST_GROUPS:
            known = False
        if known:
            spread = resampled_medians(groups, random) - median
            stretch = _stretch(len(groups), level) * (neighbour_stretch(batch_medians(groups)) if alone else 1.0)
            draws = draws + part.count * (median + stretch * spread)
    return value, np.maximum(draws, np.finfo(float).tiny) if known else None


def _stretch(groups: int, level: float) -> float:
    tail = (1 - level) / 2
    return float(stats.t.isf(tail, groups - 1) / stats.norm.isf(tail)) * sqrt(groups / (groups - 1))


def _ends(draws: NDArray[np.float64], level: float) -> Ends:
    tail = (1 - level) / 2
    low, high = np.quantile(draws, (tail, 1 - tail))
    return float(low), float(high)
