"""What is written down of each call."""

import numpy as np
import pytest

from deep_bench.distributed import Counting, run_local
from deep_bench.distributed.communicators.counting import OPERATIONS, Volume


def called(ranks, function):
    """The counting communicator of each rank after a function was called with it."""

    def run(comm):
        counting = Counting(comm)
        function(counting)
        return counting

    return run_local(ranks, run)


EACH = {
    "broadcast": (lambda c: c.broadcast(np.zeros(100)), 800, 800 * 3 / 4),
    "reduce": (lambda c: c.reduce(np.zeros(100)), 800, 800 * 3 / 4),
    "allreduce": (lambda c: c.allreduce(np.zeros(100)), 800, 2 * 800 * 3 / 4),
    "iallreduce": (lambda c: c.iallreduce(np.zeros(100), np.zeros(100)).wait(), 800, 2 * 800 * 3 / 4),
    "gather": (lambda c: c.gather(np.zeros(100)), 800, 800 * 3 / 4),
    "allgather": (lambda c: c.allgather(np.zeros(100)), 800, 3 * 800),
    "reduce_scatter": (lambda c: c.reduce_scatter(np.zeros((4, 25))), 800, 800 * 3 / 4),
    "alltoall": (lambda c: c.alltoall(np.zeros((4, 25))), 800, 800 * 3 / 4),
    "exchange": (
        lambda c: c.exchange(np.zeros(100), [(c.rank + 1) % 4, (c.rank + 2) % 4], [(c.rank - 1) % 4, (c.rank - 2) % 4]),
        1600,
        1600,
    ),
    "sendrecv": (lambda c: c.sendrecv(np.zeros(100), (c.rank + 1) % 4, np.zeros(100), (c.rank - 1) % 4), 800, 800),
    "barrier": (lambda c: c.barrier(), 0, 0),
    "split": (lambda c: c.split(0), 0, 0),
}


@pytest.mark.parametrize("operation", EACH)
def test_payload_and_what_the_usual_algorithm_moves(operation):
    call, payload, moved = EACH[operation]
    for counting in called(4, call):
        total = counting.totals()[operation]
        assert (total.calls, total.payload, total.moved) == (1, payload, moved)
        assert counting.volume() == Volume(payload, moved, None)
        assert str(counting.volume()).endswith("on the wire not available")


def test_scatter_counts_the_rows_on_the_root():
    found = called(4, lambda c: c.scatter(np.zeros((4, 100)) if c.rank == 0 else None, np.zeros(100)))
    assert [c.totals()["scatter"].payload for c in found] == [3200, 0, 0, 0]
    assert [c.totals()["scatter"].moved for c in found] == [600.0] * 4


def test_messages_are_counted_where_they_come_and_where_they_go():
    def pass_on(c):
        if c.rank == 0:
            c.send(np.zeros(10), 1)
            c.isend(np.zeros(3, np.int8), 1, 2).wait()
        else:
            c.recv(np.zeros(50))
            begun = c.irecv(np.zeros(9, np.int8), tag=2)
            begun.wait()
            begun.wait()
            assert begun.test()

    sender, receiver = called(2, pass_on)
    assert {name: (t.calls, t.payload) for name, t in sender.totals().items()} == {"send": (1, 80), "isend": (1, 3)}
    assert {name: (t.calls, t.payload) for name, t in receiver.totals().items()} == {"recv": (1, 80), "irecv": (1, 3)}
    assert receiver.calls["peer"].tolist() == [0, 0], "ANY is written down as who it was"
    assert receiver.volume().payload == 0


def test_calls_are_arrays_in_the_order_of_their_begin():
    def some(c):
        begun = c.iallreduce(np.zeros(4), np.zeros(4))
        c.barrier()
        c.exchange(np.zeros(1), [0, 1] if c.rank == 2 else [], [2] if c.rank < 2 else [])
        begun.wait()

    counting = called(3, some)[2]
    calls = counting.calls
    names = [OPERATIONS[number] for number in calls["operation"]]
    assert names == ["iallreduce", "barrier", "exchange"]
    assert counting.log.peers(calls["peer"][2]) == (0, 1)
    assert counting.log.peers(calls["peer"][1]) == ()
    assert (np.diff(calls["start_ns"]) > 0).all()
    assert (calls["inside_ns"] <= calls["duration_ns"]).all()
    assert calls["duration_ns"][0] > calls["inside_ns"][0], "what went on meanwhile was not spent inside"


def test_what_nobody_waited_for_shows():
    waiting = []

    def forgets(c):
        if c.rank == 0:
            waiting.append(c.irecv(np.zeros(1), 1))

    counting = called(2, forgets)[0]
    assert counting.calls["duration_ns"].tolist() == [-1]


def test_groups_write_into_the_same_log():
    def inside(c):
        c.split(c.rank % 2).allreduce(np.zeros(4, np.float32))

    counting = called(4, inside)[0]
    calls = counting.calls
    assert [OPERATIONS[number] for number in calls["operation"]] == ["split", "allreduce"]
    assert calls["group"].tolist() == [0, 1]
    assert counting.totals()["allreduce"].moved == 16, "2 n (p - 1) / p with two ranks"


def test_clear_forgets():
    counting = called(2, lambda c: c.barrier())[0]
    counting.clear()
    assert counting.totals() == {}


def test_bytes_on_the_wire_are_those_since_it_was_made(monkeypatch):
    def run(comm):
        sent = iter([100, 350])
        monkeypatch.setattr(comm, "wire_bytes", lambda: next(sent))
        return Counting(comm).volume()

    assert run_local(1, run)[0].wire == 250
