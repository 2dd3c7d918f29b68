"""Reductions, arrays from all ranks to all, and groups of ranks."""

from __future__ import annotations

from functools import reduce

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator, Reduction
from deep_bench.testing.communicator_checks.values import (
    DTYPES,
    REDUCTIONS,
    check_same,
    cut,
    neighbours,
    reduced,
    spread,
    values,
)


def reduces(comm: Communicator) -> None:
    """Every reduction of every type, on the root and everywhere."""
    outcomes: list[tuple[np.dtype, Reduction, int, np.ndarray, list[np.ndarray | None]]] = []
    for dtype in DTYPES:
        for op in REDUCTIONS:
            x = values(comm.rank, 13, dtype)
            out = np.zeros(13, dtype)
            root = len(outcomes) % comm.size
            comm.iallreduce(x, out, op).wait()
            outcomes.append((dtype, op, root, x, [comm.allreduce(x, op), comm.reduce(x, op, root), out]))
    for dtype, op, root, x, (everywhere, rooted, begun) in outcomes:
        expected, label = reduced(comm, 13, dtype, op), f"{op} of {dtype}"
        check_same(everywhere, expected, f"allreduce, {label}")
        check_same(begun, expected, f"iallreduce, {label}")
        assert comm.rank == root or rooted is None, f"reduce, {label}: a result on rank {comm.rank}, which is not the root"
        if comm.rank == root:
            check_same(rooted, expected, f"reduce, {label}")
        check_same(x, values(comm.rank, 13, dtype), f"what went into the {label}")


def moves(comm: Communicator) -> None:
    """Every type through every operation that moves arrays."""
    outcomes = []
    to, source = neighbours(comm)
    for number, dtype in enumerate(DTYPES):
        root, x = number % comm.size, values(comm.rank, (2, 3), dtype)
        rows = np.stack([values(comm.rank, 4, dtype, salt=rank) for rank in range(comm.size)])
        whole, got = values(comm.rank, 5, dtype), np.zeros((2, 3), dtype)
        if comm.size > 1:
            comm.sendrecv(x, to, got, source, 3)
        results = {
            "broadcast": (comm.broadcast(whole, root), values(root, 5, dtype)),
            "allgather": (comm.allgather(x), np.stack([values(rank, (2, 3), dtype) for rank in range(comm.size)])),
            "alltoall": (comm.alltoall(rows), np.stack([values(r, 4, dtype, salt=comm.rank) for r in range(comm.size)])),
            "scatter": (
                comm.scatter(rows if comm.rank == root else None, np.zeros(4, dtype), root),
                values(root, 4, dtype, salt=comm.rank),
            ),
            "sendrecv": (got, values(source, (2, 3), dtype) if comm.size > 1 else got),
        }
        gathered = comm.gather(x, root)
        assert comm.rank == root or gathered is None, f"gather: a result on rank {comm.rank}, which is not the root"
        if gathered is not None:
            results["gather"] = (gathered, results["allgather"][1])
        outcomes.append((dtype, results, whole))
    for dtype, results, whole in outcomes:
        for name, (result, expected) in results.items():
            check_same(result, expected, f"{name} of {dtype}")
        assert results["broadcast"][0] is whole, "broadcast returns another array than the one that it wrote into"


def reduces_and_scatters(comm: Communicator) -> None:
    """Each rank's row of a reduction, with rows of the same and of different length."""
    counts = [(rank * 2) % 5 for rank in range(comm.size)]
    before, total = sum(counts[: comm.rank]), sum(counts)
    outcomes = []
    for op in REDUCTIONS:
        for dtype in (np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.int64)):
            rows, flat = values(comm.rank, (comm.size, 3), dtype), values(comm.rank, total, dtype)
            outcomes.append((op, dtype, comm.reduce_scatter(rows, op=op), comm.reduce_scatter(flat, counts, op)))
    for op, dtype, row, ragged in outcomes:
        check_same(row, reduced(comm, (comm.size, 3), dtype, op)[comm.rank], f"reduce_scatter, {op} of {dtype}")
        expected = reduced(comm, total, dtype, op)[before : before + counts[comm.rank]]
        check_same(ragged, expected, f"reduce_scatter with counts, {op} of {dtype}")


def gathers_different_lengths(comm: Communicator) -> None:
    """Allgather with counts, some of them 0; and with the same for all."""
    counts = [(rank * 3 + 2) % 4 for rank in range(comm.size)]
    mine = values(comm.rank, counts[comm.rank])
    out = np.zeros(sum(counts), np.float32)
    gathered, returned = comm.allgather(mine, counts), comm.allgather(mine, counts, out)
    alike = comm.allgather(values(comm.rank, 3, salt=1), [3] * comm.size)
    expected = np.concatenate([values(rank, count) for rank, count in enumerate(counts)])
    check_same(gathered, expected, "allgather with counts")
    check_same(out, expected, "allgather with counts and out")
    check_same(alike, np.concatenate([values(rank, 3, salt=1) for rank in range(comm.size)]), "allgather with equal counts")
    assert returned is out, "allgather returns another array than its out"


def takes_any_layout(comm: Communicator) -> None:
    """Arrays that are not contiguous, Fortran's order, no dimension, no element; in and out."""
    to, source = neighbours(comm)
    x, flat = spread(values(comm.rank, (3, 4))), spread(np.zeros((1, 12), np.float32))
    turned, out = values(comm.rank, (4, 3)).T, np.zeros((4, 3), np.float32).T
    rows, got = spread(values(comm.rank, (comm.size, 3))), spread(np.zeros((1, 3), np.float32))
    gathered, swapped = spread(np.zeros((comm.size, 12), np.float32)), spread(np.zeros((comm.size, 3), np.float32))
    sent = spread(values(comm.rank, 6)) if comm.rank == 0 else spread(np.zeros(6, np.float32))
    arrived = spread(np.zeros(12, np.float32))
    comm.allreduce(x, out=flat)
    comm.allreduce(turned, out=out)
    comm.allgather(x, out=gathered)
    comm.reduce_scatter(rows, out=got)
    comm.alltoall(rows, out=swapped)
    comm.broadcast(sent)
    if comm.size > 1:
        comm.sendrecv(x, to, arrived, source)
    begun = spread(np.zeros((3, 4), np.float32))
    comm.iallreduce(x, begun).wait()
    columns = comm.allgather(turned)
    expected = reduced(comm, 12)
    check_same(flat.reshape(-1), expected, "allreduce from and to each second element")
    check_same(begun.reshape(-1), expected, "iallreduce from and to each second element")
    check_same(out, reduced(comm, (4, 3)).T, "allreduce in Fortran's order")
    check_same(gathered, np.stack([values(rank, 12) for rank in range(comm.size)]), "allgather to each second element")
    check_same(columns, np.stack([values(rank, (4, 3)).T for rank in range(comm.size)]), "allgather in Fortran's order")
    check_same(got.reshape(-1), reduced(comm, (comm.size, 3))[comm.rank], "reduce_scatter from and to each second element")
    check_same(swapped, np.stack([values(r, (comm.size, 3))[comm.rank] for r in range(comm.size)]), "alltoall, each second")
    check_same(sent, values(0, 6), "broadcast of each second element")
    if comm.size > 1:
        check_same(arrived, values(source, 12), "sendrecv from and to each second element")


def takes_arrays_without_dimensions(comm: Communicator) -> None:
    """What goes in and comes out has no dimension, and is an array all the same."""
    to, source = neighbours(comm)
    mine, got, place, begun = np.array(float(comm.rank + 1)), np.array(0.0), np.array(0.0), np.array(0.0)
    row, total = np.arange(1.0, comm.size + 1), np.array(comm.size * (comm.size + 1) / 2)
    if comm.size > 1:
        comm.sendrecv(mine, to, got, source)
    comm.iallreduce(mine, begun).wait()
    comm.scatter(row if comm.rank == 0 else None, place)
    results: dict[str, tuple[np.ndarray | None, np.ndarray]] = {
        "allreduce": (comm.allreduce(mine), total),
        "iallreduce": (begun, total),
        "broadcast": (comm.broadcast(mine.copy()), np.array(1.0)),
        "allgather": (comm.allgather(mine), row),
        "alltoall": (comm.alltoall(np.full(comm.size, mine)), row),
        "reduce_scatter": (comm.reduce_scatter(row), mine * comm.size),
        "scatter": (place, mine),
        "a message": (got, np.array(source + 1.0) if comm.size > 1 else got),
    }
    rooted, gathered = comm.reduce(mine), comm.gather(mine)
    if comm.rank == 0:
        results |= {"reduce": (rooted, total), "gather": (gathered, row)}
    for name, (result, expected) in results.items():
        check_same(result, np.asarray(expected), f"{name} of arrays without dimensions")


def takes_empty_arrays(comm: Communicator) -> None:
    """Nothing to send is no reason to fail."""
    x, to, source = np.zeros((0, 3), np.float32), *neighbours(comm)
    came = comm.sendrecv(x, to, x.copy(), source) if comm.size > 1 else None
    empty_rows = np.zeros((comm.size, 0), np.float32)
    comm.iallreduce(x, x.copy()).wait()
    results = [comm.allreduce(x), comm.broadcast(x.copy())]
    rows = [comm.allgather(x), comm.alltoall(empty_rows), comm.reduce_scatter(empty_rows)]
    rooted = [comm.gather(x), comm.scatter(empty_rows, np.zeros(0, np.float32)), comm.reduce(x)]
    for result in results:
        check_same(result, x, "an empty array")
    for result, shape in zip(rows, [(comm.size, 0, 3), (comm.size, 0), (0,)], strict=True):
        check_same(result, np.zeros(shape, np.float32), "rows of an empty array")
    assert (rooted[0] is None) == (comm.rank != 0), "gather of an empty array"
    assert came is None or (came.elements, came.source) == (0, source), f"an empty message came as {came}"


def cuts_long_arrays(comm: Communicator) -> None:
    """Arrays longer than a message may be, simulated by a low limit; and the same without."""
    for largest in (4, comm.largest):
        with cut(comm, largest):
            for elements in (3, 4, 5, 8, 11):
                _long(comm, elements, np.dtype(np.float32))
            _long(comm, 9, np.dtype(np.float16))


def _long(comm: Communicator, n: int, dtype: np.dtype) -> None:
    to, source = neighbours(comm)
    x, out, begun, room = values(comm.rank, n, dtype), *(np.zeros(k, dtype) for k in (n, n, n + 7))
    sent, place = x.copy(), np.zeros(n, dtype)
    comm.allreduce(x, out=out)
    comm.iallreduce(x, begun).wait()
    rooted = comm.reduce(x)
    comm.broadcast(sent)
    came = comm.sendrecv(x, to, room, source) if comm.size > 1 else None
    rows = np.stack([values(comm.rank, n, dtype, salt=rank) for rank in range(comm.size)])
    gathered, swapped = comm.allgather(x), comm.alltoall(rows)
    counts = [n if rank % 2 else 2 for rank in range(comm.size)]
    ragged = comm.allgather(x[: counts[comm.rank]], counts)
    part = comm.reduce_scatter(rows)
    comm.scatter(rows if comm.rank == 0 else None, place)
    all_rows, label = (
        [values(rank, n, dtype) for rank in range(comm.size)],
        f"{n} elements of {dtype}, {comm.largest} at once",
    )
    expected = reduced(comm, n, dtype)
    check_same(out, expected, f"allreduce of {label}")
    check_same(begun, expected, f"iallreduce of {label}")
    check_same(expected if rooted is None else rooted, expected, f"reduce of {label}")
    check_same(sent, all_rows[0], f"broadcast of {label}")
    check_same(gathered, np.stack(all_rows), f"allgather of {label}")
    check_same(ragged, np.concatenate([row[:count] for row, count in zip(all_rows, counts, strict=True)]), f"ragged {label}")
    mine = [values(rank, n, dtype, salt=comm.rank) for rank in range(comm.size)]
    check_same(swapped, np.stack(mine), f"alltoall of {label}")
    check_same(part, reduce(np.add, mine), f"reduce_scatter of {label}")
    check_same(place, values(0, n, dtype, salt=comm.rank), f"scatter of {label}")
    if came is not None:
        assert came.elements == n, f"{came.elements} elements came of {label}"
        check_same(room[:n], all_rows[source], f"a message of {label}")


def works_in_place(comm: Communicator) -> None:
    """``out`` may be ``x``; what was returned before stays as it was."""
    x, second = values(comm.rank, 9), values(comm.rank, 9)
    first = comm.allreduce(x)
    returned = comm.allreduce(x, out=x)
    comm.iallreduce(second, second).wait()
    again = values(comm.rank, 9)
    out = np.zeros(9, np.float32)
    rounds = []
    for factor in (1, 2, 3):  # the same arrays, other contents
        again[...] = factor * values(comm.rank, 9)
        comm.allreduce(again, "max", out)
        rounds.append(out.copy())
    expected = reduced(comm, 9)
    assert returned is x, "allreduce returns another array than its out"
    check_same(first, expected, "the result of an allreduce, after another one")
    check_same(x, expected, "allreduce in place")
    check_same(second, expected, "iallreduce in place")
    for factor, result in zip((1, 2, 3), rounds, strict=True):
        check_same(result, factor * reduced(comm, 9, op="max"), f"allreduce number {factor} of the same two arrays")


def splits(comm: Communicator) -> None:
    """Groups by color, numbered by key, whose messages do not mix with others; groups of groups."""
    odd = comm.rank % 2
    group = comm.split(odd, key=-comm.rank)
    last = comm.split(None if comm.rank == comm.size - 1 else 0)
    assert group is not None
    members = [rank for rank in reversed(range(comm.size)) if rank % 2 == odd]
    order = group.allgather(np.array(comm.rank))
    total = group.allreduce(values(comm.rank, 5))
    last_ranks = None if last is None else last.allgather(np.array(comm.rank))
    inner = group.split(0 if group.rank < 2 else 1)
    assert inner is not None
    pair = inner.allgather(np.array(comm.rank))
    inside, outside = np.zeros(1, np.int64), np.zeros(1, np.int64)
    if group.size > 1 and group.rank < 2:  # the same two ranks, the same tag, in both
        peer = 1 - group.rank
        begun = [comm.irecv(outside, members[peer], 4), group.irecv(inside, peer, 4)]
        begun += [group.isend(np.array([1]), peer, 4), comm.isend(np.array([2]), members[peer], 4)]
        for request in begun:
            request.wait()
    assert (group.size, group.rank) == (len(members), members.index(comm.rank)), f"rank {group.rank} of {group.size}"
    check_same(order, np.array(members), "the ranks of a group, by key")
    check_same(total, reduce(np.add, [values(rank, 5) for rank in members]), "the sum over a group")
    assert (last is None) == (comm.rank == comm.size - 1), "a group for a rank that named none"
    if last_ranks is not None:
        check_same(last_ranks, np.arange(comm.size - 1), "the ranks of a group, by their rank before")
    check_same(pair, np.array(members[:2] if group.rank < 2 else members[2:]), "a group of a group")
    if group.size > 1 and group.rank < 2:
        assert (int(inside[0]), int(outside[0])) == (1, 2), "messages of a group and of the whole are mixed"
    for communicator in (inner, last, group):
        if communicator is not None:
            communicator.close()
