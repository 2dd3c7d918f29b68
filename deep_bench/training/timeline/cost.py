"""What looking costs, measured with the code that looked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from deep_bench.measure.record import Model

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline

_IN_A_ROW, _REPEATS = 300, 10
_AFTER_WORK = 31
_WORK_BYTES = 2 * 2**20
"""What is written between two takes: about a core's own cache, so that the code that looks has to be fetched again."""


class LookingCost(Model):
    """Nanoseconds, beyond an empty ``with`` block or a plain iteration; waiting for a device is not in them.

    Attributes:
        region: One region, after other work: the median. That is what a loop pays.
        step: One step of ``over`` with its region of waiting, after other work: the median.
        in_a_row: One region of many in a row: the least of several takes.
        shown: What an empty region in a row shows as its own time, at least.
    """

    region: float
    step: float
    in_a_row: float
    shown: float


def looking_cost(scratch: Timeline) -> LookingCost:
    """Measure it on a timeline that is used for nothing else; takes some hundredths of a second.

    Args:
        scratch: Neither synchronised nor saved.
    """
    in_a_row = _least(lambda: _regions(scratch, _IN_A_ROW)) - _least(lambda: _empty(_IN_A_ROW))
    region = _after_work(lambda: _regions(scratch, 1)) - _after_work(lambda: _empty(1))
    batches = [[0]] * (_AFTER_WORK + 1)
    step = _after_work(_next_of(iter(scratch.over(batches)))) - _after_work(_next_of(iter(batches)))
    spans = scratch.result().spans
    shown = spans.duration[spans.number == [name.name for name in spans.names].index("empty")]
    return LookingCost(region=region, step=step, in_a_row=in_a_row, shown=float(shown.min()))


def _least(call: Callable[[], None]) -> float:
    return min(_timed(call) for _ in range(_REPEATS)) / _IN_A_ROW


def _after_work(call: Callable[[], object]) -> float:
    work = np.zeros(_WORK_BYTES, dtype=np.uint8)
    durations = []
    for _ in range(_AFTER_WORK):
        work += 1
        durations.append(_timed(call))
    return float(np.median(durations))


def _timed(call: Callable[[], object]) -> int:
    begin = perf_counter_ns()
    call()
    return perf_counter_ns() - begin


def _regions(scratch: Timeline, n: int) -> None:
    for _ in range(n):
        with scratch.region("empty"):
            pass


def _empty(n: int) -> None:
    nothing = nullcontext()
    for _ in range(n):
        with nothing:
            pass


def _next_of(iterator: Iterator[object]) -> Callable[[], object]:
    return lambda: next(iterator)
