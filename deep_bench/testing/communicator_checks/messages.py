"""Messages from rank to rank, what goes on meanwhile, and what is refused before anything is sent.

Some are large enough for a library's other protocols, with one element more than a round size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial, reduce
from time import monotonic
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.distributed.communicators.communicator import ANY, Communicator, Request
from deep_bench.testing.communicator_checks.values import (
    DTYPES,
    check_same,
    extremes,
    later,
    neighbours,
    reduced,
    refused,
    same_bits,
    values,
)

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
            check_same(out, np.array([sender] * came.elements + [-1] * (6 - came.elements)), f"a message from rank {sender}")


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
        check_same(out, expected, f"iallreduce {i} of three at once")
    for tag, out in got.items():
        check_same(out, values(source, 4, salt=tag), f"a message with tag {tag}")
    assert not messages or (came is not None and came.source == source), f"waiting for a message again gave {came}"


def exchanges(comm: Communicator) -> None:
    """One array to several ranks, and one from each of several."""
    to, source = neighbours(comm)
    peers = sorted({to, source} - {comm.rank})
    arrays = comm.exchange(values(comm.rank, (2, 2)), peers, peers, 6)
    assert sorted(arrays) == peers, f"from ranks {sorted(arrays)} instead of {peers}"
    for rank, x in arrays.items():
        check_same(x, values(rank, (2, 2)), f"what came from rank {rank}")


_BITS = {
    np.dtype(kind): bits
    for kind, bits in (("uint8", 7), (ml_dtypes.bfloat16, 8), ("float32", 24), ("int64", 62), ("complex128", 53))
}
"""An element type of 1, 2, 4, 8 and 16 bytes, to how many bits whole numbers may have."""


_SMALL, _LARGE = 2**16, 2**22
_PLACES = 61
_PERIOD = 4099  # a prime, so that blocks of a library are not alike
_MIXING = 0x9E3779B97F4A7C15


def carries_large_arrays(comm: Communicator) -> None:
    """Messages and sums of 4 MiB and an element more, for each size of an element."""
    to, source = neighbours(comm)
    faults: list[AssertionError] = []
    for dtype in _BITS:
        n = _LARGE // dtype.itemsize + 1
        mine, label, got = _of(comm, comm.rank, n, dtype).copy(), f"{n} elements of {dtype}", np.zeros(n, dtype)
        if comm.size > 1:
            came = comm.sendrecv(mine, to, got, source, 12)
        total = comm.allreduce(mine)
        with later(faults):
            if comm.size > 1:
                assert came.elements == n, f"{came.elements} elements came of {label}"
                same_bits(got, _of(comm, source, n, dtype), f"a message of {label}")
            same_bits(total, _total(comm.size, n, dtype), f"allreduce of {label}")
    if faults:
        raise faults[0]


def carries_middling_arrays(comm: Communicator) -> None:
    """Everything with 64 KiB and an element more, for each size of an element."""
    to, source = neighbours(comm)
    faults: list[AssertionError] = []
    for number, dtype in enumerate(_BITS):
        n, root = _SMALL // dtype.itemsize + 1, number % comm.size
        ranks = [_of(comm, rank, n, dtype) for rank in range(comm.size)]
        mine, label, total = ranks[comm.rank].copy(), f"{n} elements of {dtype}", _total(comm.size, n, dtype)
        rows, received = np.stack([mine] * comm.size), np.stack(ranks)
        got, begun, place = np.zeros(n, dtype), np.zeros(n, dtype), np.zeros(n, dtype)
        if comm.size > 1:
            request = comm.irecv(got, source, 12)
            comm.isend(mine, to, 12).wait()
            request.wait()
        comm.iallreduce(mine, begun).wait()
        comm.scatter(rows if comm.rank == root else None, place, root)
        results = {
            "allreduce": (comm.allreduce(mine), total),
            "iallreduce": (begun, total),
            "broadcast": (comm.broadcast(mine.copy(), root), ranks[root]),
            "allgather": (comm.allgather(mine), received),
            "allgather with counts": (comm.allgather(mine, [n] * comm.size), received.reshape(-1)),
            "alltoall": (comm.alltoall(rows), received),
            "reduce_scatter": (comm.reduce_scatter(rows), total),
            "scatter": (place, ranks[root]),
            "a message": (got, ranks[source] if comm.size > 1 else got),
        }
        gathered, rooted = comm.gather(mine, root), comm.reduce(mine, root=root)
        if gathered is not None and rooted is not None:
            results |= {"gather": (gathered, received), "reduce": (rooted, total)}
        with later(faults):
            for name, (result, expected) in results.items():
                same_bits(result, expected, f"{name} of {label}")
    if faults:
        raise faults[0]


def _of(comm: Communicator, rank: int, n: int, dtype: np.dtype) -> np.ndarray:
    """A rank's array: the same numbers, a few places further."""
    start = rank % _PLACES
    return _numbers(comm.size, n + _PLACES, dtype)[start : start + n]


@lru_cache(maxsize=8)
def _numbers(size: int, n: int, dtype: np.dtype) -> np.ndarray:
    return _repeated(_block(size, dtype), n)


@lru_cache(maxsize=8)
def _total(size: int, n: int, dtype: np.dtype) -> np.ndarray:
    block = _block(size, dtype)
    total = np.zeros_like(block)
    for rank in range(size):
        total += np.roll(block, -(rank % _PLACES))
    return _repeated(total, n)


def _block(size: int, dtype: np.dtype) -> np.ndarray:
    """Whole numbers, of which every sum over the ranks is one of the type's, with most of its bits; none is 0."""
    most = max(1, 2 ** _BITS[dtype] // size)
    mixed = np.arange(_PERIOD, dtype=np.uint64) * np.uint64(_MIXING) >> np.uint64(1)
    whole = mixed % np.uint64(most) + np.uint64(1)
    return (whole + 1j * whole[::-1]).astype(dtype) if dtype.kind == "c" else whole.astype(dtype)


def _repeated(block: np.ndarray, n: int) -> np.ndarray:
    array = np.resize(block, n)
    array.flags.writeable = False
    return array


def refuses_what_is_wrong(comm: Communicator) -> None:
    """Ranks that do not exist, results that do not fit, counts that do not add up: each refused before anything is sent."""
    x, size = np.ones(4, np.float32), comm.size
    locked = np.zeros(4, np.float32)
    locked.flags.writeable = False
    for rank in (size, -2):
        refused(partial(comm.send, x, rank), f"a message to rank {rank}")
        refused(partial(comm.irecv, x, rank), f"a message from rank {rank}")
        refused(partial(comm.broadcast, x, rank), f"broadcast from rank {rank}")
        refused(partial(comm.reduce, x, root=rank), f"reduce to rank {rank}")
        refused(partial(comm.gather, x, rank), f"gather to rank {rank}")
        refused(partial(comm.scatter, np.ones((size, 4), np.float32), x, rank), f"scatter from rank {rank}")
    refused(lambda: comm.isend(x, ANY), "a message to anyone")
    refused(lambda: comm.isend(x, 0, -1), "a negative tag")
    refused(lambda: comm.irecv(locked), "receiving into a read-only array")
    for out, description in ((np.zeros(5, np.float32), "too long"), (np.zeros(4), "of another type"), (locked, "read-only")):
        refused(partial(comm.allreduce, x, out=out), f"allreduce into an array that is {description}")
        refused(partial(comm.iallreduce, x, out), f"iallreduce into an array that is {description}")
    refused(lambda: comm.allgather(x, out=np.zeros(4 * size + 1, np.float32)), "allgather into an array that is too long")
    wrong: Sequence[tuple[Sequence[int], str]] = (
        ([4] * (size + 1), "too many"),
        ([3] * size, "wrong"),
        ([-4] * size, "negative"),
    )
    for counts, description in wrong:
        refused(partial(comm.allgather, x, counts), f"allgather with {description} counts")
        refused(partial(comm.reduce_scatter, np.ones(4 * size), counts), f"reduce_scatter with {description} counts")
    refused(lambda: comm.alltoall(np.ones((size + 1, 2))), "alltoall of too many rows")
    refused(lambda: comm.reduce_scatter(np.ones((size + 1, 2))), "reduce_scatter of too many rows")
    refused(lambda: comm.split(-3), "a negative color")
    unknown: Any = "mean"
    for call in (comm.allreduce, comm.reduce):
        refused(partial(call, x, unknown), "the reduction 'mean'")
    check_same(comm.allreduce(values(comm.rank, 4)), reduced(comm, 4), "an allreduce after what was refused")
