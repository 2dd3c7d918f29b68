"""How processes that were started together find each other for ``torch.distributed``."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch.distributed as dist

import deep_bench as db
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import CommunicationFailed, InvalidArgument

_TORCHRUN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_ADDRESS_BYTES = 256


@dataclass(frozen=True)
class Meeting:
    """Where a process meets the others.

    Args:
        rank: Its number.
        size: How many there are.
        store: Through which they find each other; ``None`` for what torchrun set up.
        how: In words.
    """

    rank: int
    size: int
    store: Any
    how: str


def meeting(over: Communicator | None, address: str | None, patience: timedelta) -> Meeting:
    """Find out from the arguments, or else the environment, where this process meets the others.

    Args:
        over: A communicator that reaches them already.
        address: ``host:port`` of rank 0.
        patience: How long ranks wait for each other.

    Raises:
        CommunicationFailed: Several ranks were started, and nothing says where they meet.
        InvalidArgument: An address without a port.
    """
    environment = os.environ
    if over is not None:
        return _over(over, patience)
    started = launched_as(environment)
    if address is not None:
        host, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise InvalidArgument(f"address {address!r}", "host:port")
        rank, size = started or (0, 1)
        return Meeting(rank, size, _store(host, int(port), rank, size, patience), "address given")
    if all(name in environment for name in _TORCHRUN):
        return Meeting(int(environment["RANK"]), int(environment["WORLD_SIZE"]), None, "torchrun's environment")
    if started is None or started[1] == 1:
        return Meeting(0, 1, dist.HashStore(), "alone")
    if not db.communicators.missing("mpi"):
        return _over(db.communicators["mpi"](), patience)
    raise CommunicationFailed(
        f"rank {started[0]} of {started[1]}, and no address of rank 0",
        "mpi4py, MASTER_ADDR and MASTER_PORT in the environment, or an address",
        'pip install mpi4py, or TorchCommunicator(address="host:port")',
    )


def launched_as(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """The rank and the number of ranks that a launcher tells; ``None`` without one.

    Example:
        >>> launched_as({"SLURM_PROCID": "3", "SLURM_NTASKS": "8"})
        (3, 8)
    """
    for rank, size in (("RANK", "WORLD_SIZE"), *_LAUNCHERS):
        if rank in environment and size in environment:
            return int(environment[rank]), int(environment[size])
    return None


def _over(comm: Communicator, patience: timedelta) -> Meeting:
    """Rank 0 opens a port, and tells the others over a communicator that they have already."""
    told = np.zeros(_ADDRESS_BYTES, np.uint8)
    name = socket.gethostname().encode()[:_ADDRESS_BYTES]
    told[: len(name)] = np.frombuffer(name, np.uint8)
    hosts = comm.allgather(told)
    host = "127.0.0.1" if (hosts == hosts[0]).all() else bytes(hosts[0]).rstrip(b"\0").decode()
    store = _store(host, 0, 0, comm.size, patience) if comm.rank == 0 else None
    port = int(comm.broadcast(np.array([0 if store is None else store.port], np.int64))[0])
    if store is None:
        store = _store(host, port, comm.rank, comm.size, patience)
    return Meeting(comm.rank, comm.size, store, f"over {comm.name}")


def _store(host: str, port: int, rank: int, size: int, patience: timedelta) -> Any:
    return dist.TCPStore(host, port, size, is_master=rank == 0, timeout=patience, wait_for_workers=False)
