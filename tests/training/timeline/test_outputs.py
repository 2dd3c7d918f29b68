"""A timeline as a trace, as pictures and as rows."""

from __future__ import annotations

import gzip
import json
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.training.timeline import Timeline


@pytest.fixture
def taken(clock: Any) -> Timeline:
    with db.timeline() as t:
        for _ in range(2):
            for number, _ in enumerate(t.over([np.zeros((16, 2))] * 30)):
                with t.region("forward"):
                    clock.ms(2)
                    with t.region("attention"):
                        clock.ms(3 + number % 3)
                with t.region("update"):
                    clock.ms(1)
                clock.ms(1)
        worker = threading.Thread(target=t.region("save").__enter__, name="worker")
        worker.start()
        worker.join()
    return t


def events(path: Path) -> list[dict[str, Any]]:
    found = json.loads(path.read_text())
    assert found["displayTimeUnit"] == "ns"
    return found["traceEvents"]


def test_trace_events_nest(taken: Timeline, tmp_path: Path) -> None:
    found = events(taken.chrome_trace(tmp_path / "trace.json"))
    assert {event["ph"] for event in found} == {"M", "X", "C"}
    tracks = defaultdict(list)
    for event in found:
        assert {"ph", "pid", "tid", "name"} <= event.keys()
        if event["ph"] == "X":
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in tracks.values():
        for begin, end in spans:
            assert not any(begin < other < end < last for other, last in spans)
    lengths = {event["name"]: event["dur"] for event in found if event["ph"] == "X"}
    assert lengths["attention"] == 5000.0
    assert {"epoch (training)", "step (training)", "data", "end of the loader (training)"} <= lengths.keys()


def test_trace_counters_and_names(taken: Timeline, tmp_path: Path) -> None:
    found = events(taken.chrome_trace(tmp_path / "trace.json"))
    rates = [event["args"]["samples/s"] for event in found if event["name"] == "throughput"]
    assert len(rates) == 60
    assert rates[0] == pytest.approx(16 / 0.007)
    peaks = [event["args"]["MiB"] for event in found if event["name"] == "peak memory"]
    assert len(peaks) == 30  # steps take 7 to 9 ms, and the system is asked every 10 ms at most
    assert min(peaks) > 1
    assert "MainThread" in {event["args"]["name"] for event in found if event["name"] == "thread_name"}


def test_a_trace_may_be_compressed(taken: Timeline, tmp_path: Path) -> None:
    plain, packed = (taken.chrome_trace(tmp_path / name) for name in ("trace.json", "trace.json.gz"))
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_what_does_not_nest_gets_a_track_of_its_own(clock: Any, tmp_path: Path) -> None:
    def reader() -> Iterator[int]:
        with t.region("reader"):
            yield 0

    with db.timeline() as t:
        with t.region("forward"):
            batches = reader()
            next(batches)
            clock.ms(1)
        clock.ms(1)
        assert next(batches, None) is None
    found = [event for event in events(t.chrome_trace(tmp_path / "trace.json")) if event["name"] == "reader"]
    assert [(event["ph"], event["ts"]) for event in found] == [("b", 0), ("e", 2000)]
    assert found[0]["id"] == found[1]["id"]


def test_a_trace_that_cannot_be_written(taken: Timeline, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"ends in \.json"):
        taken.chrome_trace(tmp_path / "trace.txt")
    with pytest.raises(InvalidArgument, match="cannot write"):
        taken.chrome_trace(tmp_path / "no" / "trace.json")


def test_rows(taken: Timeline) -> None:
    found = taken.result().rows()
    steps = [row for row in found if row["kind"] == "step" and row["ending"] == "done"]
    assert [(row["epoch"], row["step"]) for row in steps] == [(i // 30, i) for i in range(60)]
    inner = [row for row in found if row["name"] == "attention"]
    assert {row["path"] for row in inner} == {"forward/attention"}
    assert [row["duration"] for row in inner[:3]] == [0.003, 0.004, 0.005]
    assert {row["phase"] for row in inner} == {"training"}
    outer = [row for row in found if row["name"] == "forward"]
    assert {row["own"] for row in outer} == {0.002}


def test_a_data_frame(taken: Timeline) -> None:
    pytest.importorskip("pandas")
    frame = taken.to_dataframe()
    assert len(frame) == len(taken.result().rows())
    assert frame[frame.name == "update"].duration.median() == 0.001


def test_a_data_frame_needs_pandas(taken: Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(FrameworkMissing, match="pip install pandas"):
        taken.to_dataframe()


@pytest.mark.parametrize("kind", ["steps", "violin"])
def test_pictures(kind: Any, taken: Timeline, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = taken.plot(tmp_path / "picture.png", kind)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_stack_is_as_high_as_the_steps(taken: Timeline) -> None:
    pytest.importorskip("matplotlib")
    from deep_bench.training import plots

    phase = taken.result()["training"]
    (axes,) = plots._steps_figure(phase).axes
    top = axes.patches[-1].get_data()  # type: ignore[attr-defined]
    assert np.allclose(top.values, phase.durations_ns / 1e6)
    assert axes.get_ylabel() == "time of a step (ms)"


def test_pictures_that_cannot_be_drawn(taken: Timeline, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(InvalidArgument, match="one of steps, violin"):
        taken.plot(tmp_path / "picture.png", "pie")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="one of training"):
        taken.plot(tmp_path / "picture.png", phase="trainning")
    with db.timeline() as t, t.step():
        pass
    with pytest.raises(InvalidArgument, match="no step that counts"):
        t.plot(tmp_path / "picture.png")
