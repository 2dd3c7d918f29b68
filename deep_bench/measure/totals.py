"""The cost of several problems together: total times, and the ratio of two systems' totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.measure.comparison import Ratio, over_launches, resampled_medians
from deep_bench.measure.grounds import grounds
from deep_bench.measure.ranks import Ends
from deep_bench.measure.statistics import CONFIDENCE, Basis, batch_medians, launch_interval, neighbour_stretch, select
from deep_bench.measure.timing import Block

_FEWEST_GROUPS = 3
_RESAMPLES = 1000


@dataclass(frozen=True)
class Part:
    """One problem as a part of a total.

    Args:
        count: How often it occurs.
        launches: The blocks of each launch, at least one launch.
    """

    count: int
    launches: Sequence[Sequence[Block]]


@dataclass(frozen=True)
class Total:
    """The sum of the medians of several problems, each times how often it occurs, in nanoseconds.

    Args:
        value: The sum.
        interval: The ends of its 95 % interval; None where there are too few blocks, or launches.
        basis: Over what it was taken: ``"blocks"`` (None where a part has fewer than three of them) or ``"launches"`` (None
            below six of them), where all parts have several.
    """

    value: float
    interval: Ends | None
    basis: Basis = "blocks"


def total(parts: Sequence[Part], *, seed: int = 0) -> Total:
    """The total time of several problems.

    Within one launch, its interval is from a bootstrap over the blocks of each part; the spread of each is stretched
    as Student's t is against the normal distribution, since few blocks are too sure of themselves, and as that of a median
    where neighbours are alike. Of several launches each has a total of its own, and the median of these is taken.

    Args:
        parts: At least one.
        seed: Of the resampling.

    Raises:
        InvalidArgument: There are no parts.

    Source:
        As `deep_bench.measure.comparison.ratio`.
    """
    several = _totals(parts)
    if len(several) > 1:
        interval = launch_interval(several.tolist())
        return Total(float(np.median(several)), None if interval is None else (interval.low, interval.high), "launches")
    value, draws = _drawn(parts, np.random.default_rng(seed), CONFIDENCE, alone=True)
    return Total(value, None if draws is None else _ends(draws, CONFIDENCE))


def ratio_of_totals(parts: Sequence[Part], base: Sequence[Part], *, seed: int = 0) -> Ratio:
    """The total time of one system over that of another, the base, with an interval from the same bootstrap.

    Where both have several launches, the interval is that of ranks over their totals.

    Args:
        parts: One system's.
        base: Those of the other, on the same problems.
        seed: Of the resampling.

    Raises:
        InvalidArgument: There are no parts.
    """
    ours_of, theirs_of = _totals(parts), _totals(base)
    if min(len(ours_of), len(theirs_of)) > 1:
        return over_launches(ours_of.tolist(), theirs_of.tolist())
    reason = next((reason for ours, theirs in zip(parts, base, strict=True) if (reason := _lacking(ours, theirs))), "")
    ends: list[Ends | None] = []
    for level in (CONFIDENCE, 0.9):
        random = np.random.default_rng(seed)
        (value, ours), (base_value, theirs) = (_drawn(p, random, level) for p in (parts, base))
        ends.append(None if reason or ours is None or theirs is None else _ends(ours / theirs, level))
    return Ratio(value / base_value, ends[0], ends[1], value, base_value, "blocks", reason)


def _lacking(part: Part, base: Part) -> str:
    """Why the ratio of a part has no interval."""
    return grounds(*([select(blocks)[0] for blocks in side.launches[:1]] for side in (base, part)))[1]


def _totals(parts: Sequence[Part]) -> NDArray[np.float64]:
    """The total of each launch that all parts have."""
    if not parts:
        raise InvalidArgument("a total of nothing", "at least one part")
    launches = min(len(part.launches) for part in parts)
    return np.sum(
        [part.count * np.array([_median(blocks) for blocks in part.launches[:launches]]) for part in parts], axis=0
    )


def _median(blocks: Sequence[Block]) -> float:
    return float(np.median(np.concatenate(select(blocks)[0])))


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
    value, draws = 0.0, np.zeros(1)
    complete = True
    for part in parts:
        groups, _ = select(part.launches[0])
        median = float(np.median(np.concatenate(groups)))
        value += part.count * median
        if len(groups) < _FEWEST_GROUPS:
            complete = False
        if complete:
            spread = resampled_medians(groups, random) - median
            stretch = _stretch(len(groups), level) * (neighbour_stretch(batch_medians(groups)) if alone else 1.0)
            draws = draws + part.count * (median + stretch * spread)
    return value, np.maximum(draws, np.finfo(float).tiny) if complete else None


def _stretch(groups: int, level: float) -> float:
    tail = (1 - level) / 2
    return float(scipy.stats.t.isf(tail, groups - 1) / scipy.stats.norm.isf(tail)) * sqrt(groups / (groups - 1))


def _ends(draws: NDArray[np.float64], level: float) -> Ends:
    tail = (1 - level) / 2
    low, high = np.quantile(draws, (tail, 1 - tail))
    return float(low), float(high)
