"""The measurement itself: systems in random order, block by block, round after round, all but one of them stopped.

`time_call` times a single call in this process, as quickly as an interval of the wanted width can be had.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, Literal

import numpy as np

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.measure.statistics import Summary, median_interval, select, summarize
from deep_bench.measure.timing import Block, Timer, WarmUp, sample_block, warm_up
from deep_bench.workers.fleet import Contender, Fleet, StartedSystems
from deep_bench.workers.process import SystemHandle

StoppedBecause = Literal["width reached", "budget spent", "failed", "interrupted"]


@dataclass(frozen=True)
class Plan:
    """How long and how finely to measure.

    Args:
        ci_width: Stop when half the 95 % interval of each median is at most this share of the median …
        budget_s: … or after so many seconds, warm-up included.
        seed: Of the random order.
        launches: How many times to start everything afresh; the budget is divided among them.
        min_ns: The length of a block at least, in nanoseconds.
        min_calls: Its calls at least.
        min_rounds: Blocks of each call at least, unless the budget is spent.
        least_blocks: Blocks of each call at least, unless twice the budget is spent.
        quantities: The calls to time, where a system has them; None for all of them.
        warm_up_s: The most that warming up one call may take.
        warm_up_block_ns: The length of its blocks at least, in nanoseconds.
    """

    ci_width: float = 0.01
    budget_s: float = 20.0
    seed: int = 0
    launches: int = 1
    min_ns: int = 50_000_000
    min_calls: int = 10
    min_rounds: int = 6
    least_blocks: int = 1
    quantities: tuple[str, ...] | None = None
    warm_up_s: float = 3.0
    warm_up_block_ns: int = 10_000_000

    def __post_init__(self) -> None:
        bad = [
            n
            for n in ("ci_width", "budget_s", "launches", "min_calls", "min_rounds", "least_blocks")
            if not getattr(self, n) > 0
        ]
        if bad:
            raise InvalidArgument(f"{bad[0]} is {getattr(self, bad[0])!r}", "a number above 0")


@dataclass
class Series:
    """All blocks of one call of one system in one launch of its process.

    Args:
        label: The system.
        quantity: The name of the call.
        launch: The number of the launch, from 0.
        warm_up: What warming up took; None if it failed.
        blocks: The samples, in the order they were taken.
        stopped_because: Why no more were taken.
        process: What the process said at the end: peak memory, CPUs.
    """

    label: str
    quantity: str
    launch: int = 0
    warm_up: WarmUp | None = None
    blocks: list[Block] = field(default_factory=list)
    stopped_because: StoppedBecause | None = None
    process: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SessionProgress:
    """How far a measurement is, told after each block.

    Args:
        elapsed_s: Seconds since its begin.
        budget_s: Seconds it may take.
        launch: The number of the launch, from 0.
        round: The number of the round, from 0; -1 while warming up.
        label: The system just timed.
        quantity: The call just timed.
        width: The widest relative half-width of all, so far; None while some have no interval.
    """

    elapsed_s: float
    budget_s: float
    launch: int
    round: int
    label: str
    quantity: str
    width: float | None


@dataclass
class Measurement:
    """What was measured.

    Args:
        plan: How.
        series: The samples.
        failures: Label to error, of systems that failed; what they gave before is kept.
        prepared: Label to what preparing said, in the first launch.
        interrupted: Whether the user ended it early.
        in_process: Whether the systems shared this process, so that they could disturb each other.
    """

    plan: Plan
    series: list[Series] = field(default_factory=list)
    failures: dict[str, DeepBenchError] = field(default_factory=dict)
    prepared: dict[str, dict[str, Any]] = field(default_factory=dict)
    interrupted: bool = False
    in_process: bool = False

    def blocks(self, label: str, quantity: str) -> list[list[Block]]:
        """The blocks of one call, launch by launch; launches that gave none are left out."""
        return [s.blocks for s in self.series if (s.label, s.quantity) == (label, quantity) and s.blocks]


Watch = Callable[[SessionProgress], None]


def measure(
    contenders: Sequence[Contender],
    plan: Plan | None = None,
    *,
    logs: Path | None = None,
    in_process: bool = False,
    watch: Watch = lambda _: None,
) -> Measurement:
    """Start the contenders, time all their calls, and end them; again for each launch.

    Ctrl-C ends the measurement; what was measured is returned, marked ``interrupted``. A system that fails is reported in
    ``failures`` while the others go on.

    Args:
        contenders: The systems.
        plan: How long and how finely.
        logs: An existing folder for the workers' logs; by default one that is gone afterwards.
        in_process: Start no processes: for a debugger.
        watch: Told of each block, for a progress bar.
    """
    plan = plan or Plan()
    result = Measurement(plan, in_process=in_process)
    with ExitStack() as stack:
        folder = logs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        try:
            for launch in range(plan.launches):
                with Fleet(contenders, folder, in_process=in_process) as fleet:
                    measure_launch(fleet, plan, result, launch=launch, watch=watch)
                if result.interrupted:
                    break
        except KeyboardInterrupt:
            result.interrupted = True
    return result


def measure_launch(
    fleet: StartedSystems, plan: Plan, result: Measurement | None = None, *, launch: int = 0, watch: Watch = lambda _: None
) -> Measurement:
    """Time all calls of a fleet that is already prepared: one launch. See `measure`.

    Args:
        fleet: The systems; it stays open.
        plan: How long (its budget is divided by its launches) and how finely.
        result: Where to add the samples; by default a new measurement.
        launch: The number of this launch.
        watch: Told of each block.

    Returns:
        ``result``.
    """
    result = result if result is not None else Measurement(plan, in_process=fleet.in_process)
    run = _LaunchSession(fleet, plan, launch, watch)
    result.series += run.series
    try:
        run.warm_up()
        run.rounds()
        run.ask_processes()
    except KeyboardInterrupt:
        result.interrupted = True
    run.finish(interrupted=result.interrupted)
    result.failures.update(fleet.failures)
    for label, facts in fleet.prepared.items():
        result.prepared.setdefault(label, facts)
    return result


class _LaunchSession:
    """The state of one launch: the clock, and a series for each call."""

    def __init__(self, fleet: StartedSystems, plan: Plan, launch: int, watch: Watch) -> None:
        self.fleet, self.plan, self.launch, self.watch = fleet, plan, launch, watch
        self.series = [
            Series(label, name, launch)
            for label in fleet.runners
            for name in fleet.prepared[label]["calls"]
            if plan.quantities is None or name in plan.quantities
        ]
        self.budget_s = plan.budget_s / plan.launches
        self.begin = perf_counter()
        self.width: float | None = None
        self.random = np.random.default_rng([plan.seed, launch])

    def warm_up(self) -> None:
        # at most half of the budget, so that something is left to measure
        each_s = min(self.plan.warm_up_s, self.budget_s / 2 / max(len(self.series), 1))
        for series in self.series:
            series.warm_up = self._do(series, self._warming(series.quantity, int(each_s * 1e9), self.plan.warm_up_block_ns))
            self._tell(series, -1)

    def rounds(self) -> None:
        """Sample all calls, each round in another order, until all are narrow enough or the budget is spent.

        All go on until the last one is done, so that drift hits all alike.
        """
        number, check = 0, self.plan.min_rounds
        while self._open():
            # a block may not eat the budget of the others: at least three rounds should fit
            most_ns = int(self.budget_s / 3 / len(self._open()) * 1e9)
            for index in self.random.permutation(len(self.series)):
                series = self.series[index]
                if series.stopped_because is None:
                    self._sample(series, most_ns)
                    self._tell(series, number)
                if self._spent() and all(len(s.blocks) >= self._least() for s in self._open()):
                    return
            number += 1
            if number >= check:  # not after each round: it takes time that grows with the samples
                check = max(number + 1, int(number * 1.2))
                if self._narrow():
                    return

    def ask_processes(self) -> None:
        """Ask each process for its peak memory."""
        for series in self.series:
            if series.label in self.fleet.runners:
                series.process = self._do(series, lambda r: r.process_facts()) or {}

    def finish(self, *, interrupted: bool) -> None:
        """Say of each series why it ended."""
        for series in self._open():
            width = relative_half_width(series.blocks)
            narrow = width is not None and width <= self.plan.ci_width
            ended: StoppedBecause = "interrupted" if interrupted else "budget spent"
            series.stopped_because = "width reached" if narrow else ended

    @staticmethod
    def _warming(name: str, max_ns: int, block_ns: int) -> Callable[[SystemHandle], WarmUp]:
        return lambda runner: runner.warm_up(name, max_ns=max_ns, block_ns=block_ns)

    def _sample(self, series: Series, most_ns: int) -> None:
        plan = self.plan
        block = self._do(series, lambda r: r.sample(series.quantity, plan.min_ns, plan.min_calls, most_ns))
        if block is not None:
            series.blocks.append(block)

    def _do(self, series: Series, action: Callable[[SystemHandle], Any]) -> Any:
        if series.label not in self.fleet.runners:
            series.stopped_because = "failed"
            return None
        try:
            return self.fleet.awake(series.label, action)
        except DeepBenchError as error:
            self.fleet.set_aside(series.label, error)
            series.stopped_because = "failed"
            return None

    def _open(self) -> list[Series]:
        return [s for s in self.series if s.stopped_because is None]

    def _least(self) -> int:
        """How many blocks of each call there must be, although the budget is spent."""
        return self.plan.least_blocks if perf_counter() - self.begin < 2 * self.budget_s else 1

    def _spent(self) -> bool:
        return perf_counter() - self.begin >= self.budget_s

    def _narrow(self) -> bool:
        widths = [relative_half_width(s.blocks) for s in self._open()]
        self.width = max((w for w in widths if w is not None), default=None) if None not in widths else None
        return self.width is not None and self.width <= self.plan.ci_width

    def _tell(self, series: Series, number: int) -> None:
        elapsed = self.launch * self.budget_s + min(perf_counter() - self.begin, self.budget_s)
        self.watch(
            SessionProgress(elapsed, self.plan.budget_s, self.launch, number, series.label, series.quantity, self.width)
        )


def relative_half_width(blocks: Sequence[Block]) -> float | None:
    """Half the 95 % interval of the median over the median; None while there are too few samples."""
    if not blocks:
        return None
    groups, _ = select(blocks)
    interval = median_interval(groups)
    return None if interval is None else (interval.high - interval.low) / 2 / float(np.median(np.concatenate(groups)))


_BLOCK_NS = 3_000_000
_BLOCK_CALLS = 4
_WARM_UP_BLOCK_NS = 500_000
_FEWEST_BLOCKS = 10
_NEXT_LOOK = 1.3
_LONG_NS = 100_000


@dataclass(frozen=True)
class CallTiming:
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
) -> CallTiming:
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
    return CallTiming(summarize(blocks), tuple(blocks), warmed, reached)
