"""Statistics of raw samples, computed on reading; each says what it is and where it comes from.

Times of one system are given as *groups*: one array of nanoseconds for each block (within one launch of its process).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from deep_bench.measure.timing import Block
from deep_bench.measure.warmup import trend

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
            return cpu, "preempted samples at their CPU time"
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
    tick = _tick(every) / 2
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


def _tick(samples: Times) -> float:
    """The clock's resolution, as the samples show it: the least difference of two of them."""
    distinct = np.unique(samples)
    return float(np.diff(distinct).min()) if len(distinct) > 1 else 0.0


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
