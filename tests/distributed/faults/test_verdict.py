"""Which rank is at fault, from what each told and when; and what the message says."""

from __future__ import annotations

from typing import Any

import pytest

from deep_bench.distributed.communicators.counting import Counting
from deep_bench.distributed.communicators.local import LocalCommunicator
from deep_bench.distributed.faults import (
    GRACE_S,
    Failure,
    Fault,
    PlaceFinder,
    RankPlace,
    RankStatus,
    Verdicts,
    failure_of,
    fault_message,
    of_communication,
)

PATIENCE_S = 60.0
WAITS = RankPlace(12, "allreduce", PATIENCE_S + 5)
BUSY = RankPlace(12, "", PATIENCE_S + 6, "loss.py:7, forward")
FINE = RankPlace(12, "allreduce", 1.0)


def judged(*places: RankPlace | None, now: float = 100.0) -> tuple[Verdicts, Fault | None]:
    """Ranks that have just told their places; ``None`` for one that has told nothing since the beginning."""
    verdicts = Verdicts(
        {rank: RankStatus(f"n{rank}", 40 + rank, 0.0) for rank in range(len(places))}, patience_s=PATIENCE_S, every_s=0.5
    )
    for rank, place in enumerate(places):
        if place is not None:
            verdicts.heard_from(rank, place, now)
    return verdicts, verdicts.fault(now)


def told(verdicts: Verdicts, fault: Fault | None, **more: Any) -> str:
    assert fault is not None
    return fault_message(fault, verdicts.ranks, len(verdicts.ranks), **more)


def test_nothing_is_wrong_while_all_get_on_or_nobody_waits() -> None:
    for places in ((FINE, FINE), (FINE, BUSY), (BUSY, BUSY), (WAITS, FINE)):
        assert judged(*places)[1] is None


def test_who_hangs_is_told_with_those_who_wait() -> None:
    verdicts, fault = judged(WAITS, BUSY, WAITS)
    assert fault == Fault("hangs", (1,), BUSY.since_s, {0: "allreduce", 2: "allreduce"})
    assert told(verdicts, fault).startswith(
        "rank 1 of 3 on n1 hangs: for 66 s, after 12 steps, in loss.py:7, forward, while ranks 0, 2 wait in allreduce\n"
    )


def test_all_that_wait_for_each_other_are_told_by_operation() -> None:
    verdicts, fault = judged(WAITS, RankPlace(12, "recv", PATIENCE_S + 1))
    assert "the 2 ranks wait for each other, for 61 s: rank 0 waits in allreduce and rank 1 waits in recv" in told(
        verdicts, fault
    )
    verdicts.left(0)
    assert told(verdicts, verdicts.fault(100.0)).startswith("rank 0 of 2 on n0 came to its end, while for 61 s rank 1 waits")
    verdicts.heard_from(1, BUSY, 100.0)
    assert (
        "rank 1 of 2 on n1 hangs: for 66 s, after 12 steps, in loss.py:7, forward, while rank 0 waits in the end of all"
        in (told(verdicts, verdicts.fault(100.0)))
    )


def test_one_that_stopped_is_told_but_nobody_after_a_sleep_of_the_one_that_looks() -> None:
    verdicts, fault = judged(WAITS, None)
    assert fault == Fault("silent", (1,), 100.0)
    assert "has not answered for 100 s" in told(verdicts, fault)
    verdicts, fault = judged(FINE, FINE)
    assert (fault, verdicts.fault(500.0)) == (None, None)
    verdicts.heard_from(0, FINE, 565.0)
    assert verdicts.fault(500.5) is None
    for now in range(501, 562):
        verdicts.fault(float(now))
    assert verdicts.fault(561.5) == Fault("silent", (1,), 62.0)


def test_a_rank_that_is_gone_is_the_cause_of_what_others_raise() -> None:
    verdicts, _ = judged(FINE, FINE, FINE)
    verdicts.failed(0, Failure("disturbed", "Connection closed by peer"), 101.0)
    assert verdicts.fault(101.0) is None
    verdicts.gone(2)
    fault = verdicts.fault(101.1)
    assert fault == Fault("lost", (2,))
    text = told(verdicts, fault, out_of_memory=True, resume="go on with --resume")
    assert text.startswith("rank 2 of 3 on n2 was killed, it seems for lack of memory, last heard of after 12 steps")
    assert text.endswith("What to do: go on with --resume")
    verdicts.forget(2)
    assert verdicts.fault(101.2) is None
    fault = verdicts.fault(101.0 + GRACE_S)
    assert "rank 0 of 2 on n0 lost the others, after 12 steps: Connection closed" in told(verdicts, fault)
    verdicts.failed(1, Failure("memory", "MemoryError: 8 TiB"), 104.0)
    assert "rank 1 of 2 on n1 ran out of memory, after 12 steps: MemoryError: 8 TiB" in told(verdicts, verdicts.fault(104.0))


def test_the_first_that_fails_by_itself_is_told() -> None:
    verdicts, _ = judged(FINE, FINE)
    verdicts.failed(1, Failure("raised", "ValueError: no"), 101.0)
    verdicts.failed(0, Failure("raised", "ValueError: no"), 101.5)
    assert verdicts.fault(102.0) == Fault("raised", (1,))


def test_an_exception_out_of_a_communicator_is_told_from_others() -> None:
    comm = Counting(LocalCommunicator())
    kinds = []
    for call in (lambda: comm.send(None, 0), lambda: [][1], lambda: (_ for _ in ()).throw(MemoryError)):  # type: ignore[arg-type]
        with pytest.raises((AttributeError, IndexError, MemoryError)) as caught:
            list(call())  # type: ignore[call-overload]
        kinds.append(failure_of(caught.value, "", "", disturbed=of_communication(caught.value)).kind)
    assert kinds == ["disturbed", "raised", "memory"]


def test_a_place_lasts_until_a_step_or_an_operation_is_over() -> None:
    where, calls = PlaceFinder(), [0]
    where.step, where.calls = lambda: 3, lambda: calls[0]
    first, second = where.place(), where.place()
    calls[0] += 1
    third = where.place()
    assert first.since_s == third.since_s == 0 < second.since_s
    assert third.step == 3
    assert "faults.py" in third.line
