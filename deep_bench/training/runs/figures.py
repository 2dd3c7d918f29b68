"""Figures of a run, computed from its record."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from deep_bench.measure.statistics import Interval, Times, median_interval
from deep_bench.training.history import Evaluated, History
from deep_bench.training.record import RunRecord, TargetRecord

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
    ns, sizes = history.step_ns().astype(float), np.array(history.sizes, float)
    rates = sizes * 1e9 / np.maximum(ns, 1)
    return Throughput(float(np.median(rates)), _interval(rates, ns), float(sizes.sum() * 1e9 / max(ns.sum(), 1)))


def _interval(rates: Times, ns: Times) -> Interval | None:
    """That of the median. Where steps drift it is stretched, but no further than to the least and the highest rate."""
    found = median_interval(_blocks(rates, ns))
    return found and replace(found, low=max(found.low, float(rates.min())), high=min(found.high, float(rates.max())))


def _blocks(rates: Times, ns: Times) -> list[Times]:
    """Neighbouring steps together, as `deep_bench.measure.session` takes its blocks: at least 50 ms and ten steps."""
    found, begin, spent = [], 0, 0.0
    for number, duration in enumerate(ns):
        spent += duration
        if spent >= _LEAST_NS and number + 1 - begin >= _LEAST_STEPS:
            found.append(rates[begin : number + 1])
            begin, spent = number + 1, 0.0
    return found or [rates]


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
    found = history.reached(target.score, target.value, target.direction)
    if found is not None:
        return ToTarget(True, found.time_ns / 1e9, found.samples, found.step)
    return ToTarget(False, history.wall_ns / 1e9, history.samples, history.steps)


def final(history: History, score: str) -> Evaluated | None:
    """The last evaluation that has a score."""
    return next((e for e in reversed(history.evaluations) if score in e.figures), None)
