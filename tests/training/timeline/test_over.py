"""Loops over a loader: epochs, steps, samples; left early, failing, empty, nested."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.training.timeline.stamps import DONE, LEFT, RAISED


def batches(clock: Any, n: int, waiting: float = 1) -> Iterator[np.ndarray]:
    for _ in range(n):
        clock.ms(waiting)
        yield np.zeros((32, 3))


def test_waiting_is_a_region_and_each_batch_a_step(clock: Any) -> None:
    with db.timeline(warm_up=1) as t:
        for epoch in range(2):
            for number, _ in enumerate(t.over(batches(clock, 3), "data")):
                with t.region("forward"):
                    clock.ms(100 if (epoch, number) == (0, 0) else 3)
            clock.ms(7)
    found = t.result()["training"]
    assert found.warm_up == [0.101]
    assert found.durations_ns.tolist() == [4_000_000] * 5
    assert {name: times.tolist() for name, times in found.split_ns().items()} == {
        "data": [1_000_000] * 5,
        "forward": [3_000_000] * 5,
        "not in any region": [0] * 5,
    }
    assert found.throughput == pytest.approx(32 / 0.004)
    assert [(e.n_steps, e.samples, e.ending) for e in found.epochs] == [(3, 96, DONE)] * 2
    assert [e.seconds for e in found.epochs] == [0.109, 0.012]
    assert [e.first_step for e in found.epochs] == [0.101, 0.004]


def test_a_loop_left_early(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        for number, _ in enumerate(t.over(batches(clock, 9))):
            clock.ms(1)
            if number == 2:
                break
    found = t.result()["training"]
    assert (found.n_steps, found.left, found.raised) == (2, 1, 0)
    assert [epoch.ending for epoch in found.epochs] == [LEFT]
    assert "1 step left early" in t.result().as_text()


def test_a_body_that_fails(clock: Any) -> None:
    def loop() -> None:
        with t:
            for number, _ in enumerate(t.over(batches(clock, 9))):
                with t.region("forward"):
                    if number == 4:
                        raise KeyError("label")

    t = db.timeline(warm_up=0)
    with pytest.raises(KeyError):
        loop()
    found = t.result()["training"]
    assert (found.n_steps, found.left) == (4, 1)
    assert t.result().spans.open == 0


def test_a_loader_that_fails(clock: Any) -> None:
    def failing() -> Iterator[np.ndarray]:
        yield from batches(clock, 2)
        raise OSError("truncated")

    t = db.timeline(warm_up=0)
    with t, pytest.raises(OSError, match="truncated"):
        list(t.over(failing()))
    found = t.result()["training"]
    assert (found.n_steps, found.raised) == (2, 1)
    assert [epoch.ending for epoch in found.epochs] == [RAISED]


def test_an_empty_loader() -> None:
    with db.timeline() as t:
        assert list(t.over([])) == []
    found = t.result()["training"]
    assert (found.n_steps, found.warm_up, [e.n_steps for e in found.epochs]) == (0, [], [0])
    assert "too few to say more" in t.result().as_text()


def test_a_timeline_without_steps() -> None:
    with db.timeline() as t, t.region("alone"):
        pass
    assert list(t.result()) == []
    assert [row.name for row in t.result().outside] == ["alone"]
    with pytest.raises(InvalidArgument, match="no step"):
        t.result().phase()


def test_nothing_at_all() -> None:
    with db.timeline() as t:
        pass
    assert (len(t.result()), t.result().outside, t.result().rows()) == (0, [], [])
    assert t.result().as_text().startswith("times are of ")


def test_evaluation_within_a_step_is_a_phase_of_its_own_and_a_part_of_the_step(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        for _ in t.over(batches(clock, 2), "data"):
            for _ in t.over(batches(clock, 3), "validation data", phase="validation"):
                clock.ms(1)
        for _ in t.over(batches(clock, 4), "validation data", phase="validation"):
            clock.ms(2)
    found = t.result()
    assert (found["training"].n_steps, found["validation"].n_steps) == (2, 2 * 3 + 4)
    assert [(epoch.n_steps, epoch.samples) for epoch in found["validation"].epochs] == [(3, 96), (3, 96), (4, 128)]
    rows = [(row.name, row.per_step, row.n) for row in found["training"].rows]
    assert rows[2:5] == [("epoch of validation", 1, 2), ("step of validation", 3, 6), ("validation data", 3, 6)]
    assert [(row.name, row.n) for row in found["validation"].rows[:2]] == [("step", 10), ("validation data", 10)]
    assert {name: times.tolist() for name, times in found["training"].split_ns().items()} == {
        "data": [1_000_000] * 2,
        "epoch of validation": [6_000_000] * 2,
        "not in any region": [0] * 2,
    }
    assert found["training"].durations_ns.tolist() == [7_000_000] * 2
    assert found["validation"].durations_ns.tolist() == [2_000_000] * 6 + [3_000_000] * 4
    steps = [row for row in found.rows() if row["kind"] == "step" and row["ending"] == "done"]
    assert sorted(row["step"] for row in steps if row["phase"] == "validation") == list(range(10))
    epochs = [(row["phase"], row["epoch"], row["step"]) for row in found.rows() if row["kind"] == "epoch"]
    assert sorted(epochs) == [("training", 0, None), *(("validation", number, None) for number in range(3))]


def test_the_same_phase_within_a_step_keeps_its_samples(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        for _ in t.over(batches(clock, 2), samples=5):
            list(t.over(batches(clock, 1), samples=7))
    samples = t.result()["training"].samples
    assert samples is not None
    assert samples.tolist() == [5, 5]


def test_a_loader_can_be_iterated_again_and_has_its_length() -> None:
    with db.timeline() as t:
        loop = t.over([1, 2, 3])
        assert len(loop) == 3
        assert [list(loop) for _ in range(2)] == [[1, 2, 3]] * 2
    assert len(t.result()["training"].epochs) == 2
    with db.timeline() as t, pytest.raises(TypeError):
        len(t.over(iter([1])))


def test_samples_by_function_and_unknown() -> None:
    with db.timeline(warm_up=0) as t:
        for _ in t.over(["ab", "cde"], samples=len):
            pass
        for _ in t.over(["ab", "cde"], phase="unknown"):
            pass
    samples = t.result()["training"].samples
    assert samples is not None
    assert samples.tolist() == [2, 3]
    assert t.result()["unknown"].throughput is None
    assert "batches did not say how many samples" in t.result().as_text()


def test_a_bad_name_is_refused_before_the_loop() -> None:
    with db.timeline() as t, pytest.raises(InvalidArgument):
        t.over([1], "")


def test_steps_without_a_loader(clock: Any) -> None:
    with db.timeline(warm_up=0) as t, t.epoch():
        for _ in range(4):
            with t.step(samples=10), t.region("play"):
                clock.ms(5)
    found = t.result()["training"]
    assert (found.n_steps, found.throughput) == (4, 2000)
    assert [(e.n_steps, e.samples) for e in found.epochs] == [(4, 40)]
