"""The suite over gloo, and what only a torch communicator has: a program that prints ``fine`` on each rank."""

import numpy as np
import torch

import deep_bench as db
from deep_bench.adapters.torch.communicator import TorchCommunicator
from deep_bench.distributed import guarded
from deep_bench.testing.communicator_checks.values import refused
from deep_bench.testing.communicators import check_communicator


def takes_tensors(comm):
    x, out = torch.full((3,), comm.rank + 1.0), torch.zeros(3)
    half = torch.ones(2, dtype=torch.bfloat16)
    total = sum(range(1, comm.size + 1))
    assert comm.allreduce(x, out=out) is out
    assert out.tolist() == [total] * 3
    comm.allreduce(half, out=half)
    assert half.tolist() == [comm.size] * 2
    assert comm.broadcast(x) is x
    assert x.tolist() == [1.0] * 3
    assert comm.takes(x)
    assert not comm.takes([1.0])
    assert not comm.takes(torch.zeros(1, device="meta"))
    refused(lambda: comm.allreduce([1.0]), "a list")
    refused(lambda: comm.allreduce(torch.zeros(1, device="meta")), "a tensor on a device that gloo does not know")


def takes_tensors_on_a_device(comm):
    """By the code that NCCL would run, on tensors in host memory."""
    reverse = comm.split(0, key=-comm.rank)
    before, TorchCommunicator._on_device = TorchCommunicator._on_device, lambda _, x: isinstance(x, torch.Tensor)
    try:
        for group in (comm, reverse):
            rows = torch.arange(2.0 * group.size).reshape(group.size, 2) + group.rank
            expected = sum(torch.arange(2.0 * group.size).reshape(group.size, 2) + rank for rank in range(group.size))
            assert group.allreduce(rows).tolist() == expected.tolist()
            begun = group.iallreduce(rows, out := torch.zeros_like(rows), "max")
            begun.wait()
            assert out.tolist() == (rows - group.rank + group.size - 1).tolist()
            assert group.broadcast(torch.tensor([float(group.rank)]), 1).tolist() == [1.0]
            assert group.allgather(torch.tensor([group.rank])).tolist() == [[rank] for rank in range(group.size)]
            rooted = group.reduce(rows, root=1)
            assert rooted is None if group.rank != 1 else rooted.tolist() == expected.tolist()
            refused(lambda group=group: group.allreduce(torch.zeros(2), out=torch.zeros(3)), "a result that is too long")
            refused(lambda group=group: group.allreduce(torch.zeros(2), "mean"), "the reduction 'mean'")
        rows = torch.arange(2.0 * comm.size).reshape(comm.size, 2) + comm.rank
        got = comm.alltoall(rows)
        assert got.tolist() == [[2.0 * comm.rank + rank, 2.0 * comm.rank + 1 + rank] for rank in range(comm.size)]
        refused(lambda: reverse.alltoall(rows), "alltoall in another order")
        assert reverse.reduce_scatter(rows).shape == (2,)
    finally:
        TorchCommunicator._on_device = before
    reverse.close()


def main() -> None:
    comm = db.communicators["torch"]()
    with guarded(comm):
        assert comm.describe()["met"] in ("over mpi", "alone")
        assert check_communicator(comm, told=print) == {}
        takes_tensors(comm)
        takes_tensors_on_a_device(comm)
        refused(lambda: comm.send(np.zeros(1), comm.rank), "a message to oneself")
        print("fine", flush=True)
        comm.close()


if __name__ == "__main__":
    main()
