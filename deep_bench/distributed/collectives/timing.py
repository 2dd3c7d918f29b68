"""One operation of one size over one communicator: checked, warmed up, and timed block by block on one clock for all ranks.

Rank 0 sends a message, the other rank answers with its clock's stamp. If the answer came at :math:`t_1`, the message left at
:math:`t_0` and the stamp is :math:`s`, the other clock is ahead by :math:`s - (t_0 + t_1) / 2`, give or take half of the
round trip. Of many round trips the shortest counts. This is done several times during a run; a line through what was found,
by least squares, is the clock's model: its slope is the drift, and what is left of each point is the skew that remains.

Source:
    Hoefler, Schneider and Lumsdaine, *Accurately measuring overhead, communication time and progression of blocking and
    nonblocking collective operations at massive scale*, IJPEDS 25 (2010), section 3; Hunold and Carpen-Amarie,
    *Reproducible MPI benchmarking is still not as easy as you think*, IEEE TPDS 27 (2016), section 4 (linear models of
    drift).
"""

from __future__ import annotations

import json
import resource
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from threading import current_thread, main_thread
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.collectives.operations import BenchmarkKind, OperationSetting, operation
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import DeepBenchError
from deep_bench.measure.timing import BATCH_BELOW_NS, BATCHED_SAMPLE_NS, judge
from deep_bench.records.model import WarmUpRecord

ROUND_TRIPS = 50
"""Of which the shortest counts, each time."""


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What one comparison of two clocks gave, in nanoseconds.

    Args:
        at: Rank 0's clock in the middle of the round trip.
        ahead: How far the other clock was ahead.
        round_trip: How long it took.
    """

    at: int
    ahead: int
    round_trip: int


@dataclass(frozen=True)
class RankClock:
    """A rank's clock as seen from rank 0: ``ahead + drift * (t - origin)`` ahead of it at rank 0's time t.

    Args:
        origin: Rank 0's time that the line is taken from, in nanoseconds.
        ahead: At that time, in nanoseconds.
        drift: Nanoseconds that it gains in a nanosecond.
        error: Half of the shortest round trip: what no method by messages can see, in nanoseconds.
        residual: The largest distance of a reading from the line, in nanoseconds.
    """

    origin: int = 0
    ahead: float = 0.0
    drift: float = 0.0
    error: float = 0.0
    residual: float = 0.0

    @property
    def skew(self) -> float:
        """What two stamps of the same moment may differ by, in nanoseconds."""
        return self.error + self.residual

    def on_rank_0(self, stamps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Stamps of this clock on rank 0's, counted from ``origin``.

        Example:
            >>> RankClock(origin=100, ahead=50.0).on_rank_0(np.array([250]))
            array([100.])
        """
        since = (stamps - self.origin).astype(np.float64)
        return (since - self.ahead) / (1 + self.drift)


class RankClocks:
    """Compares the clocks of all ranks with rank 0's. All ranks call its methods together.

    Args:
        comm: Over which.
        clock: What is compared: nanoseconds.
    """

    def __init__(self, comm: Communicator, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._comm, self._clock = comm, clock
        self.readings: list[list[ClockReading]] = [[] for _ in range(comm.size)]

    def compare(self, round_trips: int = ROUND_TRIPS) -> None:
        """Take one reading of each rank's clock; rank 0 keeps them."""
        for rank in range(1, self._comm.size):
            if self._comm.rank == 0:
                self.readings[rank].append(self._ask(rank, round_trips))
            elif self._comm.rank == rank:
                self._answer(round_trips)

    def models(self) -> list[RankClock]:
        """Each rank's clock; on rank 0, which has the readings."""
        return [RankClock(), *(fitted_clock(readings) for readings in self.readings[1:])]

    def _ask(self, rank: int, round_trips: int) -> ClockReading:
        stamp, word, clock = np.zeros(1, np.int64), np.zeros(1, np.int64), self._clock
        best: ClockReading | None = None
        for _ in range(round_trips):
            begin = clock()
            self._comm.send(word, rank)
            self._comm.recv(stamp, rank)
            end = clock()
            if best is None or end - begin < best.round_trip:
                middle = (begin + end) // 2
                best = ClockReading(middle, int(stamp[0]) - middle, end - begin)
        assert best is not None
        return best

    def _answer(self, round_trips: int) -> None:
        stamp, word = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for _ in range(round_trips):
            self._comm.recv(word, 0)
            stamp[0] = self._clock()
            self._comm.send(stamp, 0)


def fitted_clock(readings: Sequence[ClockReading]) -> RankClock:
    """The line through readings, by least squares. One reading gives an offset only.

    Readings whose round trip is more than twice the shortest are left out: they were disturbed.

    Example:
        >>> readings = [ClockReading(t, 1000 + t // 100, 200) for t in (0, 10_000, 20_000)]
        >>> clock = fitted_clock(readings)
        >>> round(clock.drift, 6), round(clock.residual), clock.error
        (0.01, 0, 100.0)
    """
    shortest = min(reading.round_trip for reading in readings)
    good = [reading for reading in readings if reading.round_trip <= 2 * shortest]
    origin = good[0].at
    at = np.array([float(reading.at - origin) for reading in good])
    ahead = np.array([float(reading.ahead) for reading in good])
    if len(good) > 1 and at[-1] > 0:
        drift, start = np.polynomial.polynomial.polyfit(at / at[-1], ahead, 1)[::-1]
        drift /= at[-1]
    else:
        drift, start = 0.0, float(ahead.mean())
    residual = float(np.abs(ahead - start - drift * at).max())
    return RankClock(origin, float(start), float(drift), shortest / 2, residual)


def common_origin(clocks: Sequence[RankClock]) -> list[RankClock]:
    """The same clocks, all counted from one moment of rank 0's time, so that their stamps can be compared.

    Example:
        >>> one, two = common_origin([RankClock(), RankClock(origin=1000, ahead=500.0, drift=0.5)])
        >>> two.origin == one.origin, two.ahead
        (True, 500.0)
    """
    origin = max(clock.origin for clock in clocks)
    return [RankClock(origin, c.ahead + c.drift * (origin - c.origin), c.drift, c.error, c.residual) for c in clocks]


@dataclass(frozen=True)
class RankBlock:
    """What one rank, or all ranks (then with a first axis of ranks), found in a block.

    Args:
        begin: Stamps of each sample's begin, on the rank's own clock, in nanoseconds.
        ns: How long each sample took, in nanoseconds.
        preempted: Whether the kernel took the CPU away meanwhile.
        batch: How many repetitions a sample covers.
    """

    begin: NDArray[np.int64]
    ns: NDArray[np.int64]
    preempted: NDArray[np.bool_]
    batch: int


def sampled(call: Callable[[], Any], barrier: Callable[[], Any] | None, samples: int, batch: int = 1) -> RankBlock:
    """Repeat an operation, each time behind a barrier, and keep every sample.

    Args:
        call: The operation, as this rank makes it.
        barrier: Called before each sample, outside the stamps; ``None`` where the operation keeps its ranks together itself.
        samples: How many.
        batch: Repetitions to a sample.

    Example:
        >>> sampled(lambda: None, None, samples=3).ns.shape
        (3,)
    """
    begins, durations, switches = [0] * samples, [0] * samples, [0] * samples
    scope, usage, again = resource.RUSAGE_THREAD, resource.getrusage, range(batch)
    for number in range(samples):
        if barrier is not None:
            barrier()
        previous = usage(scope).ru_nivcsw
        begin = perf_counter_ns()
        for _ in again:
            call()
        end = perf_counter_ns()
        begins[number], durations[number], switches[number] = begin, end - begin, usage(scope).ru_nivcsw - previous
    return RankBlock(np.array(begins), np.array(durations), np.array(switches) > 0, batch)


def gathered(block: RankBlock, comm: Communicator) -> RankBlock | None:
    """The blocks of all ranks on rank 0, with a first axis of ranks; ``None`` elsewhere."""
    rows = comm.gather(np.stack([block.begin, block.ns, block.preempted.astype(np.int64)]), 0)
    if rows is None:
        return None
    return RankBlock(rows[:, 0], rows[:, 1], rows[:, 2] > 0, block.batch)


class RankAgreement:
    """Agreement over one communicator; all ranks call its methods in the same order."""

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.stopped = False
        self._asked = False

    def decided(self, *values: int) -> list[int]:
        """The numbers as rank 0 has them."""
        return [int(value) for value in self.comm.broadcast(np.array(values, np.int64), 0)]

    def most(self, value: int) -> int:
        """The largest of all ranks' numbers."""
        return int(self.comm.allreduce(np.array([value], np.int64), "max")[0])

    def goes_on(self, wanted: bool) -> bool:
        """Whether rank 0 wants to go on and nobody was asked to stop."""
        self.stopped = bool(self.most(int(self._asked)))
        return bool(self.decided(int(wanted))[0]) and not self.stopped

    def gathered(self, fact: Any) -> list[Any] | None:
        """What each rank tells, as JSON; on rank 0."""
        text = json.dumps(fact).encode()
        row = np.zeros(self.most(len(text)), np.uint8)
        row[: len(text)] = np.frombuffer(text, np.uint8)
        rows = self.comm.gather(row, 0)
        return None if rows is None else [json.loads(bytes(entry).rstrip(b"\0")) for entry in rows]

    @contextmanager
    def listening(self, signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)) -> Iterator[None]:
        """While it lasts, signals ask to stop at the next block instead of ending this rank in the middle of one."""

        def ask(*_: object) -> None:
            self._asked = True

        if current_thread() is not main_thread():  # only that one may say what signals do
            yield
            return
        before = {number: signal.signal(number, ask) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


BLOCK_NS = 50_000_000
"""How long a block lasts at least …"""


CALLS = 10
"""… and how many samples it has, unless that is more than its share of the budget."""


_WARM_UP_BLOCK_NS = 5_000_000
_LATE_NS = 300_000


@dataclass
class OperationTrial:
    """The operation over one communicator. All ranks call its methods together; rank 0 alone keeps what was found.

    Args:
        comm: The communicator.
        kind: The benchmark.
        setting: Size, element type, pair.
        together: Over which the ranks agree.
        clocks: Of the ranks.
        most_ns: The longest that a block may last.
    """

    comm: Communicator
    kind: BenchmarkKind
    setting: OperationSetting
    together: RankAgreement
    clocks: RankClocks
    most_ns: int
    blocks: list[RankBlock] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    failure: DeepBenchError | None = None
    warm_up: WarmUpRecord | None = None

    def __post_init__(self) -> None:
        self._problem = operation(self.kind.name, self.setting)
        self._barrier = None if self.kind.pair or not self.kind.sized else self.comm.barrier
        self._estimate, self._batch = 1, 1

    def check(self, seed: int) -> None:
        """Make the operation on fresh data, and note what is wrong on any rank, or that it was refused."""
        if not self.kind.sized:
            # each rank in turn comes late; nobody may have left before it came, on the common clock
            for late in range(self.comm.size):
                before = partial(_spin, _LATE_NS) if self.comm.rank == late else None
                self.comm.barrier()
                block = gathered(sampled(self._problem.call, before, samples=1), self.together.comm)
                if block is None:
                    continue
                clocks = common_origin(self.clocks.models())
                begin = np.array([c.on_rank_0(row)[0] for c, row in zip(clocks, block.begin, strict=True)])
                early = begin.max() - (begin + block.ns[:, 0]).min() - max(c.skew for c in clocks)
                if early > 0:
                    self.wrong.append(f"a rank left {early / 1e3:.3g} µs before rank {late} came")
            return
        wrong, failure = 0, None
        try:
            self._problem.prepare(self.comm.rank, self.comm.size, seed)
            self.comm.barrier()
            wrong = self._problem.wrong(seed)
        except DeepBenchError as error:
            failure = error
        if self.together.most(int(failure is not None)):
            self.failure = failure or DeepBenchError(f"{self.kind.name} failed on another rank")
            return
        counts = self.together.gathered(wrong)
        wrong_counts = {rank: count for rank, count in enumerate(counts or []) if count}
        if wrong_counts:
            self.wrong.append(f"{sum(wrong_counts.values())} wrong elements, on ranks {', '.join(map(str, wrong_counts))}")

    def warm(self, most_ns: int) -> None:
        """Repeat it until the times are steady, and find out how many repetitions make a block."""
        begin, medians, calls, first = perf_counter_ns(), [], 1, 0
        block, self._estimate = self._timed(1, 1)
        if block is not None:
            first = int(block.ns.max())
        unsteady = True
        while self.together.goes_on(unsteady):
            samples = min(max(_WARM_UP_BLOCK_NS // self._estimate, 1), 10_000)
            block, self._estimate = self._timed(*self.together.decided(samples, 1))
            calls += samples
            if block is not None:
                medians.append(float(np.median(block.ns.max(axis=0))))
                unsteady = judge(medians)[0] is not True and perf_counter_ns() - begin < most_ns
        steady, reason = judge(medians)
        if self.kind.name == "latency" and medians and medians[-1] < BATCH_BELOW_NS:
            self._batch = ceil(BATCHED_SAMPLE_NS / medians[-1])
        self.warm_up = WarmUpRecord(
            steady=steady, first_call_ns=first, cost_ns=perf_counter_ns() - begin, calls=calls, medians_ns=medians,
            batch=self._batch, reason=reason,
        )  # fmt: skip

    def sample(self) -> None:
        """Take a block."""
        per_sample = self._estimate * self._batch
        target = max(BLOCK_NS // per_sample, CALLS)
        samples, batch = self.together.decided(min(max(target, 1), max(self.most_ns // per_sample, 1)), self._batch)
        block, sample_ns = self._timed(samples, batch)
        self._estimate = max(sample_ns // batch, 1)
        if block is not None:
            self.blocks.append(block)

    def _timed(self, samples: int, batch: int) -> tuple[RankBlock | None, int]:
        """A block of all ranks, on rank 0; and what a sample took with all that is around it, in nanoseconds."""
        begin = perf_counter_ns()
        local_block = sampled(self._problem.call, self._barrier, samples, batch)
        sample_ns = (perf_counter_ns() - begin) // samples
        return gathered(local_block, self.together.comm), max(sample_ns, 1)


def _spin(duration: int) -> None:
    begin = perf_counter_ns()
    while perf_counter_ns() - begin < duration:
        pass
