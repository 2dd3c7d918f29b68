"""Hardware counters, by the real system call where it is permitted, and its refusals in words."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.measure import metrics
from deep_bench.measure.metrics import DEFAULT, EVENTS, Counters, why_not


def test_every_event_has_a_count_or_a_reason() -> None:
    with Counters(list(EVENTS)) as found:
        sum(range(10**5))
    assert set(found.values) | set(found.reasons) == set(EVENTS)
    assert not set(found.values) & set(found.reasons)
    assert all(reason.startswith("not available: ") for reason in found.reasons.values())


def test_a_page_that_is_touched_first_is_a_fault() -> None:
    with Counters(["page-faults", "task-clock"]) as found:
        np.ones(2**22)  # 32 MiB: pages of 4 KiB, or huge ones of 2 MiB
    if found.reasons:
        pytest.skip(str(found.reasons))
    assert found.values["page-faults"] >= 16
    assert found.values["task-clock"] > 1e5
    assert found.running == 1.0


def test_other_threads_count_too() -> None:
    begin, done = threading.Event(), threading.Event()

    def work() -> None:
        begin.wait()
        with mmap.mmap(-1, 2**22) as fresh:  # what malloc gives may have been touched before
            fresh.write(bytes(2**22))
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    with Counters(["page-faults"]) as found:
        begin.set()
        done.wait()
    thread.join()
    if found.reasons:
        pytest.skip(str(found.reasons))
    assert found.values["page-faults"] >= 16


def test_twice_more_work_takes_about_twice_the_instructions() -> None:
    def instructions(n: int) -> float | None:
        with Counters(["instructions", "cycles"]) as found:
            sum(range(n))
        return found.values.get("instructions")

    one, two = instructions(10**6), instructions(2 * 10**6)
    if one is None or two is None:
        pytest.skip("no instructions are counted here")
    assert 1.8 < two / one < 2.2


def test_no_file_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with Counters([*DEFAULT, "task-clock"]):
            pass
    started = Counters(["task-clock"])
    started.start()
    started.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_counts_are_scaled_by_the_time_that_they_ran_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(enabled: int, running: int, *counts: int) -> Counters:
        found = Counters(["instructions", "cycles"])
        monkeypatch.setattr(metrics, "_open", lambda event, thread, leader: os.open(os.devnull, os.O_RDONLY))
        monkeypatch.setattr(metrics, "_threads", lambda: [1])
        monkeypatch.setattr(metrics, "_control", lambda fd, request: None)
        monkeypatch.setattr(os, "read", lambda fd, size: struct.pack("5Q", 2, enabled, running, *counts))
        with found:
            pass
        return found

    found = of(1000, 250, 100, 40)
    assert (found.values, found.running) == ({"instructions": 400.0, "cycles": 160.0}, 0.25)
    never = of(1000, 0, 0, 0)
    assert never.values == {}
    assert "not enough free counters" in never.reasons["cycles"]


def test_refusals_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = tmp_path / "perf_event_paranoid"
    setting.write_text("4\n")
    refused = OSError(errno.EACCES, "Permission denied")
    assert why_not("cycles", refused, setting) == (
        "kernel.perf_event_paranoid is 4: at most 2 permits it (sysctl kernel.perf_event_paranoid=2)"
    )
    setting.write_text("2\n")
    assert "seccomp" in why_not("cycles", refused, setting)
    assert "no perf_event_open" in why_not("cycles", OSError(errno.ENOSYS, "Function not implemented"), setting)
    assert why_not("cycles", OSError(errno.EINVAL, "Invalid argument"), setting) == "perf_event_open: Invalid argument"
    monkeypatch.setattr(metrics.sys, "platform", "darwin")
    with Counters(["cycles"]) as found:
        pass
    assert found.values == {}
    assert found.reasons["cycles"].startswith("not available: hardware counters are read on Linux only, not on darwin")


def test_an_event_that_does_not_exist() -> None:
    with pytest.raises(InvalidArgument, match="'cycle'"):
        Counters(["cycle"])
