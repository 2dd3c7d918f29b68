"""Groups of ranks."""

from __future__ import annotations

from functools import reduce

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.testing.communicator_checks.values import same, values


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
    same(order, np.array(members), "the ranks of a group, by key")
    same(total, reduce(np.add, [values(rank, 5) for rank in members]), "the sum over a group")
    assert (last is None) == (comm.rank == comm.size - 1), "a group for a rank that named none"
    if last_ranks is not None:
        same(last_ranks, np.arange(comm.size - 1), "the ranks of a group, by their rank before")
    same(pair, np.array(members[:2] if group.rank < 2 else members[2:]), "a group of a group")
    if group.size > 1 and group.rank < 2:
        assert (int(inside[0]), int(outside[0])) == (1, 2), "messages of a group and of the whole are mixed"
    for communicator in (inner, last, group):
        if communicator is not None:
            communicator.close()
