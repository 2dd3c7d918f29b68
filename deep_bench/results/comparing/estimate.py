"""How much a figure changed: the ratio or the difference of two medians, with its interval and its p-values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf, log, log1p, sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deep_bench.measure.comparison import resampled_medians
from deep_bench.measure.statistics import CONFIDENCE, Basis, Times, batch_medians, neighbour_stretch
from deep_bench.results.comparing.ranks import Ends, least_p, shift
from deep_bench.results.result import Figure

Scale: TypeAlias = Literal["ratio", "difference"]

_NUMBERS = ("", "%", "bit", "bits", "nat")
"""Units of what is a number in itself, such as a score."""

_FEWEST_BLOCKS = 6
_FEWEST_SAMPLES = 60
_PARTS = 10
_RESAMPLES = 1000
_TIGHT = 1 - 2 * (1 - CONFIDENCE)
_LEAST = 1e-12


@dataclass(frozen=True)
class Estimate:
    """The change of a figure from one side to the other.

    Args:
        scale: Whether ``value`` is ``after / before`` or ``after - before``.
        before: The median of the one.
        after: That of the other.
        value: The change of the median.
        interval: Its 95 % interval; ``None`` where the samples are too few.
        p: Of the hypothesis that nothing changed, two-sided: at most 5 % exactly if the interval leaves "no change" out.
            Between single launches measured apart, of the hypothesis that it changed by no more than the margin.
        p_equivalent: Of the hypothesis that it changed by more than the margin: the larger of two one-sided tests.
        basis: What was taken to be independent: ``"launches"`` (or runs, or records), or ``"blocks"`` of a single launch.
        counts: How many of these each side has, the earlier one first.
        why: Why there is no interval; empty where there is one.
        missed: How many runs never reached what the figure is the time to.
    """

    scale: Scale
    before: float
    after: float
    value: float
    interval: Ends | None
    p: float | None
    p_equivalent: float | None
    basis: Basis
    counts: tuple[int, int]
    why: str = ""
    missed: int = 0

    @property
    def least_p(self) -> float:
        """The least that p could have been with so many launches; 0 for blocks."""
        return least_p(*self.counts) if self.basis == "launches" else 0.0


@dataclass(frozen=True)
class Drawn:
    """The median of one side, within one launch, and what it might have been: resampled medians."""

    value: float
    draws: NDArray[np.float64]
    groups: int

    def __add__(self, other: Drawn) -> Drawn:
        return Drawn(self.value + other.value, self.draws + other.draws, min(self.groups, other.groups))


def scale_of(figure: Figure) -> Scale:
    """Whether a change of the figure is a ratio; pure numbers, such as scores, and shares change by a difference."""
    positive = all(value > 0 for value in figure.medians)
    return "ratio" if figure.unit not in _NUMBERS and positive else "difference"


def estimate(before: Figure, after: Figure, margin: float, *, apart: bool, seed: int = 0) -> Estimate:
    """The change from one figure to another.

    Where both have several launches (runs, records), their medians are compared by ranks: see
    `deep_bench.results.comparing.ranks.Shift`. Else blocks are resampled, as `deep_bench.measure.comparison.ratio` does.

    Args:
        before: The one.
        after: The other.
        margin: The relative change that counts as none.
        apart: Whether they were measured one after the other. Then slow changes of the machine are in the difference, and
            the intervals are stretched by what the autocorrelation of each shows of them. What differs from launch to
            launch they still do not hold: only a change that is surely beyond the margin is one.
        seed: Of the resampling.
    """
    scale: Scale = "ratio" if scale_of(before) == scale_of(after) == "ratio" else "difference"
    if min(len(before.medians), len(after.medians)) > 1:
        return over_launches(before, after, scale, margin)
    random = np.random.default_rng(seed)
    ours, theirs = (drawn(figure, random, apart=apart) for figure in (after, before))
    if ours is not None and theirs is not None:
        return over_blocks(theirs, ours, scale, margin, apart=apart)
    lacking = before if theirs is None else after
    few = f"a single launch with {lacking.count} sample{'s' * (lacking.count != 1)} shows no spread"
    counts = (len(before.medians), len(after.medians))
    value = _change(before.median, after.median, scale)
    return Estimate(scale, before.median, after.median, value, None, None, None, "blocks", counts, few)


def over_launches(before: Figure, after: Figure, scale: Scale, margin: float) -> Estimate:
    """The change from the medians of some launches to those of others, by ranks."""
    known = partial(np.log) if scale == "ratio" else partial(np.asarray)
    late, late_before = (np.isinf(figure.medians) for figure in (after, before))
    ours, theirs = (known(_least(figure)) for figure in (after, before))
    found = shift(ours, theirs, late=late, late_before=late_before)
    counts = (len(theirs), len(ours))
    ends = found.interval()
    allowed = log1p(margin) if scale == "ratio" else margin * abs(before.median)
    return Estimate(
        scale,
        before.median,
        after.median,
        _change(before.median, after.median, scale),
        None if ends is None else _shown(ends, scale),
        None if ends is None else min(2 * min(found.below(0.0), found.above(0.0)), 1.0),
        None if ends is None else max(found.below(-allowed), found.above(allowed)),
        "launches",
        counts,
        ""
        if ends is not None
        else f"{counts[0]} and {counts[1]} launches are too few: from 4 and 4 on there is an interval",
        int(late.sum() + late_before.sum()),
    )


def _least(figure: Figure) -> NDArray[np.float64]:
    """The median of each launch; of a run that missed what it was to reach, how long it is known to have gone on."""
    known = [float(np.median(np.concatenate(groups))) for groups in figure.launches if groups]
    return np.array(known)


def drawn(figure: Figure, random: np.random.Generator, *, apart: bool) -> Drawn | None:
    """Resampled medians of a figure; ``None`` where it has too few blocks."""
    groups = [group for launch in figure.launches for group in launch if len(group)]
    if len(groups) < _FEWEST_BLOCKS:
        samples: Times = np.concatenate(groups) if groups else np.zeros(0)
        if len(samples) < _FEWEST_SAMPLES:
            return None
        groups, apart = np.array_split(samples, _PARTS), True
    draws = resampled_medians(groups, random, _RESAMPLES)
    count = len(groups)
    if apart:
        batches = batch_medians(groups)
        center = np.median(draws)
        draws, count = center + neighbour_stretch(batches) * (draws - center), len(batches)
    return Drawn(float(np.median(np.concatenate(groups))), draws, count)


def over_blocks(before: Drawn, after: Drawn, scale: Scale, margin: float, *, apart: bool) -> Estimate:
    r"""The change between two resampled medians.

    The interval is the percentile interval of the bootstrap, each side stretched from the normal distribution's quantile to
    that of Student's t. The p-value turns that around: :math:`t = \text{change} / s`, where s is the distance of the end
    that faces "no change" over its quantile.

    Args:
        before: The one.
        after: The other.
        scale: Of the change.
        margin: The relative change that counts as none.
        apart: Whether the p-value is of a change beyond the margin, not of any change.
    """
    ours, theirs = after.draws, before.draws
    if scale == "ratio":
        ours, theirs = (np.log(np.maximum(draws, np.finfo(float).tiny)) for draws in (ours, theirs))
    draws, groups = ours - theirs, min(before.groups, after.groups)
    center, low, high = _spread(draws, CONFIDENCE, groups)
    tight = _spread(draws, _TIGHT, groups)
    allowed = log1p(margin) if scale == "ratio" else margin * abs(before.value)
    degrees = groups - 1
    reach = float(stats.t.isf((1 - CONFIDENCE) / 2, degrees))
    far = max(abs(center) - (allowed if apart else 0.0), 0.0)
    p = 2 * float(stats.t.sf(far / (low if center > 0 else high), degrees))
    sides = ((center + allowed) / tight[1], (allowed - center) / tight[2])
    return Estimate(
        scale,
        before.value,
        after.value,
        _change(before.value, after.value, scale),
        _shown((center - reach * low, center + reach * high), scale),
        min(p, 1.0),
        max(float(stats.t.sf(side, degrees)) for side in sides),
        "blocks",
        (before.groups, after.groups),
    )


def _spread(draws: NDArray[np.float64], confidence: float, groups: int) -> tuple[float, float, float]:
    """The middle of some draws, and a standard error below and above it, as the quantiles of this confidence give it."""
    tail = (1 - confidence) / 2
    low, center, high = np.quantile(draws, (tail, 0.5, 1 - tail))
    unit = sqrt(groups / (groups - 1)) / float(stats.norm.isf(tail))
    return float(center), max(unit * float(center - low), _LEAST), max(unit * float(high - center), _LEAST)


def _change(before: float, after: float, scale: Scale) -> float:
    if scale == "difference":
        return after - before
    if before == after == inf:
        return float("nan")
    return after / before if before else inf


def _shown(ends: Sequence[float], scale: Scale) -> Ends:
    low, high = ends
    if scale == "difference":
        return low, high
    return _exp(low), _exp(high)


def _exp(x: float) -> float:
    return exp(x) if x < log(1e300) else inf
