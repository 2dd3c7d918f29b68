"""Comparing the times of two systems: their ratio with its interval, and a verdict in words.

For several problems together: total times, and the ratio of two systems' totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.measure.statistics import (
    CONFIDENCE,
    Basis,
    Ends,
    Times,
    batch_medians,
    grounds,
    launch_interval,
    neighbour_stretch,
    select,
    shift,
)
from deep_bench.measure.timing import Block

Word = Literal["faster", "slower", "equivalent", "cannot tell"]

_RESAMPLES = 1000
_GRID = np.unique(np.r_[np.linspace(0, 1, 129), np.linspace(0.4, 0.6, 257)])
"""Shares of the samples; finer in the middle, where the resampled medians mostly lie."""


@dataclass(frozen=True)
class Ratio:
    """The median of one system over that of another, the base.

    Args:
        value: The ratio of the medians; below 1 is faster than the base.
        interval: The ends of its 95 % interval; None where the blocks, or launches, are too few.
        narrow: The ends of its 90 % interval, which serves the test of equivalence.
        median: The system's median in nanoseconds.
        base: The base's median in nanoseconds.
        basis: Over what the intervals are: ``"blocks"``, or ``"launches"`` where both have several.
        why: Why there is no interval, and what to do; empty where there is one.
    """

    value: float
    interval: Ends | None
    narrow: Ends | None
    median: float
    base: float
    basis: Basis
    why: str = ""


@dataclass(frozen=True)
class Comparison:
    """A verdict on two systems' times.

    Args:
        word: *equivalent* if the ratio lies within the margin (two one-sided tests, 5 %); else *faster* or *slower* if its
            95 % interval excludes 1; else *cannot tell*.
        ratio: What it rests on.
        margin: The relative difference that counts as none.
    """

    word: Word
    ratio: Ratio
    margin: float


def ratio(launches: Sequence[Sequence[Block]], base: Sequence[Sequence[Block]], *, seed: int = 0) -> Ratio:
    """The ratio of two medians of systems that took turns.

    Where both have several launches, the interval is that of ranks over the launches' medians. Else whole blocks are drawn
    with replacement, so that correlation within them and variance between them are both kept. The bootstrap is too sure of
    itself with few groups, so its intervals are widened to those of Student's t.

    Args:
        launches: The blocks of each launch of one system.
        base: Those of the other.
        seed: Of the resampling.

    Source:
        Efron and Tibshirani, An introduction to the bootstrap, 1993, section 8.5 (blocks). Hesterberg, What teachers should
        know about the bootstrap, The American Statistician 69 (2015), section 4.2 (widening). For launches as
        `deep_bench.measure.statistics.Shift`.
    """
    ours, theirs = ([select(blocks)[0] for blocks in side] for side in (launches, base))
    basis, reason = grounds(theirs, ours)
    if basis == "launches":
        return over_launches(*([float(np.median(np.concatenate(groups))) for groups in side] for side in (ours, theirs)))
    pooled = [[group for groups in side for group in groups] for side in (ours, theirs)]
    median, base_median = (float(np.median(np.concatenate(groups))) for groups in pooled)
    wide: Ends | None = None
    narrow: Ends | None = None
    if not reason:
        random = np.random.default_rng(seed)
        draws = np.log(resampled_medians(pooled[0], random)) - np.log(resampled_medians(pooled[1], random))
        wide, narrow = (widened(draws, level, min(map(len, pooled))) for level in (CONFIDENCE, 0.9))
    return Ratio(median / base_median, wide, narrow, median, base_median, basis, reason)


def over_launches(medians: Sequence[float], base: Sequence[float]) -> Ratio:
    """The ratio of the medians over several launches of each of two systems.

    Args:
        medians: Of each launch of one system, in nanoseconds.
        base: Those of the other.
    """
    _, reason = grounds(*([[np.array([value])] for value in side] for side in (base, medians)))
    ended, base_ended = np.zeros(len(medians), bool), np.zeros(len(base), bool)
    estimate = shift(np.log(medians), np.log(base), late=ended, late_before=base_ended)
    ends = [estimate.interval(level) for level in (CONFIDENCE, 0.9)]
    wide, narrow = (None if reason or pair is None else (float(np.exp(pair[0])), float(np.exp(pair[1]))) for pair in ends)
    median, base_median = float(np.median(medians)), float(np.median(base))
    return Ratio(median / base_median, wide, narrow, median, base_median, "launches", reason)


def compare(
    launches: Sequence[Sequence[Block]], base: Sequence[Sequence[Block]], *, margin: float = 0.02, seed: int = 0
) -> Comparison:
    """Say whether one system is faster or slower than another, or equivalent, or that it cannot be told.

    Args:
        launches: The blocks of each launch of one system.
        base: Those of the other.
        margin: The relative difference that counts as none: ratios from 1 / (1 + margin) to 1 + margin.
        seed: Of the resampling.

    Source:
        Schuirmann, A comparison of the two one-sided tests procedure …, J. Pharmacokinetics Biopharm. 15 (1987).
    """
    estimate = ratio(launches, base, seed=seed)
    return Comparison(judge(estimate, margin), estimate, margin)


def judge(found: Ratio, margin: float) -> Word:
    """The verdict that a ratio and a margin give; see `Comparison`.

    Example:
        >>> judge(Ratio(0.8, (0.7, 0.9), (0.72, 0.88), 8.0, 10.0, "blocks"), 0.02)
        'faster'
    """
    if found.interval is None or found.narrow is None:
        return "cannot tell"
    if 1 / (1 + margin) < found.narrow[0] and found.narrow[1] < 1 + margin:
        return "equivalent"
    if found.interval[1] < 1:
        return "faster"
    return "slower" if found.interval[0] > 1 else "cannot tell"


def resampled_medians(
    groups: Sequence[Times], random: np.random.Generator, resamples: int = _RESAMPLES
) -> NDArray[np.float64]:
    """Medians of the pooled samples of groups drawn with replacement.

    Samples are counted between some hundred quantiles of all of them; the weight of a group multiplies its counts. So a
    resample costs a matrix product instead of a sort, and is off by about a thousandth of the samples.
    """
    pooled = np.concatenate(groups)
    grid = np.unique(np.quantile(pooled, _GRID, method="inverted_cdf"))
    counts = np.array([np.bincount(np.searchsorted(grid, g), minlength=len(grid)) for g in groups], dtype=float)
    weights = random.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=resamples).astype(float)
    below = np.cumsum(weights @ counts, axis=1)
    half = below[:, -1:] / 2
    lower = (below >= half).argmax(axis=1)
    upper = (below > half).argmax(axis=1)
    return (grid[lower] + grid[upper]) / 2


def widened(draws: NDArray[np.float64], level: float, groups: int) -> tuple[float, float]:
    """The percentile interval, stretched about the median as Student's t is against the normal distribution."""
    tail = (1 - level) / 2
    low, center, high = np.quantile(draws, (tail, 0.5, 1 - tail))
    stretch = float(scipy.stats.t.isf(tail, groups - 1) / scipy.stats.norm.isf(tail)) * sqrt(groups / (groups - 1))
    return float(np.exp(center - stretch * (center - low))), float(np.exp(center + stretch * (high - center)))


_FEWEST_GROUPS = 3


@dataclass(frozen=True)
class TotalPart:
    """One problem as a part of a total.

    Args:
        count: How often it occurs.
        launches: The blocks of each launch, at least one launch.
    """

    count: int
    launches: Sequence[Sequence[Block]]


@dataclass(frozen=True)
class TotalTime:
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


def total(parts: Sequence[TotalPart], *, seed: int = 0) -> TotalTime:
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
        As `deep_bench.measure.compare.ratio`.
    """
    several = _totals(parts)
    if len(several) > 1:
        interval = launch_interval(several.tolist())
        return TotalTime(float(np.median(several)), None if interval is None else (interval.low, interval.high), "launches")
    value, draws = _drawn(parts, np.random.default_rng(seed), CONFIDENCE, alone=True)
    return TotalTime(value, None if draws is None else _ends(draws, CONFIDENCE))


def ratio_of_totals(parts: Sequence[TotalPart], base: Sequence[TotalPart], *, seed: int = 0) -> Ratio:
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


def _lacking(part: TotalPart, base: TotalPart) -> str:
    """Why the ratio of a part has no interval."""
    return grounds(*([select(blocks)[0] for blocks in side.launches[:1]] for side in (base, part)))[1]


def _totals(parts: Sequence[TotalPart]) -> NDArray[np.float64]:
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
    parts: Sequence[TotalPart], random: np.random.Generator, level: float, *, alone: bool = False
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
