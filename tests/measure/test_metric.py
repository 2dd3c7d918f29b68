"""Metrics: those that come along, and one of a user's own."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.events import Moment
from deep_bench.measure.metrics import (
    Energy,
    EnergyMeter,
    HardwareCounter,
    Metric,
    MetricRecord,
    PeakMemory,
    Throughput,
    WallTime,
    builtin_metrics,
    collect,
)
from deep_bench.workers.fleet import Contender, Fleet, Local


class Source:
    """A counter of energy that grows by so much at each reading."""

    name, wrap = "package-0", None

    def __init__(self, step: float) -> None:
        self._readings = itertools.count()
        self._step = step

    def read(self) -> float:
        return next(self._readings) * self._step


class Sizes(Metric):
    """How long a list is after each call."""

    name, unit, direction = "length", "elements", "higher"

    def __init__(self, watched: list[int]) -> None:
        self.watched, self.seen = watched, list[int]()

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool | None:
        if moment is Moment.AFTER_CALL:
            self.seen.append(len(self.watched))
        return len(self.seen) == 3

    def measurement(self) -> MetricRecord:
        return self.found(self.seen)


class Apart(Sizes):
    """The same, in calls of its own."""

    reruns = True


class Sleeper:
    """A system whose only call takes a millisecond."""

    threaded = False

    def prepare(self) -> dict[str, Any]:
        return {}

    def calls(self) -> dict[str, Callable[[], None]]:
        return {"native": lambda: time.sleep(1e-3)}

    def synchronize(self) -> None:
        pass


def test_a_users_metric_watches_calls_and_may_stop_them() -> None:
    watched: list[int] = []
    (record,) = collect(lambda: watched.append(1), [Sizes(watched)], calls=10)
    assert record == MetricRecord(name="length", unit="elements", direction="higher", values=(1, 2, 3))


def test_what_disturbs_the_timing_watches_calls_of_its_own() -> None:
    watched: list[int] = []
    times, one, two = collect(lambda: watched.append(1), [WallTime(), Apart(watched), Apart(watched)], calls=3)
    assert len(times.values) == 3
    assert (one.values, two.values) == ((4, 5, 6), (7, 8, 9))


def test_records_survive_writing() -> None:
    (record,) = collect(lambda: None, [WallTime()], calls=2)
    assert MetricRecord.model_validate_json(record.model_dump_json()) == record


def test_throughput_is_the_amount_over_the_time() -> None:
    metric, wall = Throughput(4, "samples"), WallTime()
    for watching in (metric, wall):
        watching(Moment.BEFORE_CALL, 0, 1_000, None)
        watching(Moment.AFTER_CALL, 0, 3_000, None)
    assert wall.measurement().values == (2_000,)
    found = metric.measurement()
    assert (found.values, found.unit, found.direction) == ((4 / 2e-6,), "samples/s", "higher")
    with pytest.raises(InvalidArgument, match="above 0"):
        Throughput(0, "samples")


def test_peak_memory_sees_what_was_freed_again() -> None:
    (record,) = collect(lambda: np.ones(2**24).sum(), [PeakMemory()], calls=1)
    before = int(record.remark.split()[0])
    if "since the process began" in record.remark:
        pytest.skip(record.remark)
    assert record.values[0] - before > 100e6


def test_energy_of_a_call_is_the_mean() -> None:
    (record,) = collect(lambda: None, [Energy(EnergyMeter([Source(0.5)]))], calls=4)
    assert (record.values, record.calls, record.unit) == ((0.5,), 4, "J")
    (record,) = collect(lambda: None, [Energy(EnergyMeter([Source(0.0)]))], calls=4)
    assert record.values == ()
    assert record.unavailable == "not available: the calls were over before the counters moved; watch more of them"
    (record,) = collect(lambda: None, [Energy(EnergyMeter([], "no counters"))], calls=4)
    assert (record.values, record.unavailable) == ((), "not available: no counters")


def test_a_counter_gives_one_value_for_each_call_or_a_reason() -> None:
    for record in collect(lambda: sum(range(10**4)), [HardwareCounter("task-clock"), HardwareCounter("cycles")], calls=3):
        assert len(record.values) == 3 or record.unavailable.startswith("not available: ")


def test_nothing_watched_is_not_zero() -> None:
    for name, make in builtin_metrics().items():
        record = make().measurement()
        assert (record.name, record.values) == (name, ())
        assert record.unavailable.startswith("not available: ")
    with pytest.raises(InvalidArgument, match="calls=0"):
        collect(lambda: None, [], calls=0)


def test_metrics_watch_calls_in_a_worker(tmp_path: Path, contender: Callable[..., Contender]) -> None:
    with Fleet([contender("tiny")], tmp_path) as fleet:
        wanted = ["wall time", "energy", "peak memory", "task-clock", WallTime]
        found = fleet.awake("tiny", lambda runner: runner.collect("native", wanted, 3))
        with pytest.raises(UnknownName, match="'wall tim'"):
            fleet.awake("tiny", lambda runner: runner.collect("native", ["wall tim"]))
        with pytest.raises(InvalidArgument, match="a dict as a metric"):
            fleet.awake("tiny", lambda runner: runner.collect("native", [dict]))
    assert [record.name for record in found] == ["wall time", "energy", "peak memory", "task-clock", "wall time"]
    assert len(found[0].values) == len(found[4].values) == 3
    assert len(found[2].values) == 1
    assert all(bool(record.values) != bool(record.unavailable) for record in found)


def test_metrics_watch_calls_in_this_process() -> None:
    local = Local(Contender("sleeper", f"{__name__}:Sleeper"))
    local.prepare()
    (record,) = local.collect("native", ["wall time"], 2)
    assert len(record.values) == 2
    assert min(record.values) >= 1_000_000
