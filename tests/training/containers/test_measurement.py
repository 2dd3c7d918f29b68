"""What measuring containers finds out; no time is asserted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.training.containers import memory
from deep_bench.training.containers.measurement import COLD, Reading, ReadingSubject, measure_reading, why_not
from tests.training.containers.examples import images, written

pytest.importorskip("PIL")


def test_each_call_reads_the_next_batch(tmp_path: Path) -> None:
    path = written(tmp_path, "npy", images(4, 5, count=10))
    reading = Reading(str(path), batch=4)
    assert reading.prepare()["batch"] == 4
    calls = reading.calls()
    labels = [calls["sequential"]()["label"].tolist() for _ in range(3)]  # type: ignore[index]
    assert labels == [[0, 1, 2, 0], [1, 2, 0, 1], [0, 1, 2, 0]]  # two full batches, and the first again
    batch = calls["random"]()
    assert batch["image"].shape == (4, 4, 5)  # type: ignore[index]


def test_cold_calls_read_the_same_as_warm_ones(tmp_path: Path) -> None:
    path = written(tmp_path, "tar", images(4, 5, count=10))
    reading = Reading(str(path), batch=4)
    reason = reading.prepare()["not cold"]
    calls = reading.calls()
    assert {"fetching", "decoding"} <= set(calls)
    if reason:
        pytest.skip(f"the files cannot be taken out of the cache here: {reason}")
    warm = calls["sequential"]()
    calls["sequential"]()
    reading.before["sequential" + COLD]()
    cold = calls["sequential" + COLD]()
    assert np.array_equal(warm["image"], cold["image"])  # type: ignore[index]


def test_why_a_set_is_not_read_from_the_disk(tmp_path: Path) -> None:
    assert why_not(()) == "it has no files"
    (tmp_path / "empty").touch()
    assert why_not([tmp_path / "empty"]) != ""


def test_a_measurement(tmp_path: Path) -> None:
    path = written(tmp_path, "npy", images(4, 5, count=10))
    empty = written(tmp_path, "npy", memory({"x": np.zeros((0, 3))}), "empty")
    subjects = [
        ReadingSubject("file", str(path)),
        ReadingSubject("memory", str(path), memory=True),
        ReadingSubject("none", str(empty)),
    ]
    found = measure_reading(subjects, batch=4, budget_s=1.0, ci_width=0.9, in_process=True)
    file, arrays, none = found.latencies
    assert {"sequential", "random"} <= set(file.calls)
    assert set(arrays.calls) == {"sequential", "random"}
    assert arrays.not_cold == "it has no files"
    figures = file.calls["sequential"]
    assert figures.samples_per_s == pytest.approx(4 / figures.median_ns * 1e9)
    assert "has no samples" in none.error
    assert found.latencies[0].as_json()["calls"]["random"]["n"] >= 1
    with pytest.raises(InvalidArgument, match="batches of 0"):
        measure_reading(subjects, batch=0)
