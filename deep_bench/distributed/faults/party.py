"""The ranks that watch each other, and how each can be reached."""

from __future__ import annotations

import json
import os
import platform
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.faults.leaving import leave, say
from deep_bench.distributed.faults.lines import Lines, connected, listening

_BYTES = 512
_TOKEN_BYTES = 16
_BEAT_S = 0.5
_BEATS_A_SECOND = 128
"""So many does rank 0 hear at most, of all ranks together."""


@dataclass(frozen=True)
class Member:
    """A rank, and how it is reached.

    Args:
        host: Where it runs.
        pid: Its process.
        port: Where it listens.
        addresses: Of its host.
    """

    host: str
    pid: int
    port: int
    addresses: list[str]


@dataclass(frozen=True)
class Party:
    """All ranks, as one of them sees them.

    Args:
        rank: This one.
        members: All, by rank.
        token: What only they know.
        server: Where this one listens.
        patience_s: How long a rank may be silent, or keep others waiting.
        folder: Where tracebacks are written; ``None`` for nowhere.
        resume: How to go on after a fault.
        tell: Says something to the user.
        leave: Ends this process with a status.
    """

    rank: int
    members: list[Member]
    token: str
    server: socket.socket
    patience_s: float
    folder: Path | None = None
    resume: str = ""
    tell: Callable[[str], object] = field(default=say, repr=False)
    leave: Callable[[int], object] = field(default=leave, repr=False)

    @property
    def beat_s(self) -> float:
        """How often each rank tells where it is."""
        return min(max(_BEAT_S, len(self.members) / _BEATS_A_SECOND), self.patience_s / 4)

    def reach(self, rank: int, within_s: float) -> Lines | None:
        """A connection to another rank; ``None`` if it does not answer."""
        peer, me = self.members[rank], self.members[self.rank]
        return connected(peer.addresses, peer.port, self.token, within_s, rank=self.rank, pid=me.pid)

    def beside(self, rank: int) -> bool:
        """Whether another rank is on this one's host."""
        return self.members[rank].host == self.members[self.rank].host


def assembled(comm: Communicator, patience_s: float, folder: Path | None, resume: str, host: str | None = None) -> Party:
    """Tell all ranks of each other; they all call this together.

    Args:
        comm: The ranks.
        patience_s: See `Party`.
        folder: See `Party`.
        resume: See `Party`.
        host: Where this rank runs.
    """
    host = host or platform.node()
    hosts = _all(comm, host.encode())
    alone = len(set(hosts)) == 1
    server = listening(everywhere=not alone)
    mine = [host, os.getpid(), server.getsockname()[1], ["127.0.0.1"] if alone else _addresses(host)]
    members = [Member(*json.loads(row)) for row in _all(comm, json.dumps(mine).encode())]
    token = np.frombuffer(secrets.token_bytes(_TOKEN_BYTES), np.uint8).copy()
    comm.broadcast(token)
    return Party(comm.rank, members, token.tobytes().hex(), server, patience_s, folder, resume)


def _all(comm: Communicator, text: bytes) -> list[bytes]:
    padded = np.zeros(_BYTES, np.uint8)
    padded[: len(text)] = np.frombuffer(text[:_BYTES], np.uint8)
    return [row.tobytes().rstrip(b"\0") for row in comm.allgather(padded)]


def _addresses(host: str) -> list[str]:
    """The names and numbers by which other hosts may reach this one; a few."""
    addresses = [
        entry.address for entries in psutil.net_if_addrs().values() for entry in entries if entry.family == socket.AF_INET
    ]
    return [host, *(address for address in addresses if not address.startswith("127."))][:8]
