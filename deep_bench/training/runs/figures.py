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


def final(history: History, score: str) -> Evaluated | None:
    """The last evaluation that has a score."""
    return next((e for e in reversed(history.evaluations) if score in e.figures), None)
