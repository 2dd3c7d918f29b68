"""Communicators of one's own over MPI: as little as one can have, and one that waits for ever."""

import deep_bench as db
from deep_bench.distributed import ANY, Communicator


class Minimal(Communicator):
    name = "minimal"

    def __init__(self, inner=None):
        self.inner = db.communicators["mpi"]() if inner is None else inner
        self.rank, self.size = self.inner.rank, self.inner.size

    def isend(self, x, to, tag=0):
        return self.inner.isend(x, to, tag)

    def irecv(self, out, source=ANY, tag=0):
        return self.inner.irecv(out, source, tag)

    def split(self, color, key=0):
        group = self.inner.split(color, key)
        return None if group is None else type(self)(group)


class Hanging(Minimal):
    """Fails in the middle of an operation on rank 0, for which the other rank waits."""

    def alltoall(self, x, out=None):
        if self.rank == 0:
            raise TypeError("no such array")
        return super().alltoall(x, out)
