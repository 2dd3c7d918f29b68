"""One sample: two stamps around a call that ends when the device is done; blocks of such samples.

And the warm-up before them. Warming up is calling until the times are steady, and saying what that cost. The last-level
cache can be emptied between samples. This file also runs in lean workers (see `deep_bench.environments`): it needs Python
3.9 and NumPy.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import erfc, sqrt
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument

Call = Callable[[], Any]

BATCH_BELOW_NS = 3_000
"""Calls shorter than this are timed several at once, since the stamps would weigh too much."""


BATCHED_SAMPLE_NS = 10_000
"""How long a batched sample should last: no longer, because a preemption spoils the whole batch."""


class Timer(Protocol):
    """A device's own clock, such as a pair of CUDA events around the call.

    Returns:
        The nanoseconds that the device spent on ``call``, after waiting for its end.
    """

    def __call__(self, call: Call) -> int: ...


@dataclass(frozen=True)
class Block:
    """Samples taken in one go, without another system in between.

    Args:
        start_ns: The ``perf_counter_ns`` stamp at the block's begin.
        batch: How many calls each sample covers; 1 unless a call is too short to be timed alone.
        ns: The duration of each sample in nanoseconds, of all its calls together; int64.
        preempted: Whether the kernel took the CPU away during the sample; bool, as long as ``ns``. A switch between the
            previous sample's end and this one's begin counts as well: what follows it runs on cold caches.
        resume_ns: The first call after the process was stopped, or after another call was timed: kept apart from ``ns``.
        cpu_ns: The CPU time that the thread had in each sample; int64. Without preemption it is the duration; with it, the
            duration without the time that others had. Where the thread also waited of its own accord the two cannot be told
            apart, and it is the duration. None where it was not asked for.
    """

    start_ns: int
    batch: int
    ns: NDArray[np.int64]
    preempted: NDArray[np.bool_]
    resume_ns: int | None = None
    cpu_ns: NDArray[np.int64] | None = None

    @property
    def calls_ns(self) -> NDArray[np.float64]:
        """The duration of one call in each sample, in nanoseconds."""
        return self.ns / self.batch

    @property
    def calls_cpu_ns(self) -> NDArray[np.float64] | None:
        """The duration of one call in each sample with preempted samples at their CPU time, in nanoseconds."""
        return None if self.cpu_ns is None else np.where(self.preempted, self.cpu_ns, self.ns) / self.batch


def sample_block(
    call: Call,
    synchronize: Call,
    *,
    min_ns: int = 50_000_000,
    min_calls: int = 10,
    max_ns: int | None = None,
    batch: int = 1,
    threaded: bool = False,
    timer: Timer | None = None,
    resumed: bool = False,
    cpu_time: bool = False,
    before: Call | None = None,
) -> Block:
    """Time a call again and again, and keep every sample.

    Involuntary context switches are read outside the stamps: those of this thread, or of the whole process when the work is
    threaded. (Reading them costs half a microsecond a sample, none of it inside the stamps.)

    Args:
        call: What is timed.
        synchronize: Waits for the device; inside the stamps.
        min_ns: The block lasts at least this long …
        min_calls: … and has at least so many calls …
        max_ns: … unless it has already lasted this long.
        batch: Calls per sample.
        threaded: Whether the call works in several threads.
        timer: The device's own clock, used instead of the stamps.
        resumed: Make a first call whose time is kept apart, in ``resume_ns``.
        cpu_time: Note the thread's CPU time as well, outside the stamps; only for work of one thread on the CPU.
        before: Called before each sample, outside the stamps: it empties the caches, say. What it waits for and is
            interrupted in does not count.

    Raises:
        InvalidArgument: A negative duration, a number of calls or a batch below one, or a batch above one with ``before``.

    Example:
        >>> block = sample_block(lambda: sum(range(1000)), lambda: None, min_ns=0, min_calls=10)
        >>> len(block.ns), block.batch
        (10, 1)
    """
    if min_ns < 0 or min_calls < 1 or batch < 1:
        raise InvalidArgument(
            f"a block of {min_ns} ns, {min_calls} calls, {batch} to a sample", "at least 0 ns, 1 call, 1 to a sample"
        )
    if before is not None and batch > 1:
        raise InvalidArgument(f"{batch} calls to a sample, and something before each call", "1 call to a sample")
    clock = timer or stamps(synchronize)
    repeated = call if batch == 1 else _batched(call, batch)
    start = perf_counter_ns()
    resume_ns = clock(call) if resumed else None
    least, most = start + min_ns, start + (max_ns if max_ns is not None else 1 << 62)
    scope = resource.RUSAGE_SELF if threaded else resource.RUSAGE_THREAD
    cpu_clock, fewest = thread_time_ns if cpu_time else _zero, -(-min_calls // batch)
    columns = _repeat(clock, repeated, before, scope, cpu_clock, fewest, least, most)
    ns, cpu, voluntary, involuntary = (np.array(column, dtype=np.int64) for column in columns)
    waited, preempted = voluntary > 0, involuntary > 0
    return Block(start, batch, ns, preempted, resume_ns, np.where(waited, ns, cpu) if cpu_time else None)


def _repeat(
    clock: Timer,
    call: Call,
    before: Call | None,
    scope: int,
    cpu_clock: Callable[[], int],
    fewest: int,
    least: int,
    most: int,
) -> tuple[list[int], list[int], list[int], list[int]]:
    """Sample until the stamp ``least`` and so many samples, or until the stamp ``most``.

    Returns:
        The duration and the CPU time of each sample; and how many voluntary and involuntary switches there were in it. Only
        plain integers are kept: anything else would bring the garbage collector into the samples.
    """
    durations: list[int] = []
    cpu: list[int] = []
    voluntary: list[int] = []
    involuntary: list[int] = []
    usage = resource.getrusage(scope)
    while True:
        if before is not None:
            before()
            usage = resource.getrusage(scope)
        waited, preemptions = usage.ru_nvcsw, usage.ru_nivcsw
        begin = cpu_clock()
        durations.append(clock(call))
        cpu.append(cpu_clock() - begin)
        usage = resource.getrusage(scope)
        voluntary.append(usage.ru_nvcsw - waited)
        involuntary.append(usage.ru_nivcsw - preemptions)
        timestamp = perf_counter_ns()
        if (timestamp >= least and len(durations) >= fewest) or timestamp >= most:
            return durations, cpu, voluntary, involuntary


def stamps(synchronize: Call) -> Timer:
    """The timer of a CPU: ``perf_counter_ns`` before the call, and after it and ``synchronize``."""

    def timed(call: Call) -> int:
        begin = perf_counter_ns()
        call()
        synchronize()
        return perf_counter_ns() - begin

    return timed


def choose_batch(call: Call, synchronize: Call, timer: Timer | None = None) -> int:
    """How many calls one sample should cover: 1, unless a call takes less than `BATCH_BELOW_NS`."""
    clock = timer or stamps(synchronize)
    typical = sorted(clock(call) for _ in range(11))[5]
    return 1 if typical >= BATCH_BELOW_NS else -(-BATCHED_SAMPLE_NS // max(typical, 1))


def stamp_overhead_ns(synchronize: Call, timer: Timer | None = None, repeats: int = 1001) -> int:
    """What a sample of an empty call shows, in nanoseconds (median): the stamps, and a ``synchronize`` with nothing to do.

    It is recorded beside the samples and never subtracted from them.
    """
    clock = timer or stamps(synchronize)
    return int(np.median([clock(_nothing) for _ in range(repeats)]))


def _nothing() -> None:
    pass


def _zero() -> int:
    return 0


def _batched(call: Call, batch: int) -> Call:
    def repeated() -> None:
        for _ in repeat(None, batch):
            call()

    return repeated


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


_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}
_ASSUMED_BYTES = 64 * 2**20
_LARGEST_BYTES = 2**30


def last_level_bytes(folder: Path = _CACHES) -> int | None:
    """The size of the largest cache that the first processor has, in bytes; ``None`` where the system does not tell.

    Args:
        folder: Where Linux lists the caches.
    """
    sizes = []
    for file in folder.glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * _UNITS[text[-1]] if text[-1:] in _UNITS else int(text))
    return max(sizes, default=None)


class CacheFlush:
    """Empties the caches: a call reads and writes an array twice as large as the last-level cache.

    What lies in the caches of a device is not touched.

    Args:
        nbytes: The size of the array; by default twice that of the last-level cache, or 128 MiB where that is not known.

    Example:
        >>> flush = CacheFlush(2**20)
        >>> flush(), flush.nbytes
        (None, 1048576)
    """

    def __init__(self, nbytes: int | None = None) -> None:
        cache_bytes = last_level_bytes()
        target_bytes = 2 * (_ASSUMED_BYTES if cache_bytes is None else cache_bytes) if nbytes is None else nbytes
        self.nbytes = min(target_bytes, _LARGEST_BYTES)
        self._array = np.zeros(self.nbytes // 8, np.int64)

    def __call__(self) -> None:
        """Read and write all of the array."""
        self._array += 1
