"""What the report says, and that it can be computed again from the record."""

from __future__ import annotations

import io
import re
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.training.timeline import record


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # a narrower table has its figures below each other


def loop(clock: Any, forward_ms: Any, **options: Any) -> Any:
    with db.timeline(**options) as t:
        for number, _ in enumerate(t.over([np.zeros((8, 2))] * len(forward_ms))):
            with t.region("forward"):
                clock.ms(forward_ms[number])
            clock.ms(1)
    return t


def test_the_table(clock: Any) -> None:
    t = loop(clock, [30, *[3.0] * 400])
    out = io.StringIO()
    t.report(out)
    text = out.getvalue()
    assert text.startswith("training: 1 epoch, 401 steps\n")
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in text.splitlines() if line.startswith("│")]
    assert cells == [
        ["step", "1.00", "4.000 ms (4.000 to 4.000 ms)", "4.000 ms", "4.000 ms", "100.0 %", "25.0 %"],
        ["data", "1.00", "0 ns (0 to 0 ns)", "0 ns", "0 ns", "0.0 %", ""],
        ["forward", "1.00", "3.000 ms (3.000 to 3.000 ms)", "3.000 ms", "3.000 ms", "75.0 %", ""],
        ["not in any region", "1.00", "1.000 ms (1.000 to 1.000 ms)", "1.000 ms", "1.000 ms", "25.0 %", ""],
    ]
    assert "first step, kept apart: 31.00 ms (7.75 times the median)" in text
    assert "throughput: 2000 samples a second" in text
    assert "peak memory of the process:" in text
    assert "looking cost" in text
    assert not re.search(r"looking cost \S*e[+-]", text)
    assert max(map(len, text.splitlines())) <= 160


def test_quantiles_only_where_there_are_enough_steps(clock: Any) -> None:
    row = loop(clock, [3.0] * 5)
    summary = row.result()["training"].rows[0].summary
    assert (summary.n, summary.interval, summary.percentiles["p90"]) == (4, None, None)
    assert row.result().as_text().count("too few") == 4 * 3


def test_drift_is_named(clock: Any) -> None:
    text = loop(clock, np.linspace(10, 20, 300)).result().as_text()
    assert "step: drifted by" in text
    assert "forward: drifted by" in text


def test_several_modes_are_named(clock: Any) -> None:
    rng = np.random.default_rng(0)
    times = np.where(rng.random(600) < 0.5, 10, 30) * rng.normal(1, 0.01, 600)
    text = loop(clock, times).result().as_text()
    assert re.search(r"forward: times cluster at (9\.9|10\.0)\d+ ms, (29\.9|30\.0)", text)


def test_the_first_steps_of_later_epochs_are_named(clock: Any) -> None:
    with db.timeline() as t:
        for _ in range(3):
            for number, _ in enumerate(t.over(range(20))):
                clock.ms(1 if number else 9)
    assert "the first step of a later epoch takes 9.00 times the median; it counts" in t.result().as_text()


def test_a_step_that_outweighs_all_others_is_named(clock: Any) -> None:
    assert "the longest step took 501.0 ms" in loop(clock, [3.0] * 60 + [500.0]).result().as_text()
    assert "the longest step" not in loop(clock, [3.0] * 60).result().as_text()


def test_many_epochs_are_summarised(clock: Any) -> None:
    with db.timeline() as t:
        for _ in range(20):
            for _ in t.over(range(2)):
                clock.ms(1)
    text = t.result().as_text()
    assert "epochs: median 2.000 ms, 2.000 to 2.000 ms" in text
    assert "its first step" not in text


def test_several_warm_up_steps(clock: Any) -> None:
    t = loop(clock, [30, 20, *[3.0] * 10], warm_up=2)
    assert t.result()["training"].n_steps == 10
    assert "first 2 steps, kept apart: 31.00 ms, 21.00 ms" in t.result().as_text()


def test_regions_end_when_the_device_is_done(clock: Any) -> None:
    with db.timeline(warm_up=0, synchronize=lambda: clock.ms(5)) as t, t.step(), t.region("forward"):
        clock.ms(1)
    rows = {row.name: row for row in t.result()["training"].rows}
    assert (rows["forward"].summary.median, rows["step"].summary.median) == (6e6, 11e6)
    assert "times are of finished work" in t.result().as_text()


def test_on_an_asynchronous_device_times_are_of_launching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", ModuleType("cupy"))
    with db.timeline() as t:
        pass
    assert "times are of launching, not of finished work" in t.result().as_text()
    assert t.result().record.asynchronous["cupy"] == "CUDA"


def test_torch_waits_and_says_what_it_has_not() -> None:
    torch = pytest.importorskip("torch")
    with db.timeline(synchronize="torch", warm_up=0) as t, t.step(), t.region("product"):
        torch.ones(2) @ torch.ones(2)
    assert "times are of finished work: torch waited" in t.result().as_text()
    if torch.cuda.is_available():
        pytest.skip("what a CPU says is tested where there is no CUDA device")
    assert "torch" not in t.result().record.asynchronous
    with pytest.raises(Unsupported, match="no CUDA device"):
        db.timeline(device_memory="torch")


def test_device_memory_is_noted(clock: Any) -> None:
    used = iter(range(0, 10 * 2**20, 2**20))
    with db.timeline(warm_up=0, device_memory=lambda: next(used)) as t:
        for _ in range(3):
            with t.step():
                clock.ms(1)
    found = t.result()["training"].noted("device memory")
    assert (found / 2**20).tolist() == [1, 2, 3]
    assert "device memory in use at steps' ends: 3 MiB (1 MiB after the first step)" in t.result().as_text()


def test_device_memory_must_be_a_number() -> None:
    with pytest.raises(InvalidArgument, match="whole number of bytes"):
        db.timeline(device_memory=lambda: "much")  # type: ignore[arg-type,return-value]


def test_beyond_the_limit_events_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with db.timeline(limit=20) as t:
        for _ in range(5):
            with t.region("kept"):
                pass
        t.flush()
        for _ in range(8):
            with t.region("lost"):
                pass
    assert t.result().record.lost == 16
    assert [(row.name, row.n) for row in t.result().outside] == [("kept", 5)]
    assert "the last 16 events were beyond the limit" in t.result().as_text()


def test_packing_while_a_region_is_open(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        for _ in range(10):
            with t.step():
                clock.ms(1)
                t.flush()
                with t.region("forward"):
                    t.flush()
                    clock.ms(2)
    assert t.result()["training"].durations_ns.tolist() == [3_000_000] * 10


def test_lists_are_packed_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "PERIOD_S", 0.001)
    monkeypatch.setattr(record, "MOST_PENDING", 100)
    with db.timeline() as t:
        entered = 0
        while not t._keeper.logs[0].blocks:
            with t.region("forward"):
                entered += 1
    assert [row.n for row in t.result().outside] == [entered]


def test_looking_cost_is_measured() -> None:
    with db.timeline() as t:
        pass
    cost = t.result().record.cost
    assert cost is not None
    assert 0 < cost.shown < 1e6
    assert 0 < cost.in_a_row < 1e6
    assert 0 < cost.step < 1e9
