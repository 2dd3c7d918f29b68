"""A reduction over ranks in each of the ways in which a communicator offers one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator, Reduction


@dataclass(frozen=True)
class Result:
    """What came of an operation, beside what had to.

    Args:
        what: The operation.
        found: On this rank.
        expected: On this rank.
    """

    what: str
    found: np.ndarray
    expected: np.ndarray


def every_way(comm: Communicator, ranks: Sequence[np.ndarray], expected: np.ndarray, op: Reduction = "sum") -> list[Result]:
    """One array of each rank, reduced by every operation that reduces.

    Args:
        comm: The ranks.
        ranks: Of each rank, flat.
        expected: What comes of them.
        op: The reduction.
    """
    x, n = ranks[comm.rank], expected.size
    rows = np.stack([np.roll(x, rank) for rank in range(comm.size)])  # each rank gets another row
    row = np.roll(expected, comm.rank)
    root = n % comm.size
    begun, out = np.zeros(n, x.dtype), np.zeros(n, x.dtype)
    comm.iallreduce(x, begun, op).wait()
    comm.reduce_scatter(rows, op=op, out=out)
    results = [
        Result("allreduce", comm.allreduce(x, op), expected),
        Result("iallreduce", begun, expected),
        Result("reduce_scatter", out, row),
        Result("reduce_scatter with equal counts", comm.reduce_scatter(rows.reshape(-1), [n] * comm.size, op), row),
    ]
    rooted = comm.reduce(x, op, root)
    if comm.rank == root and rooted is not None:
        results.append(Result("reduce", rooted, expected))
    return results
