"""Comparing two measurements of one thing: the ratio or difference of their medians, its interval, and the word for it.

A `Figure` is what was measured; an `Estimate` has the change from one to another, its interval and p-values; `corrected`
keeps the rate of false alarms of many comparisons together. Totals are ratios of total times: ratios are never averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from math import exp, inf, log, log1p, sqrt
from operator import add
from typing import Literal, TypeAlias

import numpy as np
import scipy
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.metrics import Direction
from deep_bench.measure.statistics import (
    CONFIDENCE,
    CPU_TIME,
    Basis,
    Ends,
    Interval,
    Times,
    batch_medians,
    grounds,
    launch_interval,
    least_p,
    median_interval,
    neighbour_stretch,
    select,
    shift,
    without_interval,
)
from deep_bench.measure.timing import Block
from deep_bench.measure.units import share, significant


@dataclass(frozen=True)
class Figure:
    """One metric of a result: its raw samples, and what follows from them.

    Args:
        name: Such as ``"forward"``, ``"time to target"``, ``"accuracy"``.
        unit: Such as ``"s"``, ``"samples/s"``; empty for a pure number.
        direction: Which is better.
        launches: The samples: for each fresh start of the process, or each training run, groups of samples taken in one go.
        remark: What a reader should know, such as "predicted, not measured".
        censored: For each launch, whether its samples say only how long a run went on without reaching what the figure is
            the time to; empty where every run reached it.
        aside: Times as they were taken that are not in ``launches``: of samples that were preempted, which count not at all
            or with their CPU time, as the remark says.
        wall: Where samples that were preempted count with their CPU time: all samples by the wall clock; else empty.

    Example:
        >>> figure = Figure("forward", "s", "lower", ((np.array([2.0, 4.0, 3.0]),),))
        >>> figure.median, figure.count, figure.interval
        (3.0, 3, None)
    """

    name: str
    unit: str
    direction: Direction
    launches: tuple[tuple[Times, ...], ...]
    remark: str = ""
    censored: tuple[bool, ...] = ()
    aside: tuple[Times, ...] = ()
    wall: tuple[tuple[Times, ...], ...] = ()

    @cached_property
    def medians(self) -> tuple[float, ...]:
        """The median of each launch that has samples; infinite for one that is censored."""
        late = self.censored or (False,) * len(self.launches)
        return tuple(
            float("inf") if never else float(np.median(np.concatenate(groups)))
            for groups, never in zip(self.launches, late, strict=True)
            if groups
        )

    @cached_property
    def median(self) -> float:
        """Over the medians of launches; of a single launch, over its samples. NaN without any."""
        return float(np.median(self.medians)) if self.medians else float("nan")

    @cached_property
    def interval(self) -> Interval | None:
        """The 95 % interval of the median: over launches, or within a single one; ``None`` where samples are too few."""
        launches = [groups for groups in self.launches if groups]
        if len(launches) > 1:
            return launch_interval(self.medians)
        return median_interval(launches[0]) if launches and not any(self.censored) else None

    @property
    def without_interval(self) -> str:
        """Why there is no interval, and what to do; empty where there is one."""
        return without_interval(self.launches) if self.interval is None else ""

    @property
    def count(self) -> int:
        """The number of samples."""
        return sum(len(group) for groups in self.launches for group in groups)


_TIMES = ("s", "ms", "us", "µs", "ns", "min", "h")
_ENERGY = ("J", "kJ", "Wh", "kWh", "W")


def is_speed(unit: str) -> bool:
    """Whether a figure is a time, or an amount in a second."""
    return unit in _TIMES or unit.endswith("/s")


def differs_by_start(unit: str) -> bool:
    """Whether a figure of such a unit differs from start to start: a time, a rate, an energy; no score, no size.

    Example:
        >>> [differs_by_start(unit) for unit in ("s", "samples/s", "J", "", "%", "bits", "B")]
        [True, True, True, False, False, False, False]
    """
    return is_speed(unit) or unit in _ENERGY


BETWEEN_STARTS = 0.10
"""By how much two starts of one program may differ in a time or a rate: between single launches no less is called a change.

A start settles what then stays for as long as the process lives: where memory lies and how it is aligned, on which core it
runs, which kernel a library took. So no sample of the process shows it. In 480 comparisons of the same code, single launches
taken apart, ratios went from 0.89 to 1.11 (docs/compare.md); several launches replace this number by what is measured.

Source:
    Mytkowicz, Diwan, Hauswirth and Sweeney, *Producing wrong data without doing anything obviously wrong!*, ASPLOS 2009: the
    order of linking and the size of the environment alone turn a gain into a loss. Kalibera and Jones, *Rigorous
    benchmarking in reasonable time*, ISMM 2013: what varies from start to start is known only from several starts.
"""


Correction: TypeAlias = Literal["holm", "bh", "none"]

CORRECTIONS: dict[str, str] = {
    "holm": "Holm: at most 5 % chance of any false claim",
    "bh": "Benjamini-Hochberg: at most 5 % of all claims are expected to be false",
    "none": "not corrected: each comparison alone has a 5 % chance of a false claim",
}
"""Name of a correction to what it promises."""


def corrected(p: Sequence[float], correction: str) -> list[float]:
    r"""P-values that may be compared with 5 % each.

    Holm: of m sorted p-values, :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})`, which holds whatever
    depends on what.

    Args:
        p: As they are, of the whole family.
        correction: A name in `CORRECTIONS`.

    Raises:
        UnknownName: No such correction.

    Example:
        >>> [round(x, 3) for x in corrected([0.01, 0.04, 0.03], "holm")]
        [0.03, 0.06, 0.06]
        >>> [round(x, 3) for x in corrected([0.01, 0.04, 0.03], "bh")]
        [0.03, 0.04, 0.04]

    Source:
        Holm, *A simple sequentially rejective multiple test procedure*, Scand. J. Statist. 6 (1979); Benjamini and Hochberg,
        *Controlling the false discovery rate*, J. R. Statist. Soc. B 57 (1995).
    """
    if correction not in CORRECTIONS:
        raise UnknownName("correction", correction, CORRECTIONS)
    values = np.asarray(p, float)
    if correction == "none" or not len(values):
        return values.tolist()
    if correction == "bh":
        return np.asarray(scipy.stats.false_discovery_control(values, method="bh")).tolist()
    order = np.argsort(values)
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    p_values = np.empty_like(values)
    p_values[order] = np.minimum(steps, 1.0)
    return p_values.tolist()


Scale: TypeAlias = Literal["ratio", "difference"]

_NUMBERS = ("", "%", "bit", "bits", "nat")
"""Units of what is a number in itself, such as a score."""


Word: TypeAlias = Literal["faster", "slower", "better", "worse", "equivalent", "cannot tell", "not comparable"]

LEVEL = 0.05
"""The chance of a false claim."""


_RESAMPLES = 1000
_GRID = np.unique(np.r_[np.linspace(0, 1, 129), np.linspace(0.4, 0.6, 257)])
"""Shares of the samples; finer in the middle, where the resampled medians mostly lie."""


_RANGES = (1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078)
"""The expected range of two to ten independent normal values, in standard deviations."""


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
            Between single launches measured apart, of the hypothesis that it changed by no more than the margin or
            ``starts``, whichever is more.
        p_equivalent: Of the hypothesis that it changed by more than the margin: the larger of two one-sided tests.
        basis: What was taken to be independent: ``"launches"`` (or runs, or records), or ``"blocks"`` of a single launch.
        counts: How many of these each side has, the earlier one first.
        why: Why there is no interval; empty where there is one.
        missed: How many runs never reached what the figure is the time to.
        wander: How far the machine is seen to have wandered while sides were measured apart: a share of the median, or in
            the unit of a difference. A change counts only beyond that.
        starts: The relative change that is put down to two starts of a process: `BETWEEN_STARTS` where times of single
            launches were measured apart, else 0.
        unit: Of both figures.
        direction: Which is better.
        by_wall: Whether both are by the wall clock here, since only one of the figures is by CPU time; see `by_one_clock`.

    Example:
        >>> Estimate("ratio", 10.0, 8.0, 0.8, (0.7, 0.9), 0.001, 0.99, "blocks", (9, 9)).word
        'faster'
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
    wander: float = 0.0
    starts: float = 0.0
    unit: str = "ns"
    direction: Direction = "lower"
    by_wall: bool = False

    @property
    def word(self) -> Word:
        """What is said of it if it is the only comparison."""
        return self.word_for(self.p, self.p_equivalent)

    def word_for(self, p: float | None, p_equivalent: float | None) -> Word:
        """The word for the change, with p-values that are corrected for other comparisons.

        *Equivalent* is a claim of its own, by two one-sided tests against the margin; it goes before *faster* and *slower*,
        since a change within the margin counts as none.

        Args:
            p: Of the hypothesis that there is none.
            p_equivalent: Of the hypothesis that it is beyond the margin.

        Source:
            Schuirmann, A comparison of the two one-sided tests procedure …, J. Pharmacokinetics Biopharm. 15 (1987).
        """
        if p is None or p_equivalent is None:
            return "cannot tell"
        if p_equivalent <= LEVEL:
            return "equivalent"
        if p > LEVEL:
            return "cannot tell"
        assert self.interval is not None
        up = self.interval[0] > (1 if self.scale == "ratio" else 0)
        good = up == (self.direction == "higher")
        if is_speed(self.unit):
            return "faster" if good else "slower"
        return "better" if good else "worse"

    @property
    def least_p(self) -> float:
        """The least that p could have been with so many launches; 0 for blocks."""
        return least_p(*self.counts) if self.basis == "launches" else 0.0


@dataclass(frozen=True)
class MedianDraws:
    """The median of one side, within one launch, and what it might have been.

    Args:
        value: The median.
        draws: Resampled medians.
        groups: Of how many blocks.
        wander: How far the machine is seen to have wandered from block to block, in the unit of ``value``; 0 where it is not
            seen, or hits both sides.
    """

    value: float
    draws: NDArray[np.float64]
    groups: int
    wander: float = 0.0

    def __add__(self, other: MedianDraws) -> MedianDraws:
        groups = min(self.groups, other.groups)
        return MedianDraws(self.value + other.value, self.draws + other.draws, groups, self.wander + other.wander)

    def __mul__(self, count: int) -> MedianDraws:
        return MedianDraws(count * self.value, count * self.draws, self.groups, count * self.wander)


def scale_of(figure: Figure) -> Scale:
    """Whether a change of the figure is a ratio; pure numbers, such as scores, and shares change by a difference."""
    positive = all(value > 0 for value in figure.medians)
    return "ratio" if figure.unit not in _NUMBERS and positive else "difference"


def estimate(before: Figure, after: Figure, margin: float = 0.02, *, apart: bool = False, seed: int = 0) -> Estimate:
    """The change from one figure to another.

    Where both have several launches (runs, records), their medians are compared by ranks: see
    `deep_bench.measure.statistics.Shift`. Else whole blocks are drawn with replacement, so that correlation within them and
    variance between them are both kept. The bootstrap is too sure of itself with few groups, so its intervals are widened to
    those of Student's t.

    Args:
        before: The one.
        after: The other.
        margin: The relative change that counts as none.
        apart: Whether they were measured one after the other. Then slow changes of the machine are in the difference, and
            the intervals are stretched by what the autocorrelation of each shows of them. What differs from launch to
            launch they still do not hold: only a change that is surely beyond the margin is one, and of a time only one
            that is surely beyond `BETWEEN_STARTS`.
        seed: Of the resampling.

    Source:
        Efron and Tibshirani, An introduction to the bootstrap, 1993, section 8.5 (blocks). Hesterberg, What teachers should
        know about the bootstrap, The American Statistician 69 (2015), section 4.2 (widening).
    """
    before, after, by_wall = by_one_clock(before, after)
    return replace(_estimate(before, after, margin, apart=apart, seed=seed), by_wall=by_wall)


def by_one_clock(before: Figure, after: Figure) -> tuple[Figure, Figure, bool]:
    """Two figures by the same clock, and whether that is another one than theirs.

    On a busy machine calls that are longer than a time slice count with the CPU time of their thread, which the work of
    several threads does not have. The wall clock says of such a system how long it waited as well: a ratio of the two means
    nothing.
    """
    if bool(before.wall) == bool(after.wall):
        return before, after, False
    before, after = (replace(figure, launches=figure.wall or figure.launches, wall=()) for figure in (before, after))
    return before, after, True


BY_WALL = (
    "ratio of times by the wall clock: only one of the two is timed by CPU time, without what others took of the machine"
)


def _estimate(before: Figure, after: Figure, margin: float, *, apart: bool, seed: int) -> Estimate:
    scale: Scale = "ratio" if scale_of(before) == scale_of(after) == "ratio" else "difference"
    basis, reason = grounds(before.launches, after.launches)
    if basis == "launches":
        return _over_launches(before, after, scale, margin)
    if reason:
        counts = (len(before.medians), len(after.medians))
        value = _change(before.median, after.median, scale)
        return Estimate(
            scale, before.median, after.median, value, None, None, None, basis, counts, reason,
            unit=after.unit, direction=after.direction,
        )  # fmt: skip
    random = np.random.default_rng(seed)
    ours, theirs = (_median_draws(figure, random, apart=apart) for figure in (after, before))
    return _over_blocks(theirs, ours, scale, margin, after, apart=apart)


def times(launches: Sequence[Sequence[Block]]) -> Figure:
    """The time of a call in nanoseconds, over the samples that count in the blocks of each launch."""
    chosen = [select(blocks) for blocks in launches]
    by_cpu = any(selection == CPU_TIME for _, selection in chosen)
    wall = tuple(tuple(block.calls_ns for block in blocks if len(block.ns)) for blocks in launches) if by_cpu else ()
    return Figure("time", "ns", "lower", tuple(tuple(groups) for groups, _ in chosen), wall=wall)


def ratio(
    launches: Sequence[Sequence[Block]], base: Sequence[Sequence[Block]], *, margin: float = 0.02, seed: int = 0
) -> Estimate:
    """The ratio of the median times of systems that took turns.

    Args:
        launches: The blocks of each launch of one system.
        base: Those of the other.
        margin: The relative difference that counts as none: ratios from 1 / (1 + margin) to 1 + margin.
        seed: Of the resampling.
    """
    return estimate(times(base), times(launches), margin, seed=seed)


def twins_line(ratio: Estimate, label: str, *, kind: str = "system", whole: str = "") -> str:
    """What the A/A pair says.

    Args:
        ratio: Of something to itself, measured twice.
        label: What that is called.
        kind: What it is.
        whole: Of what differences are a share, for the sentence.
    """
    line = f"A/A: {label} against itself: ratio {significant(ratio.value)}"
    if ratio.interval is None:
        return f"{line} without an interval: {ratio.why}"
    low, high = ratio.interval
    spread = share(max(abs(low - 1), abs(high - 1)))
    line += f" ({significant(low)} to {significant(high)}); differences below {spread}{whole} mean nothing"
    if low <= 1 <= high:
        return line
    return f"{line}; the two should not differ: processes of one {kind} do here, so use --launches 10"


def _over_launches(before: Figure, after: Figure, scale: Scale, margin: float) -> Estimate:
    """The change from the medians of some launches to those of others, by ranks."""
    transform = partial(np.log) if scale == "ratio" else partial(np.asarray)
    late, late_before = (np.isinf(figure.medians) for figure in (after, before))
    ours, theirs = (transform(_least(figure)) for figure in (after, before))
    rank_shift = shift(ours, theirs, late=late, late_before=late_before)
    counts = (len(theirs), len(ours))
    ends = rank_shift.interval()
    allowed = log1p(margin) if scale == "ratio" else margin * abs(before.median)
    return Estimate(
        scale,
        before.median,
        after.median,
        _change(before.median, after.median, scale),
        None if ends is None else _shown(ends, scale),
        None if ends is None else min(2 * min(rank_shift.below(0.0), rank_shift.above(0.0)), 1.0),
        None if ends is None else max(rank_shift.below(-allowed), rank_shift.above(allowed)),
        "launches",
        counts,
        grounds(before.launches, after.launches)[1],
        int(late.sum() + late_before.sum()),
        unit=after.unit,
        direction=after.direction,
    )


def _least(figure: Figure) -> NDArray[np.float64]:
    """The median of each launch; of a run that missed what it was to reach, how long it is known to have gone on."""
    medians = [float(np.median(np.concatenate(groups))) for groups in figure.launches if groups]
    return np.array(medians)


def _median_draws(figure: Figure, random: np.random.Generator, *, apart: bool) -> MedianDraws:
    """Resampled medians of a figure that has grounds for an interval."""
    groups = [group for launch in figure.launches for group in launch if len(group)]
    draws = resampled_medians(groups, random, _RESAMPLES)
    value = float(np.median(np.concatenate(groups)))
    if not apart:
        return MedianDraws(value, draws, len(groups))
    batches = batch_medians(groups)
    center = np.median(draws)
    return MedianDraws(value, center + neighbour_stretch(batches) * (draws - center), len(batches), wander(batches))


def wander(medians: Times) -> float:
    r"""How far medians in a row wander, beyond what values without an order do.

    .. math:: \sqrt{\max(0,\ (\max m - \min m)^2 - (d_n s)^2)}, \quad s^2 = \frac{1}{2 (n - 1)} \sum (m_{i+1} - m_i)^2

    where :math:`d_n` is the expected range of n independent normal values: what neighbours differ by explains no more.

    Args:
        medians: Of two to ten blocks, or of neighbouring blocks together.

    Example:
        >>> wander(np.array([1.0, 1.2, 1.0, 1.2])), round(wander(np.array([1.0, 1.1, 1.2, 1.3])), 2)
        (0.0, 0.26)

    Source:
        von Neumann, *Distribution of the ratio of the mean square successive difference to the variance*, Ann. Math.
        Statist. 12 (1941), for s; Tippett, Biometrika 17 (1925), for the range.
    """
    steps = np.diff(medians)
    noise = float(steps @ steps) / (2 * len(steps))
    return sqrt(max(float(np.ptp(medians)) ** 2 - _RANGES[len(steps) - 1] ** 2 * noise, 0.0))


def _over_blocks(
    before: MedianDraws, after: MedianDraws, scale: Scale, margin: float, figure: Figure, *, apart: bool
) -> Estimate:
    r"""The change between two resampled medians.

    The interval is the percentile interval of the bootstrap, each side stretched from the normal distribution's quantile to
    that of Student's t. The p-value turns that around: :math:`t = \text{change} / s`, where s is the distance of the end
    that faces "no change" over its quantile.

    Two starts may differ by a share that no block shows. Then a change is one that is beyond that share as well as the
    margin, and none is one that is within the margin whatever the starts did, which takes a margin beyond that share.

    Args:
        before: The one.
        after: The other.
        scale: Of the change.
        margin: The relative change that counts as none.
        figure: What they are medians of: two starts differ in times, not in scores.
        apart: Whether they were measured one after the other: whether the p-value is of a change beyond the margin and the
            share of two starts, not of any change.
    """
    ours, theirs = after.draws, before.draws
    if scale == "ratio":
        ours, theirs = (np.log(np.maximum(draws, np.finfo(float).tiny)) for draws in (ours, theirs))
    draws, groups = ours - theirs, min(before.groups, after.groups)
    center, low, high = _spread(draws, CONFIDENCE, groups)
    _, tight_low, tight_high = _spread(draws, _TIGHT, groups)
    starts = BETWEEN_STARTS if apart and differs_by_start(figure.unit) else 0.0
    within, started = (log1p(share) if scale == "ratio" else share * abs(before.value) for share in (margin, starts))
    wandered = sqrt(sum((side.wander / (abs(side.value) if scale == "ratio" else 1.0)) ** 2 for side in (before, after)))
    degrees = groups - 1
    reach = float(scipy.stats.t.isf((1 - CONFIDENCE) / 2, degrees))
    far = max(abs(center) - wandered - (max(within, started) if apart else 0.0), 0.0)
    p = 2 * float(scipy.stats.t.sf(far / max(low if center > 0 else high, _LEAST), degrees))
    room = within - started - wandered
    sides = ((room + center) / max(tight_low, _LEAST), (room - center) / max(tight_high, _LEAST))
    return Estimate(
        scale,
        before.value,
        after.value,
        _change(before.value, after.value, scale),
        _shown((center - reach * low - wandered, center + reach * high + wandered), scale),
        min(p, 1.0),
        max(float(scipy.stats.t.sf(side, degrees)) for side in sides),
        "blocks",
        (before.groups, after.groups),
        wander=wandered,
        starts=starts,
        unit=figure.unit,
        direction=figure.direction,
    )


def _spread(draws: NDArray[np.float64], confidence: float, groups: int) -> tuple[float, float, float]:
    """The middle of some draws, and a standard error below and above it, as the quantiles of this confidence give it."""
    tail = (1 - confidence) / 2
    low, center, high = np.quantile(draws, (tail, 0.5, 1 - tail))
    unit = sqrt(groups / (groups - 1)) / float(scipy.stats.norm.isf(tail))
    return float(center), unit * float(center - low), unit * float(high - center)


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


_FEWEST_GROUPS = 3


@dataclass(frozen=True)
class TotalPart:
    """One problem as a part of a total.

    Args:
        count: How often it occurs.
        figure: Its time.
    """

    count: int
    figure: Figure


@dataclass(frozen=True)
class TotalTime:
    """The sum of the medians of several problems, each times how often it occurs, in their unit.

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

    Within one launch, its interval is from a bootstrap over the blocks of each part, stretched as Student's t is against the
    normal distribution, since few blocks are too sure of themselves, and as that of a median where neighbours are alike. Of
    several launches each has a total of its own, and the median of these is taken.

    Args:
        parts: At least one.
        seed: Of the resampling.

    Raises:
        InvalidArgument: There are no parts.

    Source:
        As `estimate`.
    """
    sums = _sums(parts)
    if len(sums.launches) > 1:
        interval = sums.interval
        return TotalTime(sums.median, None if interval is None else (interval.low, interval.high), "launches")
    if any(sum(len(group) > 0 for group in part.figure.launches[0]) < _FEWEST_GROUPS for part in parts):
        return TotalTime(sums.median, None)
    random = np.random.default_rng(seed)
    draws = reduce(add, [_median_draws(part.figure, random, apart=True) * part.count for part in parts])
    center, low, high = _spread(draws.draws, CONFIDENCE, draws.groups)
    reach = float(scipy.stats.t.isf((1 - CONFIDENCE) / 2, draws.groups - 1))
    return TotalTime(sums.median, (max(center - reach * low, np.finfo(float).tiny), center + reach * high))


def ratio_of_totals(
    parts: Sequence[TotalPart],
    base: Sequence[TotalPart],
    margin: float = 0.02,
    *,
    apart: Sequence[bool] = (),
    seed: int = 0,
) -> Estimate:
    """The total time of one system over that of another, the base, with an interval from the same bootstrap.

    Where all parts have several launches, it is that of ranks over the totals of launches.

    Args:
        parts: One system's.
        base: Those of the other, on the same problems.
        margin: The relative difference that counts as none.
        apart: Of each part, whether both sides of it were measured one after the other; none by default.
        seed: Of the resampling.

    Raises:
        InvalidArgument: There are no parts.
    """
    pairs = [by_one_clock(theirs.figure, ours.figure) for theirs, ours in zip(base, parts, strict=True)]
    parts = [TotalPart(part.count, after) for part, (_, after, _) in zip(parts, pairs, strict=True)]
    base = [TotalPart(part.count, before) for part, (before, _, _) in zip(base, pairs, strict=True)]
    total = _ratio_of_totals(parts, base, margin, apart or [False] * len(parts), seed)
    return replace(total, by_wall=any(by_wall for *_, by_wall in pairs))


def _ratio_of_totals(
    parts: Sequence[TotalPart], base: Sequence[TotalPart], margin: float, apart: Sequence[bool], seed: int
) -> Estimate:
    sums, base_sums = _sums(parts), _sums(base)
    if min(len(sums.launches), len(base_sums.launches)) > 1:
        return _over_launches(base_sums, sums, "ratio", margin)
    for ours, theirs in zip(parts, base, strict=True):
        if reason := grounds(theirs.figure.launches[:1], ours.figure.launches[:1])[1]:
            value = _change(base_sums.median, sums.median, "ratio")
            return Estimate(
                "ratio", base_sums.median, sums.median, value, None, None, None, "blocks", (1, 1), reason,
                unit=sums.unit, direction=sums.direction,
            )  # fmt: skip
    random = np.random.default_rng(seed)
    sides: tuple[list[MedianDraws], list[MedianDraws]] = ([], [])
    for ours, theirs, far in zip(parts, base, apart, strict=True):
        for side, part in zip(sides, (ours, theirs), strict=True):
            side.append(_median_draws(part.figure, random, apart=far) * part.count)
    after, before = (reduce(add, side) for side in sides)
    return _over_blocks(before, after, "ratio", margin, sums, apart=any(apart))


def _sums(parts: Sequence[TotalPart]) -> Figure:
    """The total of each launch that all parts have."""
    if not parts:
        raise InvalidArgument("a total of nothing", "at least one part")
    launches = min(len(part.figure.medians) for part in parts)
    values = np.sum([part.count * np.array(part.figure.medians[:launches]) for part in parts], axis=0)
    first = parts[0].figure
    return Figure(first.name, first.unit, first.direction, tuple((np.array([value]),) for value in values))
