"""Messages from rank to rank, and what goes on meanwhile."""

from __future__ import annotations

from functools import reduce
from time import monotonic

import numpy as np

from deep_bench.distributed.communicators.communicator import ANY, Communicator, Request
from deep_bench.testing.communicator_checks.values import DTYPES, extremes, neighbours, same, same_bits, values

_PATIENCE_S = 20.0
_LOOKS = 1000
"""How often a rank that holds a barrier looks whether somebody has left it."""


def keeps_tags_and_order(comm: Communicator) -> None:
    """Messages with one tag arrive in their order; those with another do not get in between."""
    if comm.size == 1:
        return
    to, source = neighbours(comm)
    sent = [np.array([100 * comm.rank + 10 * tag + i]) for i in range(3) for tag in (1, 2)]
    begun = [comm.isend(x, to, 1 + number % 2) for number, x in enumerate(sent)]
    receipts = {}
    for tag in (2, 1):
        for i in range(3):
            out = np.zeros(1, np.int64)
            receipts[tag, i] = (int(out[0]), comm.recv(out, source, tag), out)
    posted = [(np.zeros(1, np.int64), value) for value in range(4)]
    waiting = [comm.irecv(out, source, 5) for out, _ in posted]
    for _, value in posted:
        comm.send(np.array([value]), to, 5)
    for request in [*reversed(waiting), *begun]:
        request.wait()
    for (tag, i), (_, came, out) in receipts.items():
        assert int(out[0]) == 100 * source + 10 * tag + i, f"message {i} with tag {tag}: {int(out[0])}"
        assert (came.source, came.tag, came.elements) == (source, tag, 1), (
            f"{came} of message {i} with tag {tag} from {source}"
        )
    for out, value in posted:
        assert int(out[0]) == value, f"receive {value} of four that were begun first got message {int(out[0])}"


def tells_distant_tags_apart(comm: Communicator) -> None:
    """Tags that have the same last bits, or digits; and messages that wait while operations with tags of their own go on."""
    if comm.size == 1:
        return
    to, source = neighbours(comm)
    tags = [0, 1, 2, 3, *(3 + 2**k for k in range(2, 20)), *(3 + 10**k for k in range(1, 6))]
    begun = [comm.isend(np.array([1000 * comm.rank + tag]), to, tag) for tag in tags]
    mine = np.array([-1])
    begun_sum = np.zeros(1, np.int64)
    comm.iallreduce(mine, begun_sum).wait()
    results: dict[str, tuple[np.ndarray | None, int]] = {
        "allreduce": (comm.allreduce(mine), -comm.size),
        "iallreduce": (begun_sum, -comm.size),
        "alltoall": (comm.alltoall(np.full((comm.size, 1), -1)), -1),
    }
    for root in range(comm.size):
        rows = np.full((comm.size, 1), -1) if comm.rank == root else None
        results |= {
            f"broadcast from {root}": (comm.broadcast(mine.copy(), root), -1),
            f"gather to {root}": (comm.gather(mine, root), -1),
            f"scatter from {root}": (comm.scatter(rows, np.zeros(1, np.int64), root), -1),
        }
    came = {}
    for tag in reversed(tags):
        out = np.zeros(1, np.int64)
        came[tag] = (comm.recv(out, source, tag), int(out[0]))
    for request in begun:
        request.wait()
    for tag, (received, number) in came.items():
        assert (number, received.tag) == (1000 * source + tag, tag), f"tag {tag}: {received} with {number} from {source}"
    for name, (result, expected) in results.items():
        assert result is None or (result == expected).all(), f"{name} took a message with a tag of a user: {result}"


def keeps_every_bit(comm: Communicator) -> None:
    """The largest and smallest numbers, -0.0 and the bits of NaNs arrive as they were sent, however they are sent."""
    to, source = neighbours(comm)
    outcomes = []
    for number, dtype in enumerate(DTYPES):
        x = extremes(dtype)
        got, buffer = np.zeros_like(x), x.copy() if comm.rank == number % comm.size else np.zeros_like(x)
        rows, place = np.stack([x] * comm.size), np.zeros_like(x)
        pieces = {
            "broadcast": comm.broadcast(buffer, number % comm.size),
            "allgather": comm.allgather(x)[source],
            "allgather with counts": comm.allgather(x, [x.size] * comm.size)[: x.size],
            "alltoall": comm.alltoall(rows)[source],
            "scatter": comm.scatter(rows if comm.rank == 0 else None, place),
        }
        gathered = comm.gather(x)
        if gathered is not None:
            pieces["gather"] = gathered[source]
        if comm.size > 1:
            begun = comm.irecv(got, source, 8)
            comm.isend(x, to, 8).wait()
            begun.wait()
            pieces["a message"] = got
        outcomes.append((x, pieces))
    for x, pieces in outcomes:
        for operation, came in pieces.items():
            same_bits(came, x, f"{operation} of {x.dtype}")


def waits_for_everyone(comm: Communicator) -> None:
    """Nobody leaves a barrier before the last one has come: what was sent before it is there after it.

    One rank after the other comes last, and looks for the message that the next rank sends after the barrier.
    """
    out = np.zeros(1, np.int64)
    early_ranks: list[int] = []
    for last in range(comm.size):
        if comm.rank == last:
            for _ in range(comm.size - 1):  # all others have come to the barrier, or gone through it
                comm.recv(out, ANY, 10)
            early = comm.irecv(out, (last + 1) % comm.size, 11) if comm.size > 1 else None
            for _ in range(_LOOKS):
                if early is not None and early.test():
                    early_ranks.append(last)
                    break
            comm.barrier()
            if early is not None:
                early.wait()
        else:
            comm.send(np.array([comm.rank]), last, 10)
            comm.barrier()
            if comm.rank == (last + 1) % comm.size:
                comm.send(np.array([comm.rank]), last, 11)
    assert not early_ranks, f"rank {(comm.rank + 1) % comm.size} left a barrier to which rank {comm.rank} had not come"


def receives_from_anyone(comm: Communicator) -> None:
    """``ANY`` tells who sent, keeps each sender's order, and leaves out of ``out`` what a shorter message has not."""
    senders = range(1, comm.size)
    receipts = []
    if comm.rank == 0:
        for _ in range(2 * len(senders)):
            out = np.full(6, -1, np.int64)
            receipts.append((comm.recv(out, ANY, 9), out))
    else:
        for number in range(2):
            comm.send(np.array([comm.rank] * (number + 2)), 0, 9)
    comm.barrier()
    for sender in senders if comm.rank == 0 else ():
        sender_receipts = [(came, out) for came, out in receipts if came.source == sender]
        assert [came.elements for came, _ in sender_receipts] == [2, 3], (
            f"from rank {sender}: {[came for came, _ in sender_receipts]}"
        )
        for came, out in sender_receipts:
            same(out, np.array([sender] * came.elements + [-1] * (6 - came.elements)), f"a message from rank {sender}")


def goes_on_meanwhile(comm: Communicator) -> None:
    """Several requests at once, asked for and waited for in another order; waiting twice does nothing more."""
    to, source = neighbours(comm)
    xs, outs = [values(comm.rank, 9, salt=i) for i in range(3)], [np.zeros(9, np.float32) for _ in range(3)]
    begun = [comm.iallreduce(x, out) for x, out in zip(xs, outs, strict=True)]
    got: dict[int, np.ndarray] = {}
    messages: list[Request] = []
    if comm.size > 1:
        got = {tag: np.zeros(4, np.float32) for tag in (1, 2)}
        messages = [comm.irecv(out, source, tag) for tag, out in got.items()]
        messages += [comm.isend(values(comm.rank, 4, salt=tag), to, tag) for tag in got]
    until = monotonic() + _PATIENCE_S
    while not all(request.test() for request in [*messages, *begun]) and monotonic() < until:
        pass
    for request in [*reversed(begun), *messages]:
        request.wait()
    came = messages[0].wait() if messages else None
    for i, out in enumerate(outs):
        expected = reduce(np.add, [values(rank, 9, salt=i) for rank in range(comm.size)])
        same(out, expected, f"iallreduce {i} of three at once")
    for tag, out in got.items():
        same(out, values(source, 4, salt=tag), f"a message with tag {tag}")
    assert not messages or (came is not None and came.source == source), f"waiting for a message again gave {came}"


def exchanges(comm: Communicator) -> None:
    """One array to several ranks, and one from each of several."""
    to, source = neighbours(comm)
    peers = sorted({to, source} - {comm.rank})
    arrays = comm.exchange(values(comm.rank, (2, 2)), peers, peers, 6)
    assert sorted(arrays) == peers, f"from ranks {sorted(arrays)} instead of {peers}"
    for rank, x in arrays.items():
        same(x, values(rank, (2, 2)), f"what came from rank {rank}")
