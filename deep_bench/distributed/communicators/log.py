"""What a `Counting` communicator has seen, and what it adds up to."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

OPERATIONS = (
    "send",
    "recv",
    "isend",
    "irecv",
    "sendrecv",
    "exchange",
    "barrier",
    "broadcast",
    "reduce",
    "allreduce",
    "iallreduce",
    "gather",
    "allgather",
    "scatter",
    "reduce_scatter",
    "alltoall",
    "split",
)
"""The operations in the order of their numbers in `Log.calls`."""

FIELDS = ("operation", "payload", "whole", "peer", "group", "start_ns", "duration_ns", "inside_ns")

packed = Struct(f"{len(FIELDS)}q").pack
"""The numbers of a call as `Log.rows` takes them, which is six times as fast as one number after the other."""

_SENT = {"send", "isend", "sendrecv", "exchange"}
_ONCE = {"broadcast", "reduce", "gather", "scatter", "allgather", "reduce_scatter", "alltoall"}
_TWICE = {"allreduce", "iallreduce"}


def moved(operation: str, whole: Any, ranks: Any) -> Any:
    r"""The bytes that a rank must send for an operation, on average over its ranks.

    With :math:`p` ranks, and :math:`n` bytes of what the operation is about:

    ==================================  ======================  ===============================================
    send, isend, sendrecv, exchange     :math:`n`               what is sent, to all receivers together
    allreduce, iallreduce               :math:`2 n (p - 1) / p`  n of one array; reduce-scatter, then allgather
    allgather                           :math:`n (p - 1) / p`   n of the result: (p - 1) times one rank's array
    reduce_scatter, alltoall            :math:`n (p - 1) / p`   n of one rank's array, with all its rows
    broadcast, reduce                   :math:`n (p - 1) / p`   n of one array; a tree has p - 1 edges
    gather, scatter                     :math:`n (p - 1) / p`   n of one row
    recv, irecv, barrier, split         0
    ==================================  ======================  ===============================================

    Args:
        operation: Its name.
        whole: :math:`n`.
        ranks: :math:`p`.

    Example:
        >>> moved("allreduce", 1000, 4)
        1500.0

    Source: Thakur, Rabenseifner, Gropp, *Optimization of Collective Communication Operations in MPICH*, 2005, section 4.
    """
    if operation in _SENT:
        return whole
    times = 2 if operation in _TWICE else 1 if operation in _ONCE else 0
    return times * whole * (ranks - 1) / ranks


@dataclass(frozen=True, slots=True)
class Total:
    """All calls of one operation.

    Args:
        calls: How many.
        payload: Bytes of the arrays that were handed over; of those that came, for receives.
        moved: Bytes that the usual algorithm has a rank send; see `moved`.
        seconds: Time spent within the calls, and waiting for their requests.
    """

    calls: int
    payload: int
    moved: float
    seconds: float


class Log:
    """Calls, as numbers in one growing array of 8 to a call."""

    def __init__(self) -> None:
        self.rows = array("q")
        self.pending: set[Any] = set()
        self.groups: list[int] = []
        self._peers: dict[tuple[int, ...], int] = {}
        self._lock = Lock()

    def group(self, ranks: int) -> int:
        """A number for a new group of so many ranks."""
        with self._lock:
            self.groups.append(ranks)
            return len(self.groups) - 1

    def several(self, peers: tuple[int, ...]) -> int:
        """The number, from -2 down, that stands for several ranks."""
        with self._lock:
            return self._peers.setdefault(peers, -2 - len(self._peers))

    def peers(self, number: int) -> tuple[int, ...]:
        """The ranks that a number in ``peer`` stands for; none for -1, which is all of the group."""
        if number >= -1:
            return () if number < 0 else (number,)
        return list(self._peers)[-2 - number]

    def calls(self) -> dict[str, NDArray[np.int64]]:
        """One array for each of `FIELDS`, in the order in which the calls began."""
        waiting = [request.row() for request in tuple(self.pending)]
        rows = np.concatenate(
            [
                np.array(self.rows, np.int64).reshape(-1, len(FIELDS)),
                np.array(waiting, np.int64).reshape(-1, len(FIELDS)),
            ]
        )
        rows = rows[np.argsort(rows[:, FIELDS.index("start_ns")], kind="stable")]
        return {name: np.ascontiguousarray(rows[:, column]) for column, name in enumerate(FIELDS)}

    def totals(self) -> Mapping[str, Total]:
        """Operation to its `Total`, for those that were called."""
        calls = self.calls()
        ranks = np.array(self.groups, np.int64)[calls["group"]]
        by_operation = {}
        for number, operation in enumerate(OPERATIONS):
            mask = calls["operation"] == number
            if mask.any():
                bytes_moved = moved(operation, calls["whole"][mask], ranks[mask])
                seconds = float(calls["inside_ns"][mask].sum()) / 1e9
                by_operation[operation] = Total(
                    int(mask.sum()), int(calls["payload"][mask].sum()), float(np.sum(bytes_moved)), seconds
                )
        return by_operation

    def clear(self) -> None:
        """Forget the calls that are done."""
        del self.rows[:]
