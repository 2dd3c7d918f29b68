"""A system under test, and the host that times it: in its own worker process, or here for a debugger."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.measure.timing import Block, Call, Timer, WarmUp, sample_block, stamp_overhead_ns, warm_up
from deep_bench.workers.evidence import peak_memory_bytes

if TYPE_CHECKING:
    from deep_bench.measure.metrics import Metric, MetricRecord

CPU_TIME_FROM_NS = 100_000
"""The CPU time of calls this long is noted too: many of them are preempted on a busy machine, perhaps all."""


@runtime_checkable
class System(Protocol):
    """Anything that can be timed. It may have more methods, reached through ``call``, and a ``timer`` of its device.

    One that poses several problems, one after the other, has ``load``: it makes the next one ready and returns its facts,
    as ``prepare`` does for the first. ``before`` maps the name of a call to what is done before each of its samples.

    Attributes:
        threaded: Whether its calls work in several threads of this process.
    """

    threaded: bool

    def prepare(self) -> dict[str, Any]:
        """Make everything ready, once; returns facts for the report (version, device, threads, …)."""

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """The named calls to time, such as ``{"native": ..., "numpy": ...}``."""

    def synchronize(self) -> None:
        """Return when the device has done all it was given."""


class Host:
    """Holds one system and does to it what a session asks for.

    Args:
        system: The system, not yet prepared.
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self._batch: dict[str, int] = {}
        self._long: set[str] = set()
        self._calls: Mapping[str, Call] = {}

    def prepare(self) -> dict[str, Any]:
        """Prepare the system.

        Returns:
            ``facts`` (the system's own), ``prepare_ns``, ``calls`` (their names), ``threaded``, ``stamp_overhead_ns``,
            and ``process`` (`process_facts`).
        """
        return self._ready(self.system.prepare)

    def load(self, *problem: Any) -> dict[str, Any]:
        """Give the system its next problem, which takes the place of the one before.

        Args:
            *problem: What the system's ``load`` takes.

        Returns:
            As `prepare`.

        Raises:
            Unsupported: The system has a single problem.
        """
        take = getattr(self.system, "load", None)
        if take is None:
            raise Unsupported(f"{type(self.system).__name__} has a single problem", "a system with a method load")
        self._calls = {}
        self._batch.clear()
        self._long.clear()
        return self._ready(lambda: take(*problem))

    def _ready(self, action: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        begin = perf_counter_ns()
        facts = action()
        self.system.synchronize()
        prepare_ns = perf_counter_ns() - begin
        self._calls = self.system.calls()
        return {
            "facts": facts,
            "prepare_ns": prepare_ns,
            "calls": tuple(self._calls),
            "threaded": self.system.threaded,
            "stamp_overhead_ns": stamp_overhead_ns(self.system.synchronize, self._timer),
            "process": process_facts(),
        }

    def warm_up(self, name: str, **options: Any) -> WarmUp:
        """Warm one of the calls up (see `deep_bench.measure.timing.warm_up`), and remember its batch size."""
        options.setdefault("before", self._before(name))
        result = warm_up(self._call(name), self.system.synchronize, timer=self._timer, **options)
        self._batch[name] = result.batch
        if result.medians_ns and result.medians_ns[-1] >= CPU_TIME_FROM_NS:
            self._long.add(name)
        return result

    def sample(self, name: str, min_ns: int = 50_000_000, min_calls: int = 10, max_ns: int | None = None) -> Block:
        """Take one block of samples of one of the calls; its first call is kept apart."""
        return sample_block(
            self._call(name),
            self.system.synchronize,
            min_ns=min_ns,
            min_calls=min_calls,
            max_ns=max_ns,
            batch=self._batch.get(name, 1),
            threaded=self.system.threaded,
            timer=self._timer,
            resumed=True,
            cpu_time=name in self._long and not self.system.threaded and self._timer is None,
            before=self._before(name),
        )

    def collect(self, name: str, metrics: Sequence[str | Callable[[], Metric]], calls: int = 10) -> list[MetricRecord]:
        """Let metrics watch one of the calls; see `deep_bench.measure.metrics.collect`.

        Args:
            name: The call.
            metrics: What makes each of them here: a name among `deep_bench.measure.metrics.builtin_metrics`, or a function
                of no arguments.
            calls: How many calls each watches.

        Raises:
            UnknownName: No such metric.
        """
        from deep_bench.measure.metrics import collect, make_metric

        return collect(
            self._call(name), [make_metric(metric) for metric in metrics], calls=calls, synchronize=self.system.synchronize
        )

    @property
    def _timer(self) -> Timer | None:
        return getattr(self.system, "timer", None)

    def _before(self, name: str) -> Call | None:
        hook: Call | None = getattr(self.system, "before", {}).get(name)
        return hook

    def _call(self, name: str) -> Call:
        if name not in self._calls:
            raise InvalidArgument(f"no call named {name!r}", f"one of {', '.join(self._calls) or '(none: not prepared)'}")
        return self._calls[name]


def build(factory: str, arguments: Mapping[str, Any]) -> System:
    """Make a system from an import path and keyword arguments.

    Raises:
        InvalidArgument: The path is not ``"package.module:attribute"``, or the attribute is not there.
    """
    module, colon, attribute = factory.partition(":")
    if not colon or not module or not attribute:
        raise InvalidArgument(f"factory {factory!r}", "'package.module:attribute'")
    constructor = getattr(import_module(module), attribute, None)
    if constructor is None:
        raise InvalidArgument(f"factory {factory!r}: the module has no {attribute!r}", "'package.module:attribute'")
    return constructor(**arguments)


def process_facts() -> dict[str, Any]:
    """This process: ``pid``, ``python``, the CPUs it may use (``cpus``), and ``peak_memory_bytes``."""
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {"pid": os.getpid(), "python": sys.version.split()[0], "cpus": cpus, "peak_memory_bytes": peak_memory_bytes()}
