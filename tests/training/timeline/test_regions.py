"""Regions: nested, entered again, left by exceptions, in several threads, suspended, and refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.training.timeline.phases import SpanRow


def rows(timeline: Any, phase: str = "training") -> dict[str, SpanRow]:
    return {"/".join(row.path): row for row in timeline.result()[phase].rows}


def median_ms(row: SpanRow) -> float:
    assert row.summary is not None
    return row.summary.median / 1e6


def test_own_time_is_what_no_inner_region_has(clock: Any) -> None:
    with db.timeline(warm_up=0) as t, t.step():
        clock.ms(1)
        with t.region("forward"):
            clock.ms(2)
            with t.region("attention"):
                clock.ms(5)
            clock.ms(1)
        clock.ms(1)
    found = rows(t)
    assert list(found) == ["step", "forward", "forward/attention", "not in any region"]
    assert [median_ms(row) for row in found.values()] == [10, 8, 5, 2]
    assert [round(row.share, 6) for row in found.values()] == [1, 0.8, 0.5, 0.2]
    assert [round(row.own_share, 6) for row in found.values()] == [0.2, 0.3, 0.5, 0.2]


def test_one_name_in_two_places_has_two_rows(clock: Any) -> None:
    with db.timeline(warm_up=0) as t, t.step():
        for outer, length in (("encoder", 1), ("decoder", 2)):
            with t.region(outer), t.region("attention"):
                clock.ms(length)
    found = rows(t)
    assert median_ms(found["encoder/attention"]) == 1
    assert median_ms(found["decoder/attention"]) == 2


def test_a_name_entered_several_times_in_a_step(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        for _ in range(3):
            with t.step():
                for length in (1, 2, 3, 4):
                    with t.region("micro-batch"):
                        clock.ms(length)
    row = rows(t)["micro-batch"]
    assert (row.n, row.per_step, row.share, median_ms(row)) == (12, 4, 1, 2.5)


def test_a_name_entered_within_itself(clock: Any) -> None:
    def descend(depth: int) -> None:
        with t.region("tree"):
            clock.ms(1)
            if depth:
                descend(depth - 1)

    with db.timeline(warm_up=0) as t, t.step():
        descend(2)
    found = rows(t)
    assert list(found) == ["step", "tree", "tree/tree", "tree/tree/tree", "not in any region"]
    assert [median_ms(found[name]) for name in list(found)[1:4]] == [3, 2, 1]


def test_what_an_exception_ends_is_kept_apart(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        for number in range(3):
            try:
                with t.step(), t.region("forward"):
                    clock.ms(1)
                    if number == 1:
                        clock.ms(98)
                        raise ArithmeticError
            except ArithmeticError:
                pass
    found = t.result()["training"]
    assert (found.n_steps, found.raised) == (2, 1)
    assert median_ms(rows(t)["forward"]) == 1
    assert "1 step whose batch failed" in t.result().as_text()


def test_an_exception_inside_a_step_that_goes_on(clock: Any) -> None:
    with db.timeline(warm_up=0) as t, t.step():
        try:
            with t.region("read"):
                clock.ms(3)
                raise OSError
        except OSError:
            clock.ms(1)
    row = rows(t)["read"]
    assert (row.n, row.raised, row.share, row.summary) == (0, 1, 0.75, None)
    assert "read: 1 of 1 ended by an exception" in t.result().as_text()


def test_the_exception_that_ends_the_loop_goes_on_and_is_noted() -> None:
    t = db.timeline()
    with pytest.raises(ValueError, match="diverged"), t:
        raise ValueError("diverged")
    assert "the loop ended with ValueError: diverged" in t.result().as_text()


def test_each_thread_has_its_own_regions() -> None:
    barrier = threading.Barrier(3)

    def work() -> None:
        for _ in range(200):
            with t.region("decode"), t.region("resize"):
                pass
        barrier.wait()

    with db.timeline() as t:
        threads = [threading.Thread(target=work, name=f"decoder {i}") for i in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(200):
            with t.step(), t.region("forward"):
                pass
        barrier.wait()
        for thread in threads:
            thread.join()
    found = t.result()
    outside = {row.path: row for row in found.outside}
    assert outside.keys() == {("decode",), ("decode", "resize")}
    assert [(row.n, row.threads) for row in outside.values()] == [(400, 2), (400, 2)]
    assert {thread.name for thread in found.record.threads} == {"MainThread", "decoder 0", "decoder 1"}
    assert found["training"].n_steps == 199
    assert "decode: in 2 threads, whose times add up" in found.as_text()


def test_a_region_of_another_thread_is_noticed() -> None:
    with db.timeline() as t:
        with t.region("mine"):
            pass
        t.flush()
        append = t._keeper.logs[0].pending.append
        for event in (4, 5, 10**15, 10**15):  # what two threads leave that enter at once: both codes, then both stamps
            append(event)
    assert "2 events of thread 'MainThread' were lost: a region was entered in another thread" in " ".join(
        t.result().as_text().split()
    )
    assert [row.n for row in t.result().outside] == [1]


def test_a_suspended_generator_gets_its_own_end(clock: Any) -> None:
    def reader() -> Iterator[int]:
        with t.region("reader"):
            clock.ms(1)
            yield 0
            clock.ms(1)

    with db.timeline(warm_up=0) as t, t.step():
        with t.region("forward"):
            batches = reader()
            next(batches)
            clock.ms(4)
        clock.ms(2)
        assert next(batches, None) is None
    found = rows(t)
    assert (median_ms(found["forward"]), median_ms(found["forward/reader"])) == (5, 8)
    assert "reader: ended after the region they began in" in t.result().as_text()


def test_what_has_not_ended_is_in_no_figure(clock: Any) -> None:
    with db.timeline(warm_up=0) as t:
        with t.step():
            clock.ms(1)
        with t.step(), t.region("forward"):
            found = t.result()
    assert found["training"].n_steps == 1
    assert "2 spans had not ended" in found.as_text()
    assert "goes on" in found.as_text()


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_name_is_a_text(name: Any) -> None:
    with db.timeline() as t, pytest.raises(InvalidArgument, match="a text that is not empty"):
        t.region(name)


def test_names_that_number_their_spans_are_refused() -> None:
    with db.timeline() as t:
        for number in range(1000):
            t.region(f"step {number}")
        with pytest.raises(InvalidArgument, match="name what is done, not which one"):
            t.region("step 1000")
        t.region("step 999")  # one that is known is still taken


def test_a_timeline_that_has_ended_takes_no_more() -> None:
    with db.timeline() as t, t.region("forward"):
        pass
    for use in (lambda: t.region("forward"), t.step, t.epoch, lambda: t.over([]), lambda: t.callback("keras")):
        with pytest.raises(InvalidArgument, match="has ended"):
            use()
    t.close()  # a second time does nothing


@pytest.mark.parametrize("options", [{"warm_up": -1}, {"limit": 0}, {"synchronize": 3}, {"device_memory": "torhc"}])
def test_options_out_of_range(options: Any) -> None:
    with pytest.raises(db.errors.DeepBenchError):
        db.timeline(**options)
