"""How processes that were started together find each other for ``torch.distributed``."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import numpy as np
import torch.distributed as dist

import deep_bench as db
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.errors import CommunicationFailed, InvalidArgument, RanksAbsent

_ADDRESS = {"MASTER_ADDR", "MASTER_PORT"}
_TORCHRUN = {*_ADDRESS, "RANK", "WORLD_SIZE"}
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "SLURM_NTASKS"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
_AGENT = "TORCHELASTIC_USE_AGENT_STORE"
_ADDRESS_BYTES = 256
_JOINED = "deep_bench/joined"
_LOOK_S = 0.05
_MOST_NAMED = 8
_ADVICE = "see that all ranks are started, with the same address and port, and can reach it; or wait longer (--patience)"


@dataclass(frozen=True)
class Meeting:
    """Where a process meets the others.

    Args:
        rank: Its number.
        size: How many there are.
        store: Through which they have found each other.
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
        CommunicationFailed: Several ranks were started, and nothing says where they meet; or rank 0 cannot open the port.
        RanksAbsent: Not all have come within the patience.
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
        return Meeting(rank, size, _met_store(_StoreAddress(host, _port(port)), rank, size, patience), "address given")
    if environment.keys() >= _TORCHRUN:
        rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        return _at_master(rank, size, environment, patience, "torchrun's environment")
    if started is None or started[1] == 1:
        return Meeting(0, 1, dist.HashStore(), "alone")
    if not db.communicators.missing("mpi"):
        return _over(db.communicators["mpi"](), patience)
    if environment.keys() >= _ADDRESS:
        return _at_master(*started, environment, patience, "MASTER_ADDR and MASTER_PORT")
    raise CommunicationFailed(
        f"rank {started[0]} of {started[1]} over torch, no mpi4py by which to meet, and no address of rank 0",
        "one of the two",
        "pip install 'deep-bench[mpi]', or set MASTER_ADDR and MASTER_PORT to a host and a free port of rank 0 on all ranks",
    )


def _at_master(rank: int, size: int, environment: Mapping[str, str], patience: timedelta, how: str) -> Meeting:
    agent_hosted = environment.get(_AGENT) == "True"
    place = _StoreAddress(environment["MASTER_ADDR"], _port(environment["MASTER_PORT"]), agent_hosted)
    return Meeting(rank, size, _met_store(place, rank, size, patience), how)


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
    address = np.zeros(_ADDRESS_BYTES, np.uint8)
    name = socket.gethostname().encode()[:_ADDRESS_BYTES]
    address[: len(name)] = np.frombuffer(name, np.uint8)
    hosts = comm.allgather(address)
    host = "127.0.0.1" if (hosts == hosts[0]).all() else bytes(hosts[0]).rstrip(b"\0").decode()
    place = _StoreAddress(host, 0)
    store = _open_store(place, comm.size, patience) if comm.rank == 0 else None
    port = int(comm.broadcast(np.array([0 if store is None else store.port], np.int64))[0])
    place = _StoreAddress(host, port)
    if store is None:
        store = _reach_store(place, comm.rank, comm.size, patience)
    _await(store, place, comm.rank, comm.size, patience)
    return Meeting(comm.rank, comm.size, store, f"over {comm.name}")


@dataclass(frozen=True)
class _StoreAddress:
    """Where ranks meet.

    Args:
        host: Of rank 0.
        port: There.
        kept: Whether the launcher holds the place open, and rank 0 comes to it like the others.
    """

    host: str
    port: int
    kept: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**16:
        raise InvalidArgument(f"port {text!r} of rank 0", "a whole number below 65536")
    return int(text)


def _met_store(place: _StoreAddress, rank: int, size: int, patience: timedelta) -> Any:
    """The store through which ranks have met, each of which looks from Python, so that signals are heard meanwhile."""
    opens = rank == 0 and not place.kept
    store = _open_store(place, size, patience) if opens else _reach_store(place, rank, size, patience)
    _await(store, place, rank, size, patience)
    return store


def _open_store(place: _StoreAddress, size: int, patience: timedelta) -> Any:
    try:
        return dist.TCPStore(place.host, place.port, size, is_master=True, timeout=patience, wait_for_workers=False)
    except RuntimeError as error:
        raise CommunicationFailed(
            f"rank 0 cannot open {place}: {_first_line(error)}", "a free port of this host", "name another address or port"
        ) from error


def _reach_store(place: _StoreAddress, rank: int, size: int, patience: timedelta) -> Any:
    until, reason = monotonic() + patience.total_seconds(), ""
    while True:
        try:
            with socket.create_connection((place.host, place.port), timeout=max(_LOOK_S, min(1.0, until - monotonic()))):
                break
        except OSError as error:  # rank 0 has not come yet, or its name is not known yet
            reason = str(error)
        if monotonic() > until:
            raise RanksAbsent(
                f"rank {rank} of {size} found nobody at {place} within {patience.total_seconds():g} s: {reason}",
                f"rank 0 at {place}",
                _ADVICE,
                teller=rank,
            )
        sleep(_LOOK_S)
    try:
        return dist.TCPStore(place.host, place.port, size, is_master=False, timeout=patience, wait_for_workers=False)
    except RuntimeError as error:
        raise CommunicationFailed(
            f"rank {rank} of {size} reached {place}, and no rank 0 of torch.distributed there: {_first_line(error)}",
            "rank 0 at that port, which nothing else listens to",
            "name another port",
        ) from error


def _await(store: Any, place: _StoreAddress, rank: int, size: int, patience: timedelta) -> None:
    """Wait until all ranks have come to the store."""
    until = monotonic() + patience.total_seconds()
    try:
        store.set(f"{_JOINED}/{rank}", "")
        came = store.add(_JOINED, 1)
        while came < size and monotonic() < until:
            sleep(_LOOK_S)
            came = store.add(_JOINED, 0)
        present = range(size) if came >= size else [peer for peer in range(size) if store.check([f"{_JOINED}/{peer}"])]
    except RuntimeError as error:
        raise RanksAbsent(
            f"rank {rank} of {size} lost rank 0 at {place} while ranks met: {_first_line(error)}",
            "a rank 0 that waits until all have come",
            "see what rank 0 printed; start all ranks at about the same time, with the same patience",
            teller=rank,
        ) from error
    absent = [peer for peer in range(size) if peer not in present]
    if absent:
        named = ", ".join(map(str, absent[:_MOST_NAMED])) + (", …" if len(absent) > _MOST_NAMED else "")
        raise RanksAbsent(
            f"{len(present)} of {size} ranks joined at {place} within {patience.total_seconds():g} s; not "
            f"there: rank {named}",
            "all ranks that were started",
            _ADVICE,
            teller=min(present),
        )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
