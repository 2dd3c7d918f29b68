"""``Counting``: writes down every call of another communicator, and adds up what it moves."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from threading import Lock
from time import perf_counter_ns
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.communicators.communicator import ANY, Communicator, Received, Reduction, Request

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

packed_call = Struct(f"{len(FIELDS)}q").pack
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
class CallTotal:
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


class CallLog:
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

    def totals(self) -> Mapping[str, CallTotal]:
        """Operation to its `Total`, for those that were called."""
        calls = self.calls()
        ranks = np.array(self.groups, np.int64)[calls["group"]]
        by_operation = {}
        for number, operation in enumerate(OPERATIONS):
            mask = calls["operation"] == number
            if mask.any():
                bytes_moved = moved(operation, calls["whole"][mask], ranks[mask])
                seconds = float(calls["inside_ns"][mask].sum()) / 1e9
                by_operation[operation] = CallTotal(
                    int(mask.sum()), int(calls["payload"][mask].sum()), float(np.sum(bytes_moved)), seconds
                )
        return by_operation

    def clear(self) -> None:
        """Forget the calls that are done."""
        del self.rows[:]


T = TypeVar("T")

_SEND, _RECV, _ISEND, _IRECV, _SENDRECV, _EXCHANGE, _BARRIER, _BROADCAST, _REDUCE, _ALLREDUCE = range(10)
_IALLREDUCE, _GATHER, _ALLGATHER, _SCATTER, _REDUCE_SCATTER, _ALLTOALL, _SPLIT = range(10, len(OPERATIONS))
_ALL = -1


@dataclass(frozen=True, slots=True)
class Volume:
    """The bytes of one rank, seen from three places that are not to be mixed.

    Args:
        payload: Handed over by the program: of the arrays that it gave to be sent, broadcast, reduced, …
        moved: That the usual algorithms must send; see `deep_bench.distributed.communicators.counting.moved`.
        wire: That were sent, where something below counts them; ``None``: not available.
    """

    payload: int
    moved: float
    wire: int | None

    def __str__(self) -> str:
        wire = "not available" if self.wire is None else f"{self.wire} B"
        return f"payload {self.payload} B, moved by the usual algorithms {self.moved:.0f} B, on the wire {wire}"


class Counting(Communicator):
    """Does what another communicator does, and writes down each call.

    Only what goes through this object is seen. Groups that are split from it write into the same log.

    Args:
        comm: The communicator that does it.

    Attributes:
        log: The calls.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def twice(comm):
        ...     counting = Counting(comm)
        ...     for _ in range(2):
        ...         counting.allreduce(np.zeros(100))
        ...     return counting.totals()["allreduce"]
        >>> total = run_local(4, twice)[0]
        >>> total.calls, total.payload, total.moved
        (2, 1600, 2400.0)
    """

    name: ClassVar[str] = "counting"

    def __init__(self, comm: Communicator) -> None:
        self._begin(comm, CallLog())

    def _begin(self, comm: Communicator, log: CallLog) -> None:
        self.inner, self.log = comm, log
        self.rank, self.size, self.threads = comm.rank, comm.size, comm.threads
        self._group = log.group(comm.size)
        self._write = log.rows.frombytes
        self._wire = comm.wire_bytes()

    @property
    def largest(self) -> int:
        """That of the communicator within."""
        return self.inner.largest

    @largest.setter
    def largest(self, elements: int) -> None:
        self.inner.largest = elements

    # What was seen

    @property
    def calls(self) -> dict[str, NDArray[np.int64]]:
        """One array for each fact, with an element for each call, in the order in which they began.

        ``operation``: its number in `OPERATIONS`. ``payload``: bytes of this rank's array. ``whole``: bytes that the formula
        of `moved` takes. ``peer``: the other rank, the root, or the source that a message came from; -1 for all; below,
        several (``log.peers``). ``group``: 0 for the first communicator, others for those split from it. ``start_ns``: on
        ``perf_counter_ns``. ``duration_ns``: to its end, or until a request was found done; -1 for one that was not yet.
        ``inside_ns``: time of it that was spent in the call, and in waiting for its request.
        """
        return self.log.calls()

    def totals(self) -> Mapping[str, CallTotal]:
        """Operation to the sum of its calls."""
        return self.log.totals()

    def volume(self) -> Volume:
        """The bytes of all calls; those on the wire since this was made, of everything that the process sent."""
        totals = self.totals()
        payload = sum(total.payload for name, total in totals.items() if name not in ("recv", "irecv"))
        current = self.inner.wire_bytes()
        wire = None if current is None or self._wire is None else current - self._wire
        return Volume(payload, sum(total.moved for total in totals.values()), wire)

    def clear(self) -> None:
        """Forget the calls that are done, and begin again to count the bytes on the wire."""
        self.log.clear()
        self._wire = self.inner.wire_bytes()

    # Facts

    def describe(self) -> dict[str, str]:
        """Those of the communicator within; its calls are counted."""
        return {**self.inner.describe(), "counted": "yes"}

    def takes(self, array: Any) -> bool:
        """See `Communicator.takes`."""
        return self.inner.takes(array)

    def wire_bytes(self) -> int | None:
        """See `Communicator.wire_bytes`."""
        return self.inner.wire_bytes()

    def lost(self) -> frozenset[int]:
        """See `Communicator.lost`."""
        return self.inner.lost()

    @property
    def survives(self) -> bool:  # type: ignore[override]
        """See `Communicator.survives`."""
        return self.inner.survives

    def leave_out(self) -> None:
        """See `Communicator.leave_out`."""
        self.inner.leave_out()
        self.rank, self.size = self.inner.rank, self.inner.size
        self._group = self.log.group(self.size)

    # Messages

    def isend(self, x: np.ndarray, to: int, tag: int = 0) -> Request:
        """See `Communicator.isend`."""
        start = perf_counter_ns()
        return _Counted(self, _ISEND, x.nbytes, to, start, self.inner.isend(x, to, tag))

    def irecv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Request:
        """See `Communicator.irecv`."""
        start = perf_counter_ns()
        return _Counted(self, _IRECV, out.itemsize, source, start, self.inner.irecv(out, source, tag))

    def send(self, x: np.ndarray, to: int, tag: int = 0) -> None:
        """See `Communicator.send`."""
        start = perf_counter_ns()
        self.inner.send(x, to, tag)
        self._wrote(_SEND, x.nbytes, to, start)

    def recv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Received:
        """See `Communicator.recv`."""
        start = perf_counter_ns()
        came = self.inner.recv(out, source, tag)
        self._wrote(_RECV, came.elements * out.itemsize, came.source, start)
        return came

    def sendrecv(self, x: np.ndarray, to: int, out: np.ndarray, source: int, tag: int = 0) -> Received:
        """See `Communicator.sendrecv`; the message that comes is a line of its own, which took no time."""
        start = perf_counter_ns()
        came = self.inner.sendrecv(x, to, out, source, tag)
        self._wrote(_SENDRECV, x.nbytes, to, start)
        self._write(packed_call(_RECV, came.elements * out.itemsize, 0, came.source, self._group, start, 0, 0))
        return came

    def exchange(self, x: np.ndarray, to: Sequence[int], sources: Sequence[int], tag: int = 0) -> dict[int, np.ndarray]:
        """See `Communicator.exchange`; what comes from each source is a line of its own, which took no time."""
        start = perf_counter_ns()
        received = self.inner.exchange(x, to, sources, tag)
        self._wrote(_EXCHANGE, x.nbytes * len(to), self.log.several(tuple(to)), start)
        for source, came in received.items():
            self._write(packed_call(_RECV, came.nbytes, 0, source, self._group, start, 0, 0))
        return received

    def _wrote(self, operation: int, payload: int, peer: int, start: int) -> None:
        took = perf_counter_ns() - start
        self._write(packed_call(operation, payload, payload, peer, self._group, start, took, took))

    # Collective operations

    def barrier(self) -> None:
        """See `Communicator.barrier`."""
        start = perf_counter_ns()
        self.inner.barrier()
        self._wrote(_BARRIER, 0, _ALL, start)

    def broadcast(self, x: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.broadcast`."""
        start = perf_counter_ns()
        result = self.inner.broadcast(x, root)
        self._wrote(_BROADCAST, x.nbytes, root, start)
        return result

    def reduce(self, x: np.ndarray, op: Reduction = "sum", root: int = 0) -> np.ndarray | None:
        """See `Communicator.reduce`."""
        start = perf_counter_ns()
        result = self.inner.reduce(x, op, root)
        self._wrote(_REDUCE, x.nbytes, root, start)
        return result

    def allreduce(self, x: np.ndarray, op: Reduction = "sum", out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allreduce`."""
        start = perf_counter_ns()
        result = self.inner.allreduce(x, op, out)
        self._wrote(_ALLREDUCE, x.nbytes, _ALL, start)
        return result

    def iallreduce(self, x: np.ndarray, out: np.ndarray, op: Reduction = "sum") -> Request:
        """See `Communicator.iallreduce`."""
        start = perf_counter_ns()
        return _Counted(self, _IALLREDUCE, x.nbytes, _ALL, start, self.inner.iallreduce(x, out, op))

    def gather(self, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """See `Communicator.gather`."""
        start = perf_counter_ns()
        result = self.inner.gather(x, root)
        self._wrote(_GATHER, x.nbytes, root, start)
        return result

    def allgather(self, x: np.ndarray, counts: Sequence[int] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allgather`."""
        start = perf_counter_ns()
        result = self.inner.allgather(x, counts, out)
        took, payload = perf_counter_ns() - start, x.nbytes
        self._write(packed_call(_ALLGATHER, payload, result.nbytes, _ALL, self._group, start, took, took))
        return result

    def scatter(self, x: np.ndarray | None, out: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.scatter`."""
        start = perf_counter_ns()
        result = self.inner.scatter(x, out, root)
        took, payload = perf_counter_ns() - start, x.nbytes if x is not None and self.rank == root else 0
        self._write(packed_call(_SCATTER, payload, out.nbytes, root, self._group, start, took, took))
        return result

    def reduce_scatter(
        self, x: np.ndarray, counts: Sequence[int] | None = None, op: Reduction = "sum", out: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Communicator.reduce_scatter`."""
        start = perf_counter_ns()
        result = self.inner.reduce_scatter(x, counts, op, out)
        self._wrote(_REDUCE_SCATTER, x.nbytes, _ALL, start)
        return result

    def alltoall(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.alltoall`."""
        start = perf_counter_ns()
        result = self.inner.alltoall(x, out)
        self._wrote(_ALLTOALL, x.nbytes, _ALL, start)
        return result

    # Groups, and ends

    def split(self, color: int | None, key: int = 0) -> Counting | None:
        """See `Communicator.split`."""
        start = perf_counter_ns()
        group = self.inner.split(color, key)
        self._wrote(_SPLIT, 0, _ALL, start)
        if group is None:
            return None
        member = Counting.__new__(Counting)
        member._begin(group, self.log)
        return member

    def abort(self, reason: str) -> None:
        """See `Communicator.abort`."""
        self.inner.abort(reason)

    def close(self) -> None:
        """See `Communicator.close`; what was seen stays."""
        self.inner.close()


class _Counted(Request):
    __slots__ = ("_comm", "_inside", "_operation", "_payload", "_peer", "_received", "_request", "_start")

    def __init__(self, comm: Counting, operation: int, payload: int, peer: int, start: int, request: Request) -> None:
        self._comm, self._operation, self._payload, self._peer = comm, operation, payload, peer
        self._start, self._request = start, request
        self._received: Received | None = None
        comm.log.pending.add(self)
        self._inside = perf_counter_ns() - start

    def wait(self) -> Received | None:
        """Return when it is done."""
        if self in self._comm.log.pending:
            begin = perf_counter_ns()
            self._received = self._request.wait()
            self._done(begin)
        return self._received

    def test(self) -> bool:
        """Whether it is done."""
        if self not in self._comm.log.pending:
            return True
        begin = perf_counter_ns()
        if self._request.test():
            self._received = self._request.wait()
            self._done(begin)
            return True
        self._inside += perf_counter_ns() - begin
        return False

    def _done(self, begin: int) -> None:
        end = perf_counter_ns()
        self._inside += end - begin
        self._comm.log.pending.discard(self)
        del self._request  # and with it the arrays
        self._comm._write(packed_call(*self.row(end - self._start)))

    def row(self, duration: int = -1) -> tuple[int, ...]:
        """What is known of it."""
        payload, peer, came = self._payload, self._peer, self._received
        if self._operation == _IRECV:
            payload, peer = (payload * came.elements, came.source) if came else (0, peer)
        return (self._operation, payload, payload, peer, self._comm._group, self._start, duration, self._inside)
