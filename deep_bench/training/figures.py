"""Figures of training runs, computed from their record: throughput, time to the target, MLPerf's score, determinism.

Some runs never reach the target: their share and the Kaplan-Meier estimate say how long the others take.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.measure.statistics import CONFIDENCE, Interval, Times, median_interval, quantile_ranks
from deep_bench.training.callbacks import TimeLimit
from deep_bench.training.record import DeterminismRecord, RunRecord, TargetRecord
from deep_bench.training.run_state import EvaluationResult, History

_LEAST_NS, _LEAST_STEPS = 50_000_000, 10


@dataclass(frozen=True)
class Throughput:
    """Samples a second, evaluations and callbacks not counted.

    Args:
        median: Of single steps, those with the usual number of samples: the last batch of an epoch is often smaller.
        interval: Its 95 % interval; ``None`` where the steps are too few.
        overall: All samples over the time of all steps: what the run needed in sum.
    """

    median: float
    interval: Interval | None
    overall: float


def throughput(history: History) -> Throughput | None:
    """Samples a second; ``None`` before the first step.

    Example:
        >>> from array import array
        >>> history = History(sizes=array("q", [8] * 3), stamps=array("q", [0, 1, 2, 3, 8] * 3))
        >>> throughput(history).median
        1000000000.0
    """
    if not history.steps:
        return None
    groups = rate_groups(history)
    rates, interval = np.concatenate(groups), median_interval(groups)
    if interval is not None:  # where steps drift it is stretched, but no further than to the least and the highest rate
        interval = replace(interval, low=max(interval.low, float(rates.min())), high=min(interval.high, float(rates.max())))
    overall = history.samples * 1e9 / max(float(history.step_ns().sum()), 1)
    return Throughput(float(np.median(rates)), interval, overall)


def rate_groups(history: History) -> list[Times]:
    """Samples a second of each step, those of neighbouring steps together.

    A group is as long as a block of `deep_bench.measure.session`: at least 50 ms and ten steps.

    Example:
        >>> from array import array
        >>> [group.tolist() for group in rate_groups(History(sizes=array("q", [8]), stamps=array("q", [0, 1, 2, 3, 8])))]
        [[1000000000.0]]
    """
    ns = history.step_ns().astype(float)
    rates = np.array(history.sizes, float) * 1e9 / np.maximum(ns, 1)
    begins, begin, spent = [0], 0, 0.0
    for number, duration in enumerate(ns):
        spent += duration
        if spent >= _LEAST_NS and number + 1 - begin >= _LEAST_STEPS:
            begin, spent = number + 1, 0.0
            begins.append(begin)
    whole = begins[:-1] or begins  # what is left at the end belongs to the last whole group
    return np.split(rates, whole[1:])


@dataclass(frozen=True)
class ToTarget:
    """How long a run took to its target, or went on without reaching it.

    Args:
        reached: Whether it did.
        seconds: Since the data were first touched.
        samples: Seen until then.
        steps: Done until then.
    """

    reached: bool
    seconds: float
    samples: int
    steps: int


def to_target(run: RunRecord, target: TargetRecord) -> ToTarget:
    """Time to train. The clock starts when the data are first touched, evaluations count, preparing does not."""
    history = run.history()
    evaluation = history.reached(target.score, target.value, target.direction)
    if evaluation is not None:
        return ToTarget(True, evaluation.time_ns / 1e9, evaluation.samples, evaluation.step)
    return ToTarget(False, history.wall_ns / 1e9, history.samples, history.steps)


def final(history: History, score: str) -> EvaluationResult | None:
    """The last evaluation that has a score."""
    return next((e for e in reversed(history.evaluations) if score in e.figures), None)


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

    def curve(self, end: float) -> tuple[NDArray[np.float64], ...]:
        """What a picture shows from the beginning to an end: times, `going`, and where there is a band `low` and `high`.

        Where the formula of the band has no value, it is what it was before.
        """
        rows = [np.concatenate([[0.0], self.times, [end]])]
        for shares in (self.going, self.low, self.high) if len(self.low) else (self.going,):
            row = [1.0]
            for share in shares.tolist():
                row.append(row[-1] if np.isnan(share) else share)
            rows.append(np.array([*row, row[-1]]))
        return tuple(rows)


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
    interval: Ends | None = None
    if hit.all() and (ranks := quantile_ranks(len(at))) is not None:  # the order statistics, since none was cut off
        interval = float(np.sort(at)[ranks[0]]), float(np.sort(at)[ranks[1]])
    elif (begin := _first(moments, low)) is not None:
        interval = begin, _first(moments, high)
    return Survival(moments, going, low, high, _first(moments, going), interval, len(at), int(hit.sum()))


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


_FEWEST = 3


@dataclass(frozen=True)
class MlperfScore:
    """The score.

    Args:
        seconds: The mean time to the target without the fastest and the slowest run; ``None`` if the result is not valid.
        reason: Which runs count, or why it is not valid.
    """

    seconds: float | None
    reason: str


def mlperf_score(times: Sequence[float | None]) -> MlperfScore:
    """The mean time of all runs but the fastest and the slowest. One that missed the target counts as the slowest.

    MLPerf itself asks for 5 runs in vision and 10 elsewhere, on its own benchmarks; this is its arithmetic only.

    Args:
        times: Seconds to the target of each run, ``None`` for one that did not reach it.

    Example:
        >>> mlperf_score([10.0, 14.0, None, 12.0, 11.0])
        MlperfScore(seconds=12.333333333333334, reason='mean of 3 of 5 runs; the one that missed the target is the slowest')
        >>> mlperf_score([10.0, None, None]).reason
        'not valid: 2 of 3 runs missed the target, and one may'

    Source:
        Mattson et al., *MLPerf training benchmark*, MLSys 2020, section 3.2.2; MLCommons, *MLPerf training rules*.
    """
    n, missed = len(times), sum(time is None for time in times)
    if n < _FEWEST:
        return MlperfScore(None, f"not valid: {n} runs, and it takes {_FEWEST}")
    if missed > 1:
        return MlperfScore(None, f"not valid: {missed} of {n} runs missed the target, and one may")
    inner_times = sorted(inf if time is None else time for time in times)[1:-1]
    slowest = "; the one that missed the target is the slowest" if missed else "; without the fastest and the slowest"
    return MlperfScore(fsum(inner_times) / len(inner_times), f"mean of {len(inner_times)} of {n} runs{slowest}")


_BITWISE = frozenset({"reference", "torch"})
"""Frameworks that give the same bits again on a CPU; `tests/training/runs` holds them to it."""


def determinism(trainer: Any, label: str) -> DeterminismRecord:
    """What was seeded, and what is not deterministic here, as far as the framework and the run tell.

    Args:
        trainer: The run's `Trainer`.
        label: What it runs on, beginning with the framework's name.
    """
    device = trainer.taker.device
    facts: Mapping[str, str] = device.describe() if hasattr(device, "describe") else {}
    seeds, remarks = {"draws": int(trainer.seed)}, []
    sampler: Any = getattr(trainer.loader, "sampler", None)
    sampler_facts = sampler.facts() if hasattr(sampler, "facts") else {}
    while "of" in sampler_facts:  # a sampler of another one
        sampler_facts = sampler_facts["of"]
    if "seed" in sampler_facts:
        seeds["sampler"] = int(sampler_facts["seed"])
    elif not sampler_facts:
        remarks.append("the order of the samples: its source names no seed")
    if any(isinstance(callback, TimeLimit) for callback in trainer.callbacks):
        remarks.append("where a time limit ends the run, the number of steps is the machine's")
    if not trainer.ranks.lockstep:
        remarks.append("ranks take steps each on their own: their order is the machine's")
    where, framework = facts.get("device", "unknown"), label.partition(":")[0]
    if remark := facts.get("determinism"):
        remarks.append(remark)
    elif not on_cpu(where):
        remarks.append(f"sums on {where}: nothing is known of their order, and the last bits may differ from run to run")
    elif framework not in _BITWISE:
        remarks.append(f"{framework or 'this framework'}: it does not promise to add in the same order each time")
    bitwise = on_cpu(where) and framework in _BITWISE and not remarks
    if threads := facts.get("threads"):
        remarks.append(f"with another number of threads than {threads}, the last bits may differ")
    return DeterminismRecord(seeds=seeds, same_again="bitwise" if bitwise else "not promised", remarks=remarks)


def on_cpu(device: str) -> bool:
    """Whether a framework's name of a device means the CPU.

    Example:
        >>> on_cpu("cpu"), on_cpu("CPU:0"), on_cpu("cuda:0")
        (True, True, False)
    """
    return device.lower().partition(":")[0] == "cpu"
