from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from deep_bench.errors import InvalidArgument, WorkerDied, WorkerError
from deep_bench.measure.session import Plan, SessionProgress, measure, measure_launch, relative_half_width
from deep_bench.workers.fleet import Contender, Fleet
from deep_bench.workers.process import Worker

Make = Callable[..., Contender]
QUICK = {"min_ns": 1_000_000, "warm_up_s": 0.1}


def children() -> list[psutil.Process]:
    running = [p for p in psutil.Process().children() if p.status() != psutil.STATUS_ZOMBIE]
    return [p for p in running if "deep_bench.workers.worker" in p.cmdline()]


def test_all_calls_are_measured_until_they_are_narrow(contender: Make) -> None:
    tiny = contender("tiny")
    result = measure([tiny, tiny.twin()], Plan(ci_width=0.9, **QUICK))
    assert [(s.label, s.quantity) for s in result.series] == [
        (label, quantity) for label in ("tiny", "tiny (A/A)") for quantity in ("native", "numpy")
    ]
    for series in result.series:
        assert series.stopped_because == "width reached"
        assert len(series.blocks) >= 6
        assert all(b.resume_ns is not None for b in series.blocks)
        assert series.warm_up is not None
        assert series.process["peak_memory_bytes"] > 0
    assert not result.failures
    assert not result.interrupted
    assert result.prepared["tiny"]["facts"] == {"version": np.__version__}
    assert not children()


def test_all_are_sampled_equally_often_and_interleaved(contender: Make) -> None:
    told: list[SessionProgress] = []
    measure([contender("a"), contender("b")], Plan(ci_width=0.9, quantities=("native",), seed=3, **QUICK), watch=told.append)
    rounds = [[p.label for p in told if p.round == n] for n in range(6)]
    assert all(sorted(labels) == ["a", "b"] for labels in rounds)
    assert len({tuple(labels) for labels in rounds}) == 2


def test_the_budget_ends_what_does_not_get_narrow(contender: Make) -> None:
    result = measure([contender("tiny")], Plan(ci_width=1e-9, budget_s=0.5, **QUICK))
    assert {s.stopped_because for s in result.series} == {"budget spent"}
    assert all(s.blocks for s in result.series)


def test_slow_calls_get_shorter_blocks_rather_than_all_of_the_budget(contender: Make) -> None:
    result = measure([contender("slow", "Slow")], Plan(ci_width=1e-9, budget_s=1.0, min_calls=100))
    (series,) = result.series
    assert len(series.blocks) >= 2
    assert all(0 < len(b.ns) < 100 for b in series.blocks)
    assert series.warm_up.steady is None


def test_others_are_stopped_while_one_is_timed(contender: Make, tmp_path: Path) -> None:
    with Fleet([contender("watching", "Watching"), contender("other")], tmp_path) as fleet:
        fleet.call("watching", "watch", [fleet.prepared["other"]["process"]["pid"]])
        measure_launch(fleet, Plan(ci_width=0.9, **QUICK))
        assert fleet.call("watching", "seen") == {"T"}


def test_a_worker_that_dies_keeps_its_samples_and_the_others_go_on(contender: Make) -> None:
    plan = Plan(ci_width=1e-9, budget_s=2, quantities=("native",), min_ns=0, min_calls=50, warm_up_s=0.05)
    result = measure([contender("mortal", "Mortal", after=700), contender("tiny")], plan)
    by_label = {s.label: s for s in result.series}
    assert by_label["mortal"].stopped_because == "failed"
    assert by_label["mortal"].blocks
    assert by_label["tiny"].stopped_because == "budget spent"
    assert len(by_label["tiny"].blocks) > len(by_label["mortal"].blocks)
    assert isinstance(result.failures["mortal"], WorkerDied)
    assert "SIGKILL" in str(result.failures["mortal"])


def test_a_system_that_cannot_be_built_is_reported(contender: Make) -> None:
    result = measure([contender("broken", "unbuildable"), contender("tiny")], Plan(ci_width=0.9, **QUICK))
    assert {s.label for s in result.series} == {"tiny"}
    assert isinstance(result.failures["broken"], WorkerError)


def test_an_interrupt_keeps_what_was_measured(contender: Make) -> None:
    def interrupt(progress: SessionProgress) -> None:
        if progress.round == 2:
            os.kill(os.getpid(), signal.SIGINT)

    result = measure([contender("tiny")], Plan(ci_width=1e-9, budget_s=30, **QUICK), watch=interrupt)
    assert result.interrupted
    assert {s.stopped_because for s in result.series} == {"interrupted"}
    assert all(len(s.blocks) >= 2 for s in result.series)
    assert not children()


def test_an_interrupt_that_ends_the_process_as_well_is_an_interrupt(
    contender: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, count = Worker.sample, []

    def interrupted(worker: Worker, *args: Any, **options: Any) -> Any:
        count.append(1)
        if len(count) == 3:
            os.kill(worker.pid, signal.SIGKILL)
            raise KeyboardInterrupt
        return sample(worker, *args, **options)

    monkeypatch.setattr(Worker, "sample", interrupted)
    result = measure([contender("tiny")], Plan(ci_width=1e-9, budget_s=30, **QUICK))
    assert result.interrupted
    assert not result.failures
    assert {s.stopped_because for s in result.series} == {"interrupted"}
    assert not children()


def test_an_interrupt_at_the_very_end_keeps_what_was_measured(contender: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Worker) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Worker, "process_facts", interrupted)
    result = measure([contender("tiny")], Plan(ci_width=0.9, **QUICK))
    assert result.interrupted
    assert all(s.blocks and s.stopped_because is not None for s in result.series)
    assert result.prepared


def test_an_interrupt_while_starting_leaves_no_process(contender: Make, tmp_path: Path) -> None:
    def interrupt(label: str) -> None:
        if label == "b":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Fleet([contender("a"), contender("b")], tmp_path, starting=interrupt)
    assert not children()


def test_each_launch_has_fresh_processes(contender: Make) -> None:
    result = measure([contender("tiny")], Plan(ci_width=0.9, launches=2, quantities=("native",), **QUICK))
    assert [s.launch for s in result.series] == [0, 1]
    assert len({s.process["pid"] for s in result.series}) == 2
    assert len(result.blocks("tiny", "native")) == 2


def test_in_process_timing_says_so(contender: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    result = measure([contender("tiny")], Plan(ci_width=0.9, **QUICK), in_process=True)
    assert result.in_process
    assert result.series[0].process["pid"] == os.getpid()
    broken = measure([contender("broken", "unbuildable")], in_process=True)
    assert isinstance(broken.failures["broken"], WorkerError)


def test_a_fleet_refuses_two_systems_of_one_name(contender: Make, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="labels"):
        Fleet([contender("a"), contender("a")], tmp_path)


def test_a_fleet_names_those_it_has(contender: Make, tmp_path: Path) -> None:
    with Fleet([contender("a"), contender("b", "unbuildable")], tmp_path) as fleet:
        with pytest.raises(InvalidArgument, match="no system 'c'"):
            fleet.call("c", "total")
        with pytest.raises(WorkerError, match="cannot be built"):
            fleet.call("b", "total")
        assert fleet.call("a", "total") == 64.0


@pytest.mark.parametrize("wrong", [{"ci_width": 0}, {"budget_s": -1}, {"launches": 0}, {"min_calls": 0}])
def test_senseless_plans_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        Plan(**wrong)  # type: ignore[arg-type]


def test_nothing_has_no_width() -> None:
    assert relative_half_width([]) is None
