"""Metrics: what a user wants to know of a call beyond its time. Subclass `Metric`, or take one of those here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.events import Moment
from deep_bench.measure.counters import EVENTS, Counters
from deep_bench.measure.energy import EnergyMeter
from deep_bench.measure.record import Model
from deep_bench.measure.resident import forget_peak, peak_memory_bytes, resident_bytes

Direction = Literal["lower", "higher"]

_TIMES = ("ns", "s")


class MetricRecord(Model):
    """What a metric found, as it is kept.

    Attributes:
        name: Of the metric.
        unit: Of the values, ``""`` for a plain number.
        direction: Whether lower or higher is better.
        values: All that was found: one for each call, or one for all of them together (``calls`` says for how many).
        calls: How many calls each value stands for.
        unavailable: Why there are no values; ``""`` where there are.
        remark: What a reader should know of how they were taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")
    name: str
    unit: str
    direction: Direction
    values: tuple[float, ...] = ()
    calls: int = Field(default=1, ge=1)
    unavailable: str = ""
    remark: str = ""

    @model_validator(mode="after")
    def _check_times(self) -> MetricRecord:
        wrong = [value for value in self.values if self.unit in _TIMES and not 0 <= value < float("inf")]
        if wrong:
            raise ValueError(f"a time of {wrong[0]:g} {self.unit}: at least 0 expected")
        return self


class Metric(ABC):
    """A figure of a call, found by watching calls: a `deep_bench.events.Callback`.

    It is told before and after each call; both moments lie outside the region that is timed. A metric is made for one
    system and one series of calls: what it has seen is its only state.

    Attributes:
        name: What it is.
        unit: Of its values.
        direction: Whether ``"lower"`` or ``"higher"`` is better.
        reruns: Whether watching would disturb the timing: then it watches calls of its own.

    Example:
        >>> class Calls(Metric):
        ...     name, unit, direction = "calls", "", "higher"
        ...     def __init__(self):
        ...         self.seen = 0
        ...     def __call__(self, moment, index, time_ns, data):
        ...         self.seen += moment is Moment.AFTER_CALL
        ...     def measurement(self):
        ...         return self.found([self.seen])
        >>> collect(lambda: None, [Calls()], calls=3)[0].values
        (3.0,)
    """

    name: str
    unit: str = ""
    direction: Direction = "lower"
    reruns: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool | None:
        """Told of a call's begin and end; see `deep_bench.events.Callback`."""

    @abstractmethod
    def measurement(self) -> MetricRecord:
        """What was found; `found` and `unavailable` make it."""

    def found(self, values: Sequence[float], *, calls: int = 1, remark: str = "") -> MetricRecord:
        """A record of these values."""
        floats = tuple(map(float, values))
        return MetricRecord(
            name=self.name, unit=self.unit, direction=self.direction, values=floats, calls=calls, remark=remark
        )

    def unavailable(self, reason: str) -> MetricRecord:
        """A record without values, and why: never a zero."""
        full_reason = reason if reason.startswith("not available") else f"not available: {reason}"
        return MetricRecord(name=self.name, unit=self.unit, direction=self.direction, unavailable=full_reason)


_NO_CALLS = "no call was watched"


class WallTime(Metric):
    """The time of each call by the wall clock, in nanoseconds, between the stamps of its moments.

    The timing of `deep_bench.measure.timing` does without callbacks, and is finer.
    """

    name, unit, direction = "wall time", "ns", "lower"

    def __init__(self) -> None:
        self._begin = 0
        self._ns: list[int] = []

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        """Take the stamp."""
        del index, data
        if moment is Moment.BEFORE_CALL:
            self._begin = time_ns
        elif moment is Moment.AFTER_CALL:
            self._ns.append(time_ns - self._begin)

    def measurement(self) -> MetricRecord:
        """One value for each call."""
        return self.found(self._ns) if self._ns else self.unavailable(_NO_CALLS)


class Throughput(Metric):
    """How much is done in a second.

    Args:
        amount: How much one call does: samples, FLOPs, bytes.
        of: What that is.

    Raises:
        InvalidArgument: The amount is not above 0.
    """

    direction = "higher"

    def __init__(self, amount: float, of: str) -> None:
        if not amount > 0:
            raise InvalidArgument(f"throughput of {amount!r} {of} a call", "a number above 0")
        self.name, self.unit = "throughput", f"{of}/s"
        self._amount, self._time = amount, WallTime()

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        """Take the stamp."""
        self._time(moment, index, time_ns, data)

    def measurement(self) -> MetricRecord:
        """One value for each call; their mean over calls is the harmonic one."""
        times = self._time.measurement()
        if not times.values:
            return self.unavailable(times.unavailable)
        return self.found([self._amount * 1e9 / max(ns, 1) for ns in times.values])


class PeakMemory(Metric):
    """The most memory that the process held in RAM during the calls, and how much of that was new, in bytes.

    It is that of the whole process, with its framework: compare with the same process before. Memory that was taken before
    and is used again does not show.
    """

    name, unit, direction, reruns = "peak memory", "B", "lower", True

    def __init__(self) -> None:
        self._before: int | None = None
        self._peak = 0
        self._reset = False

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        """Let the peak begin anew before the first call, and read it after each."""
        del index, time_ns, data
        if moment is Moment.BEFORE_CALL and self._before is None:
            self._reset = forget_peak()
            self._before = resident_bytes()
        elif moment is Moment.AFTER_CALL:
            self._peak = peak_memory_bytes()

    def measurement(self) -> MetricRecord:
        """One value for all calls."""
        if self._before is None:
            return self.unavailable(_NO_CALLS)
        how = "" if self._reset else "; since the process began: the system lets no peak begin anew"
        return self.found([self._peak], remark=f"{self._before} B before the calls{how}")


class Energy(Metric):
    """The energy of a call, in joules: that of all watched calls over their number.

    See `deep_bench.measure.energy.EnergyMeter` for what is counted.

    Args:
        meter: What to read; by default all counters of the machine.
    """

    name, unit, direction, reruns = "energy", "J", "lower", True

    def __init__(self, meter: EnergyMeter | None = None) -> None:
        self._meter = EnergyMeter() if meter is None else meter
        self._calls = 0
        self._started = False

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        """Read the counters before the first call and after each."""
        del index, time_ns, data
        if moment is Moment.BEFORE_CALL and not self._started:
            self._meter.start()
            self._started = True
        elif moment is Moment.AFTER_CALL:
            self._meter.update()
            self._calls += 1

    def measurement(self) -> MetricRecord:
        """One value for all calls: their mean."""
        joules = self._meter.joules
        if self._meter.reason or not self._calls or joules is None:
            return self.unavailable(self._meter.reason or _NO_CALLS)
        if joules == 0:
            return self.unavailable("the calls were over before the counters moved; watch more of them")
        parts = ", ".join(f"{name} {value / self._calls:.3g} J" for name, value in self._meter.by_source.items())
        return self.found([joules / self._calls], calls=self._calls, remark=parts)


class HardwareCounter(Metric):
    """What the processor counts in each call.

    Args:
        event: One of `deep_bench.measure.counters.EVENTS`.

    Raises:
        InvalidArgument: No such event.
    """

    reruns = True

    def __init__(self, event: str) -> None:
        self._counters = Counters([event])
        self.name, self.unit = event, "ns" if event == "task-clock" else ""
        self._values: list[float] = []
        self._reason = _NO_CALLS

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> None:
        """Let the counter run during the call."""
        del index, time_ns, data
        if moment is Moment.BEFORE_CALL:
            self._counters.start()
        elif moment is Moment.AFTER_CALL:
            self._counters.stop()
            self._values += self._counters.values.values()
            self._reason = next(iter(self._counters.reasons.values()), self._reason)

    def measurement(self) -> MetricRecord:
        """One value for each call."""
        return self.found(self._values) if self._values else self.unavailable(self._reason)


def builtin_metrics() -> dict[str, Callable[[], Metric]]:
    """Name to what makes a fresh metric of those that need no settings.

    Example:
        >>> sorted(builtin_metrics())[:3]
        ['branch-misses', 'branches', 'cache-misses']
    """
    factories: dict[str, Callable[[], Metric]] = {"wall time": WallTime, "peak memory": PeakMemory, "energy": Energy}
    return factories | {event: _counter(event) for event in EVENTS}


def make_metric(metric: str | Callable[[], Metric]) -> Metric:
    """A fresh metric.

    Args:
        metric: The name of one of `builtin_metrics`, or a function of no arguments that makes one, such as its class.

    Raises:
        UnknownName: No such metric.
        InvalidArgument: What the function makes is none.
    """
    if isinstance(metric, str):
        factories = builtin_metrics()
        if metric not in factories:
            raise UnknownName("metric", metric, factories)
        return factories[metric]()
    instance = metric()
    if not isinstance(instance, Metric):
        raise InvalidArgument(f"a {type(instance).__name__} as a metric", "a subclass of deep_bench.measure.metric.Metric")
    return instance


def _counter(event: str) -> Callable[[], Metric]:
    return lambda: HardwareCounter(event)


def collect(
    call: Callable[[], Any],
    metrics: Sequence[Metric],
    *,
    calls: int = 10,
    synchronize: Callable[[], Any] = lambda: None,
) -> list[MetricRecord]:
    """Make calls, tell the metrics of them, and return what these found.

    All metrics that do not disturb the timing watch the same calls; each that has ``reruns`` watches as many of its own.

    Args:
        call: What is watched; warm.
        metrics: Fresh ones.
        calls: How many.
        synchronize: Waits for the device, before a call's end is told.

    Raises:
        InvalidArgument: ``calls`` is below one.

    Example:
        >>> found = collect(lambda: sum(range(1000)), [WallTime(), Throughput(1000, "numbers")], calls=5)
        >>> [(record.name, record.unit, len(record.values)) for record in found]
        [('wall time', 'ns', 5), ('throughput', 'numbers/s', 5)]
    """
    if calls < 1:
        raise InvalidArgument(f"calls={calls}", "at least 1 call")
    together = [metric for metric in metrics if not metric.reruns]
    for group in [together, *([metric] for metric in metrics if metric.reruns)]:
        for index in range(calls if group else 0):
            if _watched(call, synchronize, group, index):
                break
    return [metric.measurement() for metric in metrics]


def _watched(call: Callable[[], Any], synchronize: Callable[[], Any], group: Sequence[Metric], index: int) -> bool:
    """One call between its moments; whether a metric asks to stop."""
    stop = [metric(Moment.BEFORE_CALL, index, perf_counter_ns(), None) for metric in group]
    call()
    synchronize()
    end = perf_counter_ns()
    stop += [metric(Moment.AFTER_CALL, index, end, None) for metric in reversed(group)]
    return True in stop
