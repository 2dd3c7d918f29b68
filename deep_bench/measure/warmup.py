"""Calling until the times are steady, and saying what that cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from time import perf_counter_ns

import numpy as np

from deep_bench.measure.timing import Call, Timer, choose_batch, sample_block, stamps

WINDOW = 8
"""How many blocks in a row must be alike."""

LONG_WINDOW = 24
"""How many blocks it takes to tell a trend from noise."""


@dataclass(frozen=True)
class WarmUp:
    """What warming up one call took.

    Args:
        steady: Whether the times became steady; None if the limit left too few blocks to tell.
        first_call_ns: The very first call, in nanoseconds.
        cost_ns: All of it, the first call included.
        calls: How many calls were made.
        medians_ns: The median of one call in each block.
        batch: How many calls a sample should cover from now on.
        reason: Why it ended, for a report.
    """

    steady: bool | None
    first_call_ns: int
    cost_ns: int
    calls: int
    medians_ns: tuple[float, ...]
    batch: int
    reason: str


def warm_up(
    call: Call,
    synchronize: Call,
    *,
    timer: Timer | None = None,
    block_ns: int = 10_000_000,
    block_calls: int = 3,
    max_ns: int = 3_000_000_000,
    tolerance: float = 0.02,
    before: Call | None = None,
) -> WarmUp:
    """Make calls in short blocks until `judge` finds them steady, or ``max_ns`` is over.

    Args:
        call: What will be timed.
        synchronize: Waits for the device.
        timer: The device's own clock.
        block_ns: How long a block lasts at least, in nanoseconds.
        block_calls: How many calls it has at least, unless they outlast ``block_ns`` tenfold.
        max_ns: When to give up.
        tolerance: The relative change over the window that counts as steady.
        before: Called before each call; then a sample covers one call.
    """
    begin = perf_counter_ns()
    if before is not None:
        before()
    first = (timer or stamps(synchronize))(call)
    medians: list[float] = []
    calls = 1
    while judge(medians, tolerance)[0] is not True and perf_counter_ns() - begin < max_ns:
        block = sample_block(
            call,
            synchronize,
            timer=timer,
            min_ns=block_ns,
            min_calls=block_calls,
            max_ns=10 * block_ns,
            before=before,
        )
        medians.append(float(np.median(block.ns)))
        calls += len(block.ns)
    single = before is not None or bool(medians and medians[-1] > 100_000)
    batch = 1 if single else choose_batch(call, synchronize, timer)
    verdict, reason = judge(medians, tolerance)
    return WarmUp(verdict, first, perf_counter_ns() - begin, calls, tuple(medians), batch, reason)


def judge(medians: Sequence[float], tolerance: float = 0.02) -> tuple[bool | None, str]:
    """Whether a row of block medians has become steady, and why.

    It has, if over the last `WINDOW` blocks neither the trend (the Theil-Sen slope times the window's length) nor the
    step between the window's halves (of their medians) exceeds ``tolerance`` of the level. Where blocks differ by more than
    that, it still has if no trend can be told from noise in the last `LONG_WINDOW` blocks (Mann-Kendall test, 5 %).

    Returns:
        True, False, or None where there are too few blocks to tell; and the reason, for a report.

    Source:
        Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968). Mann, Nonparametric tests
        against trend, Econometrica 13 (1945).

    Example:
        >>> judge([9.0, 7.0, 6.0, 5.0, 4.02, 4.0, 4.01, 3.99, 4.0, 4.02, 4.0, 3.98])
        (True, 'steady within 2 % over 8 blocks')
        >>> judge([5.0, 5.0, 5.0, 5.0, 5.0, 4.0, 4.0, 4.0])[0]
    """
    y = np.asarray(medians, dtype=float)
    recent = y[-WINDOW:]
    if len(recent) < WINDOW:
        return None, f"only {len(y)} blocks: too few to tell"
    half = WINDOW // 2
    step = float(np.median(recent[half:]) - np.median(recent[:half]))
    change = max(abs(trend(recent)[0]) * (WINDOW - 1), abs(step)) / float(np.median(recent))
    if change <= tolerance:
        return True, f"steady within {tolerance * 100:g} % over {WINDOW} blocks"
    if len(y) < LONG_WINDOW:
        return None, f"changed by {change * 100:.1f} % over the last {WINDOW} of only {len(y)} blocks: too few to tell"
    if trend(y[-LONG_WINDOW:])[1] > 0.05:
        return True, f"noisy ({change * 100:.1f} %), but without a trend over {LONG_WINDOW} blocks"
    return False, f"still changing, by {change * 100:.1f} % over {WINDOW} blocks"


def trend(values: np.ndarray) -> tuple[float, float]:
    """The Theil-Sen slope per step, and the two-sided p-value of the Mann-Kendall test (normal approximation)."""
    n = len(values)
    if n < 3:
        return 0.0, 1.0
    i, j = np.triu_indices(n, 1)
    rise = values[j] - values[i]
    slope = float(np.median(rise / (j - i)))
    score = float(np.sign(rise).sum())
    spread = sqrt(n * (n - 1) * (2 * n + 5) / 18)
    z = max(abs(score) - 1, 0) / spread
    return slope, erfc(z / sqrt(2))
