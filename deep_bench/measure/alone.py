"""Timing a single call in this process, as quickly as an interval of the wanted width can be had."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.measure.session import relative_half_width
from deep_bench.measure.statistics import Summary, summarize
from deep_bench.measure.timing import Block, Timer, sample_block
from deep_bench.measure.warmup import WarmUp, warm_up

_BLOCK_NS = 3_000_000
_BLOCK_CALLS = 4
_WARM_UP_BLOCK_NS = 500_000
_FEWEST_BLOCKS = 10
_NEXT_LOOK = 1.3
_LONG_NS = 100_000


@dataclass(frozen=True)
class Timed:
    """What timing a call gave.

    Args:
        summary: The statistics, in nanoseconds.
        blocks: All samples.
        warm_up: What warming up took.
        reached: Whether the interval is as narrow as was asked for.
    """

    summary: Summary
    blocks: tuple[Block, ...]
    warm_up: WarmUp
    reached: bool


def time_call(
    call: Callable[[], Any],
    *,
    synchronize: Callable[[], Any] = lambda: None,
    timer: Timer | None = None,
    threaded: bool = False,
    ci_width: float = 0.01,
    least_samples: int = 30,
    budget_s: float = 1.0,
) -> Timed:
    """Warm a call up, and time it in short blocks until the interval of its median is narrow.

    Nothing else is timed meanwhile, so drift between systems is not seen: to compare several, let them take turns
    (`deep_bench.operators.study`, `deep_bench.measure.session.measure`).

    Args:
        call: What is timed.
        synchronize: Waits for the device; inside the stamps.
        timer: The device's own clock.
        threaded: Whether the call works in several threads.
        ci_width: Stop when half the 95 % interval is at most this share of the median …
        least_samples: … and there are so many samples …
        budget_s: … or after so many seconds, warm-up included.

    Raises:
        InvalidArgument: A number out of range.

    Example:
        >>> timed = time_call(lambda: sum(range(1000)), ci_width=0.5)
        >>> timed.summary.n >= 30, timed.summary.median > 0
        (True, True)
    """
    if not (ci_width > 0 and least_samples >= 1 and 0 < budget_s < float("inf")):
        raise InvalidArgument(f"ci_width={ci_width}, least_samples={least_samples}, budget_s={budget_s}", "numbers above 0")
    begin = perf_counter_ns()
    end = begin + int(budget_s * 1e9)
    warmed = warm_up(
        call, synchronize, timer=timer, block_ns=_WARM_UP_BLOCK_NS, block_calls=1, max_ns=int(budget_s * 1e9 / 4)
    )
    long = bool(warmed.medians_ns) and warmed.medians_ns[-1] >= _LONG_NS
    blocks: list[Block] = []
    look, reached = _FEWEST_BLOCKS, False
    while not reached and (not blocks or perf_counter_ns() < end):
        blocks.append(
            sample_block(
                call,
                synchronize,
                min_ns=_BLOCK_NS,
                min_calls=_BLOCK_CALLS,
                max_ns=max(end - perf_counter_ns(), _BLOCK_NS),
                batch=warmed.batch,
                threaded=threaded,
                timer=timer,
                cpu_time=long and not threaded and timer is None,
            )
        )
        if len(blocks) >= look:  # not after each: it takes time
            look = max(look + 1, int(look * _NEXT_LOOK))
            width = relative_half_width(blocks)
            enough = sum(len(block.ns) for block in blocks) >= least_samples
            reached = enough and width is not None and width <= ci_width
    return Timed(summarize(blocks), tuple(blocks), warmed, reached)
