"""Statistics of raw samples, computed on reading; each says what it is and where it comes from.

Whether there are grounds for an interval, over what it is taken, and why there is none, is decided here for all. Two
samples of a few values each (launches, runs) have an exact rank test, and the interval that belongs to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, log
from typing import Final, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from deep_bench.measure.timing import Block, trend

Times = NDArray[np.float64]
Basis = Literal["samples", "blocks", "launches"]
Selection = Literal["all samples", "samples not preempted", "preempted samples at their CPU time"]

CONFIDENCE = 0.95
HEAVY_PREEMPTION = 0.01
"""From this share of preempted samples on, the median is not that of all samples; see `select`."""


_MOST_BATCHES = 10
_LEAST_RHO, _MOST_RHO = 1 / 3, 0.9
_PERCENTILES = (0.9, 0.95, 0.99, 0.999)


@dataclass(frozen=True)
class Interval:
    """A confidence interval.

    Args:
        low: Its lower end.
        high: Its upper end.
        basis: Over what it was taken: ``"samples"``, ``"blocks"`` (their medians; the samples are correlated) or
            ``"launches"`` (the medians of fresh processes). The first two see nothing of what differs between launches.
    """

    low: float
    high: float
    basis: Basis


@dataclass(frozen=True)
class Percentile:
    """A percentile of all samples, preempted ones included: the tail is what a user meets.

    Args:
        value: The smallest sample that at least that share of samples does not exceed.
        bound: The 95 % upper confidence bound by order statistics.
    """

    value: float
    bound: float


@dataclass(frozen=True)
class Summary:
    """What is known of the time of one call, in nanoseconds.

    Args:
        n: Number of samples.
        n_blocks: Number of blocks they were taken in.
        batch: Calls per sample; above 1, a sample is a mean of so many calls and there are no percentiles.
        median: The median of the samples of ``selection``.
        interval: Its 95 % confidence interval; None where the samples are too few.
        selection: What the median, its interval and the quartiles are taken of; see `select`.
        lower_quartile: The 25th percentile of the selection.
        upper_quartile: The 75th percentile of the selection.
        minimum: The smallest of all samples.
        maximum: The largest of all samples.
        mean: The mean of all samples.
        std: The standard deviation of all samples (n - 1).
        percentiles: ``"p90"``, ``"p95"``, ``"p99"``, ``"p99.9"``; None stands for too few samples (`samples_needed`).
        preempted: The share of samples during which the kernel took the CPU away.
        median_of_all: The median of all samples …
        median_not_preempted: … and of those not preempted (None if there are none): their difference is what preemption did.
        median_cpu_time: The median with preempted samples at their CPU time; None where that was not noted.
        median_first: The median of the first calls after resuming, kept apart from all else.
        autocorrelation: Lag-1 rank autocorrelation within blocks; None where the samples are too few.
        drift: Relative change of the block medians from the first block to the last (Theil-Sen), or 0.0 where no trend
            can be told from noise (Mann-Kendall test, 5 %).
        modes: Where the samples cluster: one entry is the normal case, more are a warning; empty where they are too few.
    """

    n: int
    n_blocks: int
    batch: int
    median: float
    interval: Interval | None
    selection: Selection
    lower_quartile: float
    upper_quartile: float
    minimum: float
    maximum: float
    mean: float
    std: float
    percentiles: Mapping[str, Percentile | None]
    preempted: float
    median_of_all: float
    median_not_preempted: float | None
    median_cpu_time: float | None
    median_first: float | None
    autocorrelation: float | None
    drift: float
    modes: tuple[float, ...]

    @property
    def relative_half_width(self) -> float | None:
        """Half the interval's width over the median; None without an interval."""
        return None if self.interval is None else (self.interval.high - self.interval.low) / 2 / self.median

    @property
    def iqr(self) -> float:
        """The interquartile range over the median: the relative spread."""
        return (self.upper_quartile - self.lower_quartile) / self.median


def summarize(blocks: Sequence[Block]) -> Summary:
    """All statistics of the blocks of one launch, at least one of them with a sample.

    Source:
        Hoefler and Belli, Scientific benchmarking of parallel computing systems, SC 2015, rules 5-8.
    """
    every = np.concatenate([b.calls_ns for b in blocks])
    preempted = np.concatenate([b.preempted for b in blocks])
    groups, selection = select(blocks)
    chosen = np.concatenate(groups)
    first = [b.resume_ns for b in blocks if b.resume_ns is not None]
    batch = max(b.batch for b in blocks)
    lower, median, upper = np.quantile(chosen, (0.25, 0.5, 0.75))
    return Summary(
        n=len(every),
        n_blocks=len(blocks),
        batch=batch,
        median=float(median),
        interval=median_interval(groups),
        selection=selection,
        lower_quartile=float(lower),
        upper_quartile=float(upper),
        minimum=float(every.min()),
        maximum=float(every.max()),
        mean=float(every.mean()),
        std=float(every.std(ddof=1)) if len(every) > 1 else 0.0,
        percentiles={f"p{100 * p:g}": percentile(every, p) if batch == 1 else None for p in _PERCENTILES},
        preempted=float(preempted.mean()),
        median_of_all=float(np.median(every)),
        median_not_preempted=float(np.median(every[~preempted])) if not preempted.all() else None,
        median_cpu_time=float(np.median(np.concatenate(cpu))) if len(cpu := _cpu_times(blocks)) else None,
        median_first=float(np.median(first)) if first else None,
        autocorrelation=autocorrelation(groups),
        drift=drift([float(np.median(g)) for g in groups]),
        modes=modes(chosen),
    )


CPU_TIME: Final = "preempted samples at their CPU time"


def select(blocks: Sequence[Block]) -> tuple[list[Times], Selection]:
    """What the median is taken of, block by block.

    A preempted sample shows another process's time slice. While they are rare (under 1 %) they do not move the median, and
    all samples count. Else those not preempted count, as long as they are the most. Else, which happens to calls that are
    longer than a time slice, preempted ones count with the thread's CPU time, where that was noted. Without it all count,
    since the few that are left would be no fair sample.
    """
    share = np.concatenate([b.preempted for b in blocks]).mean()
    quiet = [b.calls_ns[~b.preempted] for b in blocks if not b.preempted.all()]
    if share >= HEAVY_PREEMPTION:
        if share > 0.5 and (cpu := _cpu_times(blocks)):
            return cpu, CPU_TIME
        if quiet and share <= 0.5:
            return quiet, "samples not preempted"
    return [b.calls_ns for b in blocks if len(b.ns)], "all samples"


def _cpu_times(blocks: Sequence[Block]) -> list[Times]:
    """The times with preempted samples at their CPU time; empty unless all blocks have it."""
    times = [b.calls_cpu_ns for b in blocks if len(b.ns)]
    cpu_times = [t for t in times if t is not None]
    return cpu_times if len(cpu_times) == len(times) else []


@lru_cache(maxsize=256)
def quantile_ranks(n: int, p: float = 0.5, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    r"""Ranks :math:`j, k` (from 0) with :math:`P(x_{(j)} \le q_p \le x_{(k)}) \ge` ``confidence``; None for too small an n.

    The number of samples below the quantile is binomial, whatever the distribution: j and k are its quantiles.

    Source:
        Le Boudec, Performance evaluation of computer and communication systems, EPFL Press 2010, theorem 2.1.

    Example:
        >>> quantile_ranks(5), quantile_ranks(6), quantile_ranks(100)
        (None, (0, 5), (39, 60))
    """
    tail = (1 - confidence) / 2
    low = int(scipy.stats.binom.ppf(tail, n, p)) - 1
    high = int(scipy.stats.binom.ppf(1 - tail, n, p))
    return None if low < 0 or high >= n else (low, high)


def median_interval(groups: Sequence[Times], confidence: float = CONFIDENCE) -> Interval | None:
    r"""The confidence interval of the median by order statistics.

    It is taken over all samples if these look independent, else over the medians of the groups, whose spread holds the
    variance between groups as well. (Six values are the fewest that have a 95 % interval.) Neighbouring groups are alike
    where a machine drifts: many of them are joined to at most ten, and the interval is stretched by
    :math:`\sqrt{(1 + r) / (1 - r)}` with their autocorrelation r, which is taken to be a third at least, since so few groups
    cannot show less. It is never narrower than the clock's resolution.

    Source:
        Le Boudec (as in `quantile_ranks`), section 2.2; batch means: Law, Simulation modeling and analysis, chapter 9;
        stretching: Wilks, Statistical methods in the atmospheric sciences, section 5.2.4.
    """
    basis: Basis = "blocks" if correlated(groups) else "samples"
    every = np.concatenate(groups)
    values = batch_medians(groups) if basis == "blocks" else every
    ranks = quantile_ranks(len(values), confidence=confidence)
    if ranks is None:
        return None
    low, high = np.partition(values, ranks)[list(ranks)]
    center = float(np.median(every))
    # the clock's resolution, as the samples show it: the least difference of two of them
    distinct = np.unique(every)
    tick = (float(np.diff(distinct).min()) if len(distinct) > 1 else 0.0) / 2
    if basis == "blocks":
        stretch = neighbour_stretch(values)
        low = _stretched(min(float(low), center), center, stretch)
        high = _stretched(max(float(high), center), center, stretch)
    least = min(0.0, float(every.min()))
    return Interval(max(min(float(low), center) - tick, least), max(float(high), center) + tick, basis)


def _stretched(end: float, center: float, stretch: float) -> float:
    """An end of an interval, so many times as far from its center: by ratios, since no time is negative."""
    return center * (end / center) ** stretch if end > 0 else center + stretch * (end - center)


def batch_medians(groups: Sequence[Times]) -> Times:
    """The medians of the groups, neighbours joined where there are more than `_MOST_BATCHES`."""
    parts = np.array_split(np.arange(len(groups)), min(len(groups), _MOST_BATCHES))
    return np.array([np.median(np.concatenate([groups[i] for i in part])) for part in parts])


def neighbour_stretch(medians: Times) -> float:
    """How much wider an interval over so many medians in a row must be, since neighbours are alike."""
    n, correlation = len(medians), neighbour_correlation(medians)
    unbiased = (n * correlation + 1) / (n - 4) if n > 4 else correlation
    rho = min(max(unbiased, _LEAST_RHO), _MOST_RHO)
    return ((1 + rho) / (1 - rho)) ** 0.5


def neighbour_correlation(medians: Times) -> float:
    """Lag-1 autocorrelation of the ranks of medians in a row, 0.0 where all are equal.

    Example:
        >>> neighbour_correlation(np.arange(10.0)), neighbour_correlation(np.ones(10))
        (0.7, 0.0)
    """
    ranked = centred_ranks(medians)
    power = float(ranked @ ranked)
    return float(ranked[1:] @ ranked[:-1]) / power if power else 0.0


def launch_interval(medians: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """The interval of the median over the medians of several launches; None below six of them."""
    ranks = quantile_ranks(len(medians), confidence=confidence)
    if ranks is None:
        return None
    values = np.sort(np.asarray(medians, dtype=float))
    return Interval(float(values[ranks[0]]), float(values[ranks[1]]), "launches")


def median_over(launches: Sequence[Summary]) -> float | None:
    """The median in seconds, of a single launch or over the medians of several; None where there is none."""
    return float(np.median([s.median for s in launches])) / 1e9 if launches else None


def interval_over(launches: Sequence[Summary]) -> Interval | None:
    """The 95 % interval of `median_over` in seconds: within a single launch, or over the medians of several."""
    if not launches:
        return None
    interval = launch_interval([s.median for s in launches]) if len(launches) > 1 else launches[0].interval
    return None if interval is None else Interval(interval.low / 1e9, interval.high / 1e9, interval.basis)


def correlated(groups: Sequence[Times]) -> bool:
    """Whether samples of one group are more alike than those of different ones, or neighbours than any.

    Two tests: lag-1 rank autocorrelation within groups above 0.1 and twice its standard error; and too much spread in the
    groups' shares of samples below the common median (a chi-square test of homogeneity, at 20 %: to be wrong that way only
    makes an interval wider).
    """
    if len(groups) > 1 and dispersion_p(groups) < 0.2:
        return True
    rho = autocorrelation(groups)
    return rho is not None and rho > max(0.1, 2 / sum(map(len, groups)) ** 0.5)


def dispersion_p(groups: Sequence[Times]) -> float:
    """The p-value of the hypothesis that all groups have the same share of samples above the common median (Mood's test)."""
    center = np.median(np.concatenate(groups))
    sizes = np.array([np.count_nonzero(g != center) for g in groups])  # ties tell nothing
    above = np.array([np.count_nonzero(g > center) for g in groups])
    sizes, above = sizes[sizes > 0], above[sizes > 0]
    share = above.sum() / max(sizes.sum(), 1)
    if len(sizes) < 2 or share in (0, 1):
        return 1.0
    statistic = float(((above - sizes * share) ** 2 / (sizes * share * (1 - share))).sum())
    return float(scipy.stats.chi2.sf(statistic, len(sizes) - 1))


def autocorrelation(groups: Sequence[Times]) -> float | None:
    """Lag-1 autocorrelation of the samples' ranks within their groups; None below 20 samples.

    Ranks, since one interrupted sample would drown all else.
    """
    pairs = [g for g in groups if len(g) > 1]
    if sum(map(len, pairs)) < 20:
        return None
    ranked = [centred_ranks(g) for g in pairs]
    power = sum(float(r @ r) for r in ranked)
    return sum(float(r[1:] @ r[:-1]) for r in ranked) / power if power else 0.0


def centred_ranks(values: Times) -> Times:
    """The rank of each value less the mean rank; equal values share theirs.

    Example:
        >>> centred_ranks(np.array([5.0, 7.0, 5.0, 9.0]))
        array([-1. ,  0.5, -1. ,  1.5])
    """
    ordered = np.sort(values)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right") - len(values)) / 2


def samples_needed(p: float, confidence: float = CONFIDENCE) -> int:
    r"""The fewest samples that bound the p-quantile from above: :math:`1 - p^n \ge` ``confidence``.

    Example:
        >>> samples_needed(0.99), samples_needed(0.999)
        (299, 2995)
    """
    return ceil(log(1 - confidence) / log(p))


def percentile(samples: Times, p: float) -> Percentile | None:
    """A percentile with its one-sided upper bound, or None where the samples are too few (`samples_needed`)."""
    n = len(samples)
    if n < samples_needed(p):
        return None
    rank, bound = ceil(p * n) - 1, int(scipy.stats.binom.ppf(CONFIDENCE, n, p))
    value, upper = np.partition(samples, (rank, bound))[[rank, bound]]
    return Percentile(float(value), float(upper))


def drift(medians: Sequence[float]) -> float:
    """The relative change over a row of medians (Theil-Sen slope), or 0.0 where no trend is significant (Mann-Kendall)."""
    values = np.asarray(medians, dtype=float)[:: ceil(len(medians) / 1000)]
    slope, p = trend(values)
    return slope * (len(values) - 1) / float(np.median(values)) if p < 0.05 else 0.0


def modes(samples: Times, bins: int = 512) -> tuple[float, ...]:
    """Where the density of the samples peaks.

    A Gaussian kernel estimate on the logarithm of the samples between the 1st and 99th percentile, with Silverman's
    bandwidth. A peak counts if it stands out by a fifth of the highest one. Below 100 samples: empty.

    Source:
        Silverman, Density estimation for statistics and data analysis, 1986, section 3.4.
    """
    if len(samples) < 100:
        return ()
    low, q1, median, q3, high = np.quantile(samples, (0.01, 0.25, 0.5, 0.75, 0.99))
    if low <= 0 or high <= low:
        return (float(median),)
    logs = np.log(samples[(samples >= low) & (samples <= high)])
    spread = min(float(logs.std()), float(np.log(q3 / q1)) / 1.34) or float(logs.std())
    tick = float(np.diff(np.unique(samples)).min() / median)  # of the clock
    bandwidth = max(0.9 * spread * len(logs) ** -0.2, tick)
    edges = np.linspace(logs.min() - 3 * bandwidth, logs.max() + 3 * bandwidth, bins + 1)
    counts, _ = np.histogram(logs, edges)
    density = scipy.ndimage.gaussian_filter1d(counts.astype(float), bandwidth / (edges[1] - edges[0]), mode="constant")
    peaks, _ = scipy.signal.find_peaks(density, prominence=0.2 * density.max())
    return tuple(float(np.exp((edges[i] + edges[i + 1]) / 2)) for i in peaks)


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


FEWEST_BLOCKS = 6


def grounds(base: Sequence[Sequence[Times]], launches: Sequence[Sequence[Times]]) -> tuple[Basis, str]:
    """Over what the interval of a ratio is taken, and why there is none: all that compares times decides it here.

    Samples of one go are no blocks, however many there are: what lasts longer than the go is in none of them.

    Args:
        base: For each launch of the system that another is compared with its blocks, each with its samples.
        launches: Those of the other.

    Returns:
        ``"launches"`` where both have several, else ``"blocks"``; and the reason, empty where there is an interval.

    Example:
        >>> few, many = [[np.ones(10)] * 3], [[np.ones(10)] * 12]
        >>> grounds(few, many)
        ('blocks', '3 and 12 blocks, where an interval takes 6 of each: measure for longer (--budget)')
        >>> grounds([[np.ones(5)]] * 4, [[np.ones(5)]] * 4)
        ('launches', '')
    """
    sides = [[[group for group in launch if len(group)] for launch in side] for side in (base, launches)]
    counts = [sum(map(bool, side)) for side in sides]
    if min(counts) > 1:
        enough = least_p(counts[0], counts[1]) <= 1 - CONFIDENCE
        few = f"{counts[0]} and {counts[1]} launches are too few: from 4 and 4 on there is an interval (--launches)"
        return "launches", "" if enough else few
    blocks = [[len(group) for launch in side for group in launch] for side in sides]
    samples = [sum(side) for side in blocks]
    if min(samples) < 2:
        return "blocks", "a single value shows no spread: measure it several times"
    if min(map(len, blocks)) >= FEWEST_BLOCKS:
        return "blocks", ""
    few = f"{len(blocks[0])} and {len(blocks[1])} blocks, where an interval takes {FEWEST_BLOCKS} of each"
    return "blocks", f"{few}: measure for longer (--budget)"


def without_interval(launches: Sequence[Sequence[Times]]) -> str:
    """Why the median over some launches has no interval, and what to do; empty where it has one.

    Args:
        launches: For each launch its blocks, each with its samples.

    Example:
        >>> without_interval([[np.arange(5.0)]])
        '5 samples, where an interval takes 6: measure for longer (--budget)'
        >>> without_interval([[np.arange(20.0)]])
        '1 block of samples that are alike, where an interval takes 6 blocks: measure for longer (--budget)'
        >>> without_interval([[np.arange(5.0)]] * 3)
        '3 launches or runs, where an interval takes 6: make more of them (--launches, --runs)'
        >>> without_interval([[np.array([4.0, 1.0, 5.0, 2.0, 6.0, 3.0])]])
        ''
    """
    filled = [[group for group in groups if len(group)] for groups in launches if sum(map(len, groups))]
    if len(filled) > 1:
        interval = launch_interval([float(np.median(np.concatenate(groups))) for groups in filled])
        few = f"{len(filled)} launches or runs, where an interval takes 6: make more of them (--launches, --runs)"
        return "" if interval is not None else few
    if not filled:
        return "nothing was measured"
    if median_interval(filled[0]) is not None:
        return ""
    count, blocks = sum(map(len, filled[0])), len(filled[0])
    if count == 1:
        return "a single value, which shows no spread"
    few = f"{blocks} block{'s' * (blocks != 1)} of samples that are alike, where an interval takes 6 blocks"
    return f"{few if count >= 6 else f'{count} samples, where an interval takes 6'}: measure for longer (--budget)"
