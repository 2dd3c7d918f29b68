"""What cannot work is refused before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from deep_bench.distributed.communicators.communicator import ANY, Communicator
from deep_bench.testing.communicator_checks.values import reduced, refused, same, values


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
    same(comm.allreduce(values(comm.rank, 4)), reduced(comm, 4), "an allreduce after what was refused")
