"""Figures of samples as records keep them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from deep_bench.measure.metric import MetricRecord
from deep_bench.measure.statistics import select
from deep_bench.measure.timing import Block
from deep_bench.results.result import Direction, Figure

SECOND = 1e9
"""In nanoseconds."""


def timed(name: str, launches: Iterable[Sequence[Block]]) -> Figure | None:
    """The time of a call in seconds; ``None`` without samples.

    Its samples are those that a median is taken of (`deep_bench.measure.statistics.select`); where these are not all, the
    remark tells it, and the others are aside.

    Example:
        >>> block = Block(0, 2, np.array([4, 6, 8]), np.zeros(3, bool))
        >>> timed("forward", [[block]]).median
        3e-09
    """
    groups, remarks, aside = [], [], []
    for blocks in launches:
        filled = [block for block in blocks if len(block.ns)]
        if filled:
            chosen, selection = select(filled)
            groups.append(tuple(group / SECOND for group in chosen))
            if selection != "all samples":
                count, every = sum(map(len, chosen)), sum(len(block.ns) for block in filled)
                remarks.append(f"{selection}: {count} of {every}")
                aside += [block.calls_ns[block.preempted] / SECOND for block in filled if block.preempted.any()]
            if max(block.batch for block in filled) > 1:
                remarks.append(f"a sample is the mean of up to {max(block.batch for block in filled)} calls")
    remark = "; ".join(dict.fromkeys(remarks))
    return Figure(name, "s", "lower", tuple(groups), remark, aside=tuple(aside)) if groups else None


def single(name: str, unit: str, direction: Direction, value: float | None, remark: str = "") -> Figure | None:
    """A figure of one value; ``None`` where there is none.

    Example:
        >>> single("peak memory", "B", "lower", 4096).median
        4096.0
    """
    return None if value is None else Figure(name, unit, direction, ((np.array([value], float),),), remark)


def seconds(name: str, ns: float | None) -> Figure | None:
    """A time that was taken once, in nanoseconds."""
    return single(name, "s", "lower", None if ns is None else ns / SECOND)


def measured(metrics: Iterable[Sequence[MetricRecord]]) -> list[Figure]:
    """What metrics found.

    Args:
        metrics: Those of each launch or run.
    """
    values: dict[str, list[tuple[np.ndarray, ...]]] = {}
    first: dict[str, MetricRecord] = {}
    for records in metrics:
        for metric in records:
            if metric.values:
                scale = SECOND if metric.unit == "ns" else 1.0
                first.setdefault(metric.name, metric)
                values.setdefault(metric.name, []).append((np.array(metric.values, float) / scale,))
    units = {"ns": "s"}
    return [Figure(name, units.get(m.unit, m.unit), m.direction, tuple(values[name]), m.remark) for name, m in first.items()]


def named(figures: Iterable[Figure | None]) -> dict[str, Figure]:
    """Those that there are, by name; the first of a name counts."""
    by_name: dict[str, Figure] = {}
    for figure in figures:
        if figure is not None:
            by_name.setdefault(figure.name, figure)
    return by_name
