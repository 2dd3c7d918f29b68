"""The systems of ``allreduce_step.py``: one training step on this rank's half of a batch, in several hands."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import deep_bench as db
from deep_bench.training.steps import SeparateStep

BATCH = 64
"""Samples of each rank."""

SETTINGS: dict[str, Any] = {"lr": 1e-3, "momentum": 0.9}
OPTIMIZER = "torch.sgd"

Call = Callable[[], Any]


def network(case: str) -> db.Network:
    """A case's network with its loss: the MLP has 269 k parameters, the deep one 6.1 million."""
    widths = {"MLP": (256, 256), "deep MLP": (1024,) * 6}
    made = db.networks["lenet"]() if case == "LeNet" else db.networks["mlp"]((1, 28, 28), widths[case])
    return made.with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def feeds(executor: Any, rank: int) -> dict[str, Any]:
    """This rank's samples, as native arrays by the names of the inputs."""
    rng = np.random.default_rng(rank)
    label = rng.integers(0, 10, BATCH)
    found = {}
    for spec in executor.inputs:
        data = label if spec.dtype == np.int64 else rng.standard_normal((BATCH, *spec.shape[1:]), np.float32)
        found[spec.name] = executor.device.from_numpy(data)
    return found


def prepared(case: str) -> Any:
    """An executor of its own, in torch on one thread."""
    return db.frameworks["torch"](threads=1).prepare(network(case), mode="train")


def ours(case: str, comm: Any) -> Call:
    """deep_bench's allreduce around ``torch.optim.SGD``."""
    executor = prepared(case)
    rule = db.distributed_optimizers["allreduce"](db.optimizers[OPTIMIZER](**SETTINGS), comm)
    step, given = SeparateStep(executor, rule), feeds(executor, comm.rank)
    return lambda: step(given)


def by_hand(case: str, comm: Any) -> Call:
    """The loop that one writes with mpi4py: all gradients in one flat buffer, and one Allreduce."""
    import torch
    from mpi4py import MPI

    executor = prepared(case)
    module, given = executor.module, tuple(feeds(executor, comm.rank).values())
    parameters = list(module.parameters())
    optimizer = torch.optim.SGD(parameters, **SETTINGS)
    flat = torch.empty(sum(p.numel() for p in parameters))
    views = [part.view_as(p) for part, p in zip(flat.split([p.numel() for p in parameters]), parameters, strict=True)]
    memory, world, size = flat.numpy(), MPI.COMM_WORLD, comm.size

    def step() -> None:
        optimizer.zero_grad()
        module(*given)["loss"].backward()
        torch.cat([p.grad.view(-1) for p in parameters], out=flat)
        world.Allreduce(MPI.IN_PLACE, memory)
        flat.div_(size)
        for p, view in zip(parameters, views, strict=True):
            p.grad = view
        optimizer.step()

    return step


def ddp(case: str, comm: Any) -> Call:
    """``torch.nn.parallel.DistributedDataParallel`` over gloo."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    begin_gloo(comm)
    executor = prepared(case)
    given = tuple(feeds(executor, comm.rank).values())
    module = DistributedDataParallel(executor.module)
    optimizer = torch.optim.SGD(module.parameters(), **SETTINGS)

    def step() -> None:
        optimizer.zero_grad()
        module(*given)["loss"].backward()
        optimizer.step()

    return step


SYSTEMS: Mapping[str, Callable[[str, Any], Call]] = {"deep_bench": ours, "by hand": by_hand, "DDP over gloo": ddp}


def overlapping(case: str, comm: Any, *, overlap: bool) -> tuple[Call, Call]:
    """A step of ``allreduce`` in buckets of 4 MiB, and what tells how long it waited for messages."""
    from deep_bench.distributed.training.step import DistributedStep

    executor = prepared(case)
    rule = db.distributed_optimizers["allreduce"](
        db.optimizers[OPTIMIZER](**SETTINGS), comm, overlap=overlap, bucket=4 * 2**20
    )
    step = DistributedStep(executor, rule)
    given = feeds(executor, comm.rank)
    return lambda: step(given), lambda: rule.exposed_ns


def begin_gloo(comm: Any) -> None:
    """Let torch's ranks find each other by a file, once."""
    import torch.distributed as dist

    if dist.is_initialized():
        return
    name = np.zeros(256, np.uint8)
    if comm.rank == 0:
        text = f"{tempfile.mkdtemp()}/gloo".encode()
        name[: len(text)] = np.frombuffer(text, np.uint8)
    path = comm.broadcast(name).tobytes().rstrip(b"\0").decode()
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=comm.rank, world_size=comm.size)
