from __future__ import annotations

import os
import time

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument
from deep_bench.measure.timing import Block, choose_batch, sample_block, stamp_overhead_ns


class Counter:
    def __init__(self) -> None:
        self.calls = self.waits = 0

    def __call__(self) -> None:
        self.calls += 1

    def wait(self) -> None:
        self.waits += 1


def test_a_block_has_the_fewest_calls_asked_for_and_waits_after_each() -> None:
    counter = Counter()
    block = sample_block(counter, counter.wait, min_ns=0, min_calls=10)
    assert len(block.ns) == len(block.preempted) == counter.calls == counter.waits == 10
    assert block.ns.dtype == np.int64
    assert block.preempted.dtype == bool
    assert block.resume_ns is None


def test_a_block_lasts_as_long_as_asked_for() -> None:
    begin = time.perf_counter_ns()
    block = sample_block(Counter(), Counter().wait, min_ns=5_000_000, min_calls=1)
    assert time.perf_counter_ns() - begin >= 5_000_000
    assert begin <= block.start_ns
    assert len(block.ns) > 10


def test_a_block_ends_at_its_longest_even_with_too_few_calls() -> None:
    block = sample_block(lambda: time.sleep(0.01), Counter().wait, min_ns=0, min_calls=1000, max_ns=1)
    assert len(block.ns) == 1
    assert block.ns[0] >= 10_000_000


def test_a_batched_sample_covers_several_calls_and_one_wait() -> None:
    counter = Counter()
    block = sample_block(counter, counter.wait, min_ns=0, min_calls=10, batch=4)
    assert (len(block.ns), counter.calls, counter.waits, block.batch) == (3, 12, 3, 4)
    assert np.array_equal(block.calls_ns, block.ns / 4)


def test_the_first_call_after_resuming_is_kept_apart() -> None:
    counter = Counter()
    block = sample_block(counter, counter.wait, min_ns=0, min_calls=10, resumed=True)
    assert (counter.calls, len(block.ns)) == (11, 10)
    assert block.resume_ns is not None


def test_the_timer_of_a_device_replaces_the_stamps() -> None:
    def timer(call) -> int:
        call()
        return 42

    counter = Counter()
    block = sample_block(counter, counter.wait, min_ns=0, min_calls=3, timer=timer)
    assert block.ns.tolist() == [42, 42, 42]
    assert (counter.calls, counter.waits) == (3, 0)
    assert choose_batch(counter, counter.wait, timer) > 1
    assert stamp_overhead_ns(counter.wait, timer) == 42


@pytest.mark.parametrize("threaded", [False, True])
def test_a_sample_is_marked_when_the_kernel_takes_the_cpu_away(threaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    switches = iter([5, 5, 6, 6, 8])
    asked = []

    class Usage:
        def __init__(self) -> None:
            self.ru_nivcsw = next(switches)
            self.ru_nvcsw = 0

    def getrusage(who: int) -> Usage:
        asked.append(who)
        return Usage()

    monkeypatch.setattr(resource, "getrusage", getrusage)
    block = sample_block(Counter(), Counter().wait, min_ns=0, min_calls=4, threaded=threaded)
    assert block.preempted.tolist() == [False, True, False, True]
    assert set(asked) == {resource.RUSAGE_SELF if threaded else resource.RUSAGE_THREAD}


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # another test may have imported what dislikes forks
def test_a_real_preemption_is_seen() -> None:
    def yield_to_another() -> None:
        pid = os.fork()
        if pid == 0:
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                pass
            os._exit(0)
        os.sched_setaffinity(pid, {cpu})
        end = time.monotonic() + 0.15
        while time.monotonic() < end:
            pass
        os.waitpid(pid, 0)

    before = os.sched_getaffinity(0)
    cpu = min(before)
    os.sched_setaffinity(0, {cpu})
    try:
        block = sample_block(yield_to_another, Counter().wait, min_ns=0, min_calls=1)
    finally:
        os.sched_setaffinity(0, before)
    assert block.preempted.tolist() == [True]


def test_cpu_time_leaves_out_what_others_had_but_not_what_was_waited_for() -> None:
    def work() -> None:
        end = time.thread_time_ns() + 2_000_000
        while time.thread_time_ns() < end:
            pass

    block = sample_block(work, Counter().wait, min_ns=0, min_calls=5, cpu_time=True)
    assert block.cpu_ns is not None
    assert (block.cpu_ns >= 2_000_000).all()
    waiting = sample_block(lambda: time.sleep(0.01), Counter().wait, min_ns=0, min_calls=3, cpu_time=True)
    assert (waiting.cpu_ns == waiting.ns).all()
    assert sample_block(work, Counter().wait, min_ns=0, min_calls=1).calls_cpu_ns is None


def test_only_preempted_samples_count_with_their_cpu_time() -> None:
    block = Block(0, 2, np.array([10, 20]), np.array([True, False]), None, np.array([6, 8]))
    assert block.calls_cpu_ns.tolist() == [3.0, 10.0]


def test_only_short_calls_are_batched() -> None:
    assert choose_batch(lambda: time.sleep(1e-5), Counter().wait) == 1
    assert choose_batch(Counter(), Counter().wait) > 1


def test_the_stamps_cost_something() -> None:
    assert stamp_overhead_ns(Counter().wait) > 0


@pytest.mark.parametrize("wrong", [{"min_ns": -1}, {"min_calls": 0}, {"batch": 0}])
def test_senseless_blocks_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="a block of"):
        sample_block(Counter(), Counter().wait, **wrong)


def test_blocks_are_frozen() -> None:
    block = Block(0, 1, np.zeros(1, np.int64), np.zeros(1, bool))
    with pytest.raises(AttributeError):
        block.batch = 2  # type: ignore[misc]
