"""Metrics: what a user wants to know of a call beyond its time. Subclass `Metric`, or take one of those here.

They rest on hardware counters of this process by ``perf_event_open``, where the system permits it; on energy, where the
machine tells it (processors by RAPL, graphics processors by NVML; else not available, never estimated); and on the memory
that the process holds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any, ClassVar, Literal, Protocol

import psutil
from pydantic import ConfigDict, Field, model_validator

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.events import Moment
from deep_bench.records.fields import RecordModel
from deep_bench.workers.evidence import peak_memory_bytes

__all__ = ["forget_peak", "resident_bytes"]

Direction = Literal["lower", "higher"]

_TIMES = ("ns", "s")


class MetricRecord(RecordModel):
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

    See `deep_bench.measure.metrics.EnergyMeter` for what is counted.

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
        event: One of `deep_bench.measure.metrics.EVENTS`.

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
    return factories | {event: partial(HardwareCounter, event) for event in EVENTS}


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
        raise InvalidArgument(f"a {type(instance).__name__} as a metric", "a subclass of deep_bench.measure.metrics.Metric")
    return instance


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


_HARDWARE, _SOFTWARE = 0, 1
EVENTS = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache-references": (_HARDWARE, 2),
    "cache-misses": (_HARDWARE, 3),
    "branches": (_HARDWARE, 4),
    "branch-misses": (_HARDWARE, 5),
    "task-clock": (_SOFTWARE, 1),
    "page-faults": (_SOFTWARE, 2),
}
"""Name, as ``perf`` spells it, to type and number. Cache misses are the last level's; the task clock is in nanoseconds.

Source: Linux, include/uapi/linux/perf_event.h; perf_event_open(2).
"""


DEFAULT = ("instructions", "cycles", "cache-misses", "branch-misses")

_SYSCALLS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
_ENABLE, _DISABLE, _GROUP = 0x2400, 0x2401, 1
_READ_FORMAT = 1 | 2 | 8  # time enabled, time running, group
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class _EventAttributes(ctypes.Structure):
    """``struct perf_event_attr``, first published form: the kernel takes what is missing for zero."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("bp_addr", ctypes.c_uint64),
    )


class Counters:
    """What the processor counted in this process while a block ran, in user mode.

    Events are read as one group, so that all are counted over the same moments. Where the processor has too few counters the
    kernel takes turns, and the counts are scaled by the time that they ran for. All threads that there are when the block
    begins are counted; those that it starts are not.

    Args:
        events: Which, of `EVENTS`.

    Attributes:
        values: Event to count; only those that are available.
        reasons: Event to why it is not available.
        running: The share of the time that the counters ran; below 1 the counts are scaled. ``None`` before the end.

    Raises:
        InvalidArgument: No such event.

    Example:
        >>> with Counters(["instructions"]) as counters:
        ...     _ = sum(range(1000))
        >>> set(counters.values) | set(counters.reasons)
        {'instructions'}
    """

    def __init__(self, events: Sequence[str] = DEFAULT) -> None:
        for event in events:
            if event not in EVENTS:
                raise InvalidArgument(f"the event {event!r}", f"one of {', '.join(EVENTS)}")
        self.events = tuple(dict.fromkeys(events))
        self.values: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        self.running: float | None = None
        self._groups: list[list[int]] = []
        self._open: tuple[str, ...] = ()

    def start(self) -> None:
        """Open the counters and let them count from zero."""
        self.close()
        self.values, self.reasons, self.running = {}, {}, None
        for event in self.events:
            try:
                os.close(_open(EVENTS[event], 0, -1))
            except OSError as error:
                self.reasons[event] = f"not available: {why_not(event, error)}"
        self._open = tuple(event for event in self.events if event not in self.reasons)
        if not self._open:
            return
        try:
            for thread in _threads():
                with suppress(ProcessLookupError):  # it has ended since
                    self._groups.append(self._group(thread))
        except OSError as error:
            self.close()
            self.reasons |= {event: f"not available: {why_not(event, error)}" for event in self._open}
            self._open = ()
            return
        for group in self._groups:
            _control(group[0], _ENABLE)

    def stop(self) -> None:
        """Let them stand, and read them."""
        for group in self._groups:
            _control(group[0], _DISABLE)
        totals, enabled_ns, running_ns = [0.0] * len(self._open), 0, 0
        for group in self._groups:
            _, enabled, running, *counts = struct.unpack(f"{3 + len(group)}Q", os.read(group[0], 8 * (3 + len(group))))
            enabled_ns, running_ns = enabled_ns + enabled, running_ns + running
            scale = enabled / running if running else 0.0
            totals = [total + count * scale for total, count in zip(totals, counts, strict=True)]
        self.close()
        if self._open and enabled_ns and not running_ns:
            reason = "not available: the processor had not enough free counters at any time; ask for fewer events"
            self.reasons |= dict.fromkeys(self._open, reason)
        elif self._open:
            self.values = dict(zip(self._open, totals, strict=True))
            self.running = running_ns / enabled_ns if enabled_ns else 1.0

    def close(self) -> None:
        """Give the counters back; harmless when there are none."""
        for group in self._groups:
            for fd in reversed(group):
                os.close(fd)
        self._groups = []

    def __enter__(self) -> Counters:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _group(self, thread: int) -> list[int]:
        """The counters of one thread; the first leads the others."""
        group: list[int] = []
        try:
            for event in self._open:
                group.append(_open(EVENTS[event], thread, group[0] if group else -1))
        except OSError:
            for fd in group:
                os.close(fd)
            raise
        return group


def why_not(event: str, error: OSError, paranoid: Path = _PARANOID) -> str:
    """Why an event cannot be counted, in words that say what to do.

    Args:
        event: Its name.
        error: What opening it gave.
        paranoid: The file with the kernel's setting.

    Example:
        >>> why_not("cycles", OSError(errno.ENOENT, "No such file or directory"))
        'the processor shows no counter for cycles here (most virtual machines have none)'
    """
    number = error.errno
    if number in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return f"the processor shows no counter for {event} here (most virtual machines have none)"
    if number in (errno.EACCES, errno.EPERM):
        with suppress(OSError, ValueError):
            level = int(paranoid.read_text(encoding="ascii"))
            if level > 2:
                return f"kernel.perf_event_paranoid is {level}: at most 2 permits it (sysctl kernel.perf_event_paranoid=2)"
        return "the system call perf_event_open is not permitted (containers forbid it by default: seccomp)"
    if number == errno.ENOSYS:
        return str(error.strerror) if error.filename == "platform" else "the kernel has no perf_event_open"
    return f"perf_event_open: {error.strerror}"


def _open(event: tuple[int, int], thread: int, leader: int) -> int:
    """A counter of one thread of this process (0: the calling one) on any CPU; a group's leader waits to be enabled."""
    if sys.platform != "linux" or platform.machine() not in _SYSCALLS:
        raise OSError(
            errno.ENOSYS, f"hardware counters are read on Linux only, not on {sys.platform} {platform.machine()}", "platform"
        )
    kind, number = event
    flags = _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR | (_DISABLED if leader == -1 else 0)
    attributes = _EventAttributes(
        type=kind, size=ctypes.sizeof(_EventAttributes), config=number, read_format=_READ_FORMAT, flags=flags
    )
    library: Any = ctypes.CDLL(None, use_errno=True)
    close_on_exec = 8
    call = ctypes.c_long(_SYSCALLS[platform.machine()])
    fd = library.syscall(call, ctypes.byref(attributes), thread, -1, leader, ctypes.c_ulong(close_on_exec))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(fd)


def _control(fd: int, request: int) -> None:
    import fcntl

    fcntl.ioctl(fd, request, _GROUP)


def _threads() -> list[int]:
    return [int(task) for task in os.listdir("/proc/self/task")]


POWERCAP = Path("/sys/class/powercap")
"""Where Linux has the counters of RAPL."""


class EnergySource(Protocol):
    """A counter of energy."""

    @property
    def name(self) -> str:
        """What it measures: ``"package-0"``, ``"dram-1"``, ``"gpu-0"``."""

    @property
    def wrap(self) -> float | None:
        """The number of joules after which it begins anew; ``None`` if it never does."""

    def read(self) -> float:
        """Joules since some moment in the past.

        Raises:
            OSError: It cannot be read.
        """


@dataclass(frozen=True)
class RaplSource:
    """A domain of RAPL in ``sysfs``.

    Args:
        name: What it measures.
        folder: The folder with its ``energy_uj``.
        wrap: The joules after which its counter begins anew.

    Source:
        Linux, Documentation/power/powercap/powercap.rst.
    """

    name: str
    folder: Path
    wrap: float | None

    def read(self) -> float:
        """The counter in joules."""
        return int((self.folder / "energy_uj").read_text(encoding="ascii")) / 1e6


@dataclass(frozen=True)
class NvmlSource:
    """A graphics processor, as its driver counts.

    Args:
        name: What it measures.
        handle: The device's handle.
        wrap: Never.

    Source:
        NVML API reference, ``nvmlDeviceGetTotalEnergyConsumption``.
    """

    name: str
    handle: Any
    wrap: float | None = None

    def read(self) -> float:
        """The counter in joules."""
        import pynvml

        try:
            return pynvml.nvmlDeviceGetTotalEnergyConsumption(self.handle) / 1e3
        except pynvml.NVMLError as error:
            raise OSError(f"NVML: {error}") from error


def rapl_sources(powercap: Path = POWERCAP) -> tuple[list[RaplSource], str]:
    """The packages and memories that RAPL counts, and why there are none.

    Cores and graphics are parts of their package, and ``psys`` is the whole machine: they would be counted twice.

    Args:
        powercap: The folder of ``sysfs``.
    """
    if not powercap.is_dir():
        return [], f"{powercap} does not exist: the kernel shows no RAPL counters (most virtual machines have none)"
    sources: list[RaplSource] = []
    reason = f"{powercap} has no RAPL counters"
    for folder in sorted(powercap.glob("*-rapl:*")):
        try:
            kind = (folder / "name").read_text(encoding="ascii").strip()
            if not (kind.startswith("package") or kind == "dram"):
                continue
            package = re.findall(r":(\d+)", folder.name)[0]
            source = RaplSource(f"{kind}-{package}" if kind == "dram" else kind, folder, _range(folder))
            source.read()
        except PermissionError as error:
            reason = f"{error.filename} may be read by root only"
        except (OSError, ValueError) as error:
            reason = f"{folder}: {error}"
        else:
            sources.append(source)
    return sources, "" if sources else reason


def _range(folder: Path) -> float | None:
    with suppress(OSError, ValueError):
        return int((folder / "max_energy_range_uj").read_text(encoding="ascii")) / 1e6
    return None


def nvml_sources() -> tuple[list[NvmlSource], str]:
    """The graphics processors whose driver counts energy, and why there are none."""
    try:
        import pynvml
    except ImportError:
        return [], "nvidia-ml-py is not installed"
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError as error:
        return [], f"NVML: {error}"
    sources, reason = [], "there is no NVIDIA graphics processor"
    for number, handle in enumerate(handles):
        source = NvmlSource(f"gpu-{number}", handle)
        try:
            source.read()
        except OSError as error:
            reason = str(error)
        else:
            sources.append(source)
    return sources, "" if sources else reason


class EnergyMeter:
    """The energy that the machine takes while a block runs.

    The counters are those of whole packages and graphics processors: whatever else runs there is counted too. RAPL's are
    updated about every millisecond, so a block should take many of them.

    Args:
        sources: What to read; by default all that the machine has.
        reason: Why there is nothing to read.

    Attributes:
        by_source: Name of each source to its joules; empty where none can be read.
        reason: Why energy is not available; empty where it is.

    Example:
        >>> with EnergyMeter() as meter:
        ...     _ = sum(range(1000))
        >>> meter.joules is None or meter.joules >= 0
        True
        >>> (meter.joules is None) == meter.reason.startswith("not available: ")
        True

    Source:
        Khan et al., RAPL in action, ACM TOMPECS 3 (2018), on what the counters are worth.
    """

    def __init__(self, sources: Sequence[EnergySource] | None = None, reason: str = "") -> None:
        if sources is None:
            (rapl, no_rapl), (nvml, no_nvml) = rapl_sources(), nvml_sources()
            sources, reason = [*rapl, *nvml], f"{no_rapl}; {no_nvml}"
        self._sources = list(sources)
        self._last: dict[str, float] = {}
        self.by_source: dict[str, float] = {}
        self.reason = "" if self._sources else f"not available: {reason or 'there is nothing to read'}"

    @property
    def joules(self) -> float | None:
        """The energy of all sources together; ``None`` where it is not available."""
        return sum(self.by_source.values()) if self.by_source and not self.reason else None

    def start(self) -> None:
        """Begin at zero."""
        self.by_source = {source.name: 0.0 for source in self._sources}
        self._last = {}
        self.update()

    def update(self) -> None:
        """Read the counters.

        One that begins anew is noticed once: in a block so long that it may do so twice (at full load after ten minutes at
        the earliest), call this now and then.
        """
        for source in self._sources:
            try:
                reading = source.read()
            except (OSError, ValueError) as error:
                self.reason = f"not available: {source.name} cannot be read any more: {error}"
                continue
            before = self._last.get(source.name, reading)
            self.by_source[source.name] += self._difference(source, before, reading)
            self._last[source.name] = reading

    def _difference(self, source: EnergySource, before: float, reading: float) -> float:
        if reading >= before:
            return reading - before
        if source.wrap is None:
            self.reason = f"not available: the counter of {source.name} fell from {before:g} to {reading:g} J"
            return 0.0
        return reading + source.wrap - before

    def __enter__(self) -> EnergyMeter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.update()


def resident_bytes() -> int:
    """The memory of this process that is in RAM now."""
    return int(psutil.Process().memory_info().rss)


def forget_peak() -> bool:
    """Let the peak of this process's memory begin anew, at what it holds now; whether the system allows that.

    Source:
        Linux, proc(5): writing 5 to ``/proc/self/clear_refs`` resets the peak resident set size.
    """
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True
