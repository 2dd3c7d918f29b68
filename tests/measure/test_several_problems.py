"""Systems that are given one problem after the other, and what is done before each sample."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from deep_bench.errors import InvalidArgument, Unsupported, WorkerDied
from deep_bench.measure.session import Plan, measure_launch
from deep_bench.measure.timing import sample_block, warm_up
from deep_bench.workers.fleet import Contender, Fleet
from deep_bench.workers.host import Host


class Loaded:
    """Has other calls for each problem; importable in a worker."""

    threaded = False

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.problem = ""
        self.before: dict[str, Callable[[], object]] = {}

    def prepare(self) -> dict[str, Any]:
        return {"problem": ""}

    def load(self, problem: str) -> dict[str, Any]:
        if problem == "dies":
            os._exit(3)
        self.problem = problem
        self.before = {"cold": lambda: self.seen.append("before")}
        return {"problem": problem}

    def calls(self) -> Mapping[str, Callable[[], object]]:
        return {name: lambda: self.seen.append("call") for name in (self.problem, "cold", "always") if self.problem}

    def synchronize(self) -> None:
        pass


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    yield
    for name in ("tiny_systems", Path(__file__).stem):
        sys.modules.pop(name, None)


def contender() -> Contender:
    return Contender("a", f"{Path(__file__).stem}:Loaded")


def test_a_host_has_the_calls_of_the_problem_at_hand() -> None:
    host = Host(Loaded())
    assert host.prepare()["calls"] == ()
    assert host.load("first")["calls"] == ("first", "cold", "always")
    assert host.warm_up("always", max_ns=20_000_000).batch > 1
    assert host.sample("always", min_ns=0).batch > 1
    loaded = host.load("second")
    assert loaded["facts"] == {"problem": "second"}
    assert loaded["prepare_ns"] >= 0
    with pytest.raises(InvalidArgument, match="one of second, cold, always"):
        host.sample("first")
    assert host.sample("always", min_ns=0).batch == 1  # what was found out of another problem is forgotten


def test_a_system_of_a_single_problem_says_so() -> None:
    from tiny_systems import Tiny

    with pytest.raises(Unsupported, match="single problem"):
        Host(Tiny()).load("x")


def test_something_is_done_before_each_sample() -> None:
    host = Host(Loaded())
    host.load("x")
    host.warm_up("cold", max_ns=5_000_000)
    host.system.seen.clear()
    block = host.sample("cold", min_ns=0, min_calls=4)
    assert block.batch == 1
    assert host.system.seen == ["call"] + ["before", "call"] * 4  # the first call after resuming is kept apart


def test_what_comes_before_is_outside_the_stamps_and_its_switches_do_not_count() -> None:
    def pause() -> None:
        time.sleep(0.002)

    block = sample_block(lambda: None, lambda: None, min_ns=0, min_calls=20, before=pause, cpu_time=True)
    assert sorted(block.ns)[10] < 1_000_000
    assert (block.cpu_ns != block.ns).any()  # where the thread waited, its CPU time would be taken for the duration
    with pytest.raises(InvalidArgument, match="1 call to a sample"):
        sample_block(lambda: None, lambda: None, batch=2, before=lambda: None)
    assert warm_up(lambda: None, lambda: None, max_ns=1_000_000, before=lambda: None).batch == 1


def test_a_fleet_measures_problem_after_problem(tmp_path: Path) -> None:
    with Fleet([contender()], tmp_path) as fleet:
        for problem in ("first", "second"):
            fleet.prepared["a"] = fleet.awake("a", lambda runner, p=problem: runner.load(p))
            found = measure_launch(fleet, Plan(ci_width=0.9, budget_s=0.2, min_ns=1_000_000, warm_up_block_ns=1_000_000))
            assert {s.quantity for s in found.series} == {problem, "cold", "always"}
            assert all(s.blocks for s in found.series)


def test_a_system_that_ended_can_be_started_afresh(tmp_path: Path) -> None:
    with Fleet([contender()], tmp_path) as fleet:
        with pytest.raises(WorkerDied, match="exit status 3 during 'load'"):
            fleet.awake("a", lambda runner: runner.load("dies"))
        fleet.set_aside("a", WorkerDied("it ended"))
        assert not fleet.runners
        fleet.restart("a")
        assert not fleet.failures
        assert fleet.awake("a", lambda runner: runner.load("x"))["calls"] == ("x", "cold", "always")
        fleet.restart("a")
        assert set(fleet.runners) == {"a"}


def test_the_time_limit_of_a_contender_is_told(tmp_path: Path) -> None:
    limited = Contender("b", "tiny_systems:Tiny", limit_s=10.0)
    with Fleet([limited], tmp_path) as fleet:
        fleet.runners["b"].limit_s = 0.2
        with pytest.raises(WorkerDied, match=r"took more than 0\.2 s"):
            fleet.call("b", "sleep", 30.0)


def test_enough_blocks_for_an_interval_may_cost_more_than_the_budget(tmp_path: Path) -> None:
    with Fleet([Contender("slow", "tiny_systems:Slow")], tmp_path) as fleet:
        plan = {"ci_width": 1e-9, "budget_s": 0.4, "min_ns": 1_000_000, "min_calls": 1, "warm_up_s": 0.05}
        few = measure_launch(fleet, Plan(**plan)).series[0].blocks
        more = measure_launch(fleet, Plan(**plan, least_blocks=6)).series[0].blocks
        assert len(few) < len(more) or len(few) >= 6
        assert len(more) <= 9
