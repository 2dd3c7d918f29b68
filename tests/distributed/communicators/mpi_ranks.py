"""What only an MPI communicator has: a program for two ranks, which prints ``fine`` on each."""

import sys

import numpy as np
import pytest

import deep_bench as db
from deep_bench.adapters import mpi
from deep_bench.adapters.mpi import MpiCommunicator
from deep_bench.distributed import Counting, guarded
from deep_bench.errors import CommunicationFailed, InvalidArgument
from deep_bench.testing.communicator_checks.values import refused


class OnCuda:
    """Memory that says it lies on a CUDA device; it does not, so that any MPI can read it."""

    def __init__(self, array):
        self.array, self.dtype, self.shape = array, array.dtype, array.shape
        self.__cuda_array_interface__ = {**array.__array_interface__, "strides": None, "version": 3}


def keeps_what_was_asked_of_threads(comm):
    assert comm.threads
    assert comm.describe()["threads"] == "multiple"
    assert mpi.begun("single") is mpi.begun("multiple")
    refused(lambda: MpiCommunicator(threads="many"), "a level that does not exist")


def tells_which_library_it_is(comm):
    facts = comm.describe()
    assert facts["library"].split()[0] in ("Open", "MPICH"), facts
    assert facts["host"]
    assert facts["launcher"] != "unknown"


def takes_cuda_arrays_only_if_the_library_does(comm):
    x, out = OnCuda(np.full(3, comm.rank + 1.0)), OnCuda(np.zeros(3))
    half = OnCuda(np.ones(3, np.float16))
    aware = mpi.cuda_aware(comm._mpi)
    assert comm.takes(x) == aware
    assert not comm.takes([1.0])
    refused(lambda: comm.allreduce([1.0]), "a list")
    if aware:
        return
    refused(lambda: comm.allreduce(x, out=out), "an array on a CUDA device")
    before, mpi.cuda_aware = mpi.cuda_aware, lambda _: True
    try:
        assert comm.allreduce(x, out=out) is out
        comm.iallreduce(x, x).wait()
        came = comm.sendrecv(out, 1 - comm.rank, half_room := OnCuda(np.zeros(3)), 1 - comm.rank)
        comm.broadcast(half)
        refused(lambda: comm.allreduce(half), "a reduction of float16 on a CUDA device")
        refused(lambda: comm.allreduce(OnCuda(np.zeros(6)), out=out), "a result that is too long")
    finally:
        mpi.cuda_aware = before
    assert out.array.tolist() == x.array.tolist() == half_room.array.tolist() == [3.0] * 3
    assert came.elements == 3


def works_where_memory_is_shared(comm):
    whole = np.zeros(4)
    mine = whole[2 * comm.rank : 2 * comm.rank + 2]
    mine[...] = comm.rank + 1
    comm.allgather(mine, out=whole)
    assert whole.tolist() == [1, 1, 2, 2]
    comm.allgather(whole[1:3], [2, 2], whole)
    assert whole.tolist() == [1, 2, 1, 2]
    rows = np.arange(4.0) + comm.rank
    comm.reduce_scatter(rows, [2, 2], out=rows[2 * comm.rank : 2 * comm.rank + 2])
    assert rows[2 * comm.rank : 2 * comm.rank + 2].tolist() == [4 * comm.rank + 1, 4 * comm.rank + 3]
    flat = np.arange(6.0)
    comm.allreduce(flat[:4], out=flat[2:])
    assert flat.tolist() == [0, 1, 0, 2, 4, 6]
    comm.allreduce(flat.reshape(2, 3), out=flat)
    assert flat.tolist() == [0, 2, 0, 4, 8, 12]
    square = np.arange(4.0).reshape(2, 2) + 10 * comm.rank
    comm.alltoall(square, out=square)
    assert square[:, 0].tolist() == [2.0 * comm.rank, 10 + 2.0 * comm.rank]


def remembers_no_more_than_the_arrays(comm):
    x, out = np.ones(2, np.float32), np.zeros(2, np.float32)
    for value in (1.0, 2.0, 3.0):
        x[...] = value
        assert comm.allreduce(x, out=out) is out
        assert out.tolist() == [2 * value] * 2
    assert comm.allreduce(x, "max", out).tolist() == [3.0, 3.0]
    assert comm.allreduce(out, out=out).tolist() == [6.0, 6.0]
    assert comm.allreduce(out, out=out).tolist() == [12.0, 12.0]


def tells_what_failed(comm):
    if comm.rank:
        comm.send(np.zeros(3), 0, 8)
    else:
        with pytest.raises(CommunicationFailed, match="MPI failed"):
            comm.recv(np.zeros(2), 1, 8)
    refused(lambda: comm.allreduce(np.array([None])), "an array of objects")


def counts_bytes_on_the_wire(comm):
    counting = Counting(comm)
    if comm.rank == 0:
        counting.send(np.zeros(100_000, np.int8), 1)
    else:
        counting.recv(np.zeros(100_000, np.int8), 0)
    wire = counting.volume().wire
    if "monitored" in sys.argv:
        assert wire is not None
        assert (wire >= 100_000) == (comm.rank == 0), f"{wire} bytes sent by rank {comm.rank}"
    else:
        assert wire is None


def takes_others_communicators(comm):
    from mpi4py import MPI

    alone = MpiCommunicator(MPI.COMM_SELF)
    assert (alone.rank, alone.size) == (0, 1)
    assert alone.allreduce(np.ones(1)).tolist() == [1.0]
    alone.close()


def main() -> None:
    comm = db.communicators["mpi"](threads="multiple")
    with guarded(comm):
        if "fails" in sys.argv:
            if comm.rank == 1:
                raise InvalidArgument("a step of 0")
            comm.recv(np.zeros(1), 1)
        keeps_what_was_asked_of_threads(comm)
        tells_which_library_it_is(comm)
        takes_cuda_arrays_only_if_the_library_does(comm)
        works_where_memory_is_shared(comm)
        remembers_no_more_than_the_arrays(comm)
        counts_bytes_on_the_wire(comm)
        takes_others_communicators(comm)
        tells_what_failed(comm)
        print("fine", flush=True)
        comm.close()


if __name__ == "__main__":
    main()
