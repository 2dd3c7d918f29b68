"""What looking costs, measured with the code that looked."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter_ns
from typing import TYPE_CHECKING

from deep_bench.measure.record import Model

if TYPE_CHECKING:
    from deep_bench.training.timeline.live import Timeline

_CALLS = 500
_REPEATS = 15


class LookingCost(Model):
    """Nanoseconds, each the least of several takes: what is more was not the cost of looking.

    Attributes:
        region: One region, without waiting for a device, beyond an empty ``with`` block.
        shown: Of that, what an empty region shows as its own time.
        step: One step of ``over``, with its region of waiting, beyond iterating without it.
    """

    region: float
    shown: float
    step: float


def looking_cost(scratch: Timeline) -> LookingCost:
    """Measure it on a timeline that is used for nothing else; takes some milliseconds.

    Args:
        scratch: Neither synchronised nor saved.
    """
    numbers = [[0]] * _CALLS
    region = _least(lambda: _regions(scratch)) - _least(_empty)
    step = _least(lambda: _iterate(scratch.over(numbers))) - _least(lambda: _iterate(numbers))
    spans = scratch.result().spans
    shown = spans.duration[spans.number == [name.name for name in spans.names].index("empty")]
    return LookingCost(region=region, shown=float(shown.min()), step=step)


def _least(call: Callable[[], None]) -> float:
    taken = []
    for _ in range(_REPEATS):
        begin = perf_counter_ns()
        call()
        taken.append(perf_counter_ns() - begin)
    return min(taken) / _CALLS


def _regions(scratch: Timeline) -> None:
    for _ in range(_CALLS):
        with scratch.region("empty"):
            pass


def _empty() -> None:
    nothing = nullcontext()
    for _ in range(_CALLS):
        with nothing:
            pass


def _iterate(numbers: object) -> None:
    for _ in numbers:  # type: ignore[attr-defined]
        pass
