"""``MpiCommunicator``: ranks are processes under MPI."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from deep_bench.adapters.mpi.arrays import Layout, OnDevice, address, cuda_aware, is_on_cuda, parts, placed
from deep_bench.adapters.mpi.begin import Threads, begun, level
from deep_bench.adapters.mpi.facts import facts, tolerates_faults
from deep_bench.adapters.mpi.kinds import kinds
from deep_bench.adapters.mpi.requests import MpiRequest, failure, put, received, told
from deep_bench.adapters.mpi.wire import Wire
from deep_bench.distributed.communicators.checks import check_color, check_peer, check_reduction, check_writable
from deep_bench.distributed.communicators.communicator import ANY, Communicator, Received, Reduction, Request
from deep_bench.distributed.communicators.guard import end_process
from deep_bench.distributed.communicators.plain import check_counts, check_out, check_rank, check_rows
from deep_bench.errors import Unsupported

_SMALL = 2**20
"""Arrays of so many bytes at most are remembered by `MpiCommunicator.allreduce`."""

_Told = tuple[Any, int, Any]


class MpiCommunicator(Communicator):
    """The ranks that ``mpirun`` or ``srun`` started, by mpi4py's calls on buffers.

    Contiguous arrays are neither copied nor pickled. Longer ones than MPI can count are cut for reductions, and described by
    a longer type otherwise. float16, bfloat16 and other types that MPI lacks are sent as bytes and reduced by NumPy's
    functions, each step of which rounds. With an MPI that is CUDA-aware, arrays on a CUDA device (with
    ``__cuda_array_interface__``) are taken too; results that have no ``out`` are in host memory.

    Args:
        comm: mpi4py's communicator, of which a duplicate is used, so that messages of others are not mixed with these; all
            of its ranks must make this at the same time. ``None`` for the world's.
        threads: The least level of thread support: ``"multiple"`` if several threads communicate at the same time.

    Attributes:
        native: mpi4py's communicator.

    Raises:
        FrameworkMissing: No mpi4py, or it finds no MPI library.
        Unsupported: MPI has begun with a lower level of thread support.

    Example:
        >>> comm = MpiCommunicator()
        >>> comm.allreduce(np.ones(2, np.float32)).tolist() == [comm.size, comm.size]
        True

    Source: Dalcin, Fang, *mpi4py: Status Update After 12 Years of Development*, 2021.
    """

    name: ClassVar[str] = "mpi"

    def __init__(self, comm: Any = None, *, threads: Threads = "serialized") -> None:
        MPI = begun(threads)
        self._begin(MPI, (MPI.COMM_WORLD if comm is None else comm).Dup())

    def _begin(self, MPI: Any, native: Any) -> None:
        self._mpi, self.native = MPI, native
        self.rank, self.size = native.Get_rank(), native.Get_size()
        self._kinds, self._layout = kinds(MPI), Layout(MPI)
        self._allreduce = native.Allreduce
        self.threads = level(MPI) == "multiple"
        self.survives = tolerates_faults(MPI)
        self._last: tuple[Any, ...] = (None,) * 7

    # Facts

    def describe(self) -> dict[str, str]:
        """The MPI library with its version, the level of thread support, the host, what started the ranks, …"""
        return {"communicator": self.name, **facts(self._mpi)}

    def takes(self, array: Any) -> bool:
        """NumPy arrays; those on a CUDA device where the MPI is CUDA-aware."""
        return isinstance(array, np.ndarray) or (is_on_cuda(array) and cuda_aware(self._mpi))

    def wire_bytes(self) -> int | None:
        """See `Communicator.wire_bytes`: what Open MPI's monitoring counts, if it was started with it; see `Wire`."""
        wire = Wire.of(self._mpi)
        return None if wire is None else wire.sent()

    def lost(self) -> frozenset[int]:
        """See `Communicator.lost`; none without `survives`."""
        if not self.survives:
            return frozenset()
        self.native.Ack_failed()
        failed, group = self.native.Get_failed(), self.native.Get_group()
        return frozenset(self._mpi.Group.Translate_ranks(failed, list(range(failed.Get_size())), group))

    @told
    def leave_out(self) -> None:
        """See `Communicator.leave_out`."""
        if not self.survives:
            super().leave_out()
        largest = self.largest
        self._begin(self._mpi, self.native.Shrink())
        self.largest = largest

    # How arrays are told to MPI

    def _tell(self, array: np.ndarray, elements: int | None = None) -> _Told:
        return self._layout.told(array, self._kinds[array.dtype], self.largest, elements)

    def _readable(self, x: Any) -> np.ndarray:
        """An array that MPI can read: itself, or a contiguous copy."""
        x = placed(x, self._mpi)
        return x if x.flags.c_contiguous else np.array(x, order="C")

    def _target(self, out: Any, elements: int | None = None, dtype: np.dtype | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Where a result goes, and a contiguous array that MPI can write: itself where possible."""
        out = placed(out, self._mpi)
        if elements is not None and dtype is not None:
            check_out(out, elements, dtype)
        check_writable(out)
        return out, out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)

    def _op(self, x: np.ndarray, op: str) -> Any:
        check_reduction(op)
        kind = self._kinds[x.dtype]
        if op in kind.own and isinstance(x, OnDevice):
            raise Unsupported(f"the {op} of {x.dtype} on a CUDA device, which MPI has not", "an array in host memory")
        return kind.ops[op]

    # Messages

    @told
    def isend(self, x: np.ndarray, to: int, tag: int = 0) -> Request:
        """See `Communicator.isend`."""
        check_peer(self, to, tag)
        x = self._readable(x)
        return MpiRequest(self._mpi, [self.native.Isend(self._tell(x), to, tag)], x)

    @told
    def irecv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Request:
        """See `Communicator.irecv`."""
        check_peer(self, source, tag, anyone=True)
        out, buffer = self._target(out)
        begun = self.native.Irecv(self._tell(buffer), self._source(source), tag)
        return MpiRequest(self._mpi, [begun], buffer, lambda status: self._arrived(status, out, buffer))

    @told
    def send(self, x: np.ndarray, to: int, tag: int = 0) -> None:
        """See `Communicator.send`."""
        check_peer(self, to, tag)
        self.native.Send(self._tell(self._readable(x)), to, tag)

    @told
    def recv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Received:
        """See `Communicator.recv`."""
        check_peer(self, source, tag, anyone=True)
        out, buffer = self._target(out)
        status = self._mpi.Status()
        self.native.Recv(self._tell(buffer), self._source(source), tag, status)
        return self._arrived(status, out, buffer)

    @told
    def sendrecv(self, x: np.ndarray, to: int, out: np.ndarray, source: int, tag: int = 0) -> Received:
        """See `Communicator.sendrecv`."""
        check_peer(self, to, tag)
        check_peer(self, source, tag, anyone=True)
        out, buffer = self._target(out)
        status = self._mpi.Status()
        sent = self._tell(self._readable(x))
        self.native.Sendrecv(sent, to, tag, self._tell(buffer), self._source(source), tag, status)
        return self._arrived(status, out, buffer)

    def _source(self, source: int) -> int:
        return self._mpi.ANY_SOURCE if source == ANY else source

    def _arrived(self, status: Any, out: np.ndarray, buffer: np.ndarray) -> Received:
        came = received(status, self._kinds[out.dtype])
        put(out, buffer, came.elements)
        return came

    # Collective operations

    @told
    def barrier(self) -> None:
        """See `Communicator.barrier`."""
        self.native.Barrier()

    @told
    def broadcast(self, x: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.broadcast`."""
        check_rank(self, root)
        if self.rank == root:
            out = buffer = self._readable(x)
        else:
            out, buffer = self._target(x)
        self.native.Bcast(self._tell(buffer), root)
        put(out, buffer, buffer.size)
        return x

    @told
    def reduce(self, x: np.ndarray, op: Reduction = "sum", root: int = 0) -> np.ndarray | None:
        """See `Communicator.reduce`."""
        check_rank(self, root)
        x = self._readable(x)
        total = np.empty(x.shape, x.dtype) if self.rank == root else None
        self._reduce(x, total, self._op(x, op), root)
        return total

    def _reduce(self, x: np.ndarray, total: np.ndarray | None, op: Any, root: int) -> None:
        flat, into = x.reshape(-1), None if total is None else total.reshape(-1)
        for part in parts(x.size, self.largest):
            self.native.Reduce(self._tell(flat[part]), None if into is None else self._tell(into[part]), op, root)

    def allreduce(self, x: np.ndarray, op: Reduction = "sum", out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allreduce`."""
        # A loop hands over the same two small arrays again and again, and to look at them costs much of an operation's time.
        last_x, last_out, last_op, sent, got, mpi_op, dtype = self._last
        if x is last_x and out is last_out and op is last_op and x.dtype is dtype and out.dtype is dtype:
            try:
                self._allreduce(sent, got, mpi_op)
            except self._mpi.Exception as error:
                raise failure(error) from error
            return out
        return self._allreduce_any(x, op, out)

    @told
    def _allreduce_any(self, x: np.ndarray, op: Reduction, out: np.ndarray | None) -> np.ndarray:
        original, x = x, self._readable(x)
        mpi_op = self._op(x, op)
        result = np.empty(x.shape, x.dtype) if out is None else out
        out_array, buffer = self._target(result, x.size, x.dtype)
        x = self._apart(x, buffer)
        if x is original and buffer is out and x.nbytes <= _SMALL and x.size <= self.largest:
            sent = self._mpi.IN_PLACE if x is out else self._tell(x)
            self._last = (x, out, op, sent, self._tell(out), mpi_op, x.dtype)
        for sent, got in self._pieces(x, buffer):
            self._allreduce(sent, got, mpi_op)
        put(out_array, buffer, buffer.size)
        return result

    @told
    def iallreduce(self, x: np.ndarray, out: np.ndarray, op: Reduction = "sum") -> Request:
        """See `Communicator.iallreduce`."""
        x = self._readable(x)
        mpi_op = self._op(x, op)
        out, buffer = self._target(out, x.size, x.dtype)
        x = self._apart(x, buffer)
        begun = [self.native.Iallreduce(sent, got, mpi_op) for sent, got in self._pieces(x, buffer)]
        return MpiRequest(self._mpi, begun, (x, buffer), lambda _: put(out, buffer, buffer.size))

    def _apart(self, x: np.ndarray, buffer: np.ndarray) -> np.ndarray:
        """What is sent where both share memory: MPI takes the same one, as in place, but no overlap."""
        if x is buffer or not np.may_share_memory(x, buffer):
            return x
        return buffer if address(x) == address(buffer) and x.size == buffer.size else x.copy()

    def _pieces(self, x: np.ndarray, buffer: np.ndarray) -> list[tuple[Any, _Told]]:
        if x.size <= self.largest:
            return [(self._mpi.IN_PLACE if x is buffer else self._tell(x), self._tell(buffer))]
        flat, into = x.reshape(-1), buffer.reshape(-1)
        pairs = [(self._tell(flat[part]), self._tell(into[part])) for part in parts(x.size, self.largest)]
        return [(self._mpi.IN_PLACE, got) for _, got in pairs] if x is buffer else pairs

    @told
    def gather(self, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """See `Communicator.gather`."""
        check_rank(self, root)
        x = self._readable(x)
        rows = np.empty((self.size, *x.shape), x.dtype) if self.rank == root else None
        self.native.Gather(self._tell(x), None if rows is None else self._tell(rows, x.size), root)
        return rows

    @told
    def allgather(self, x: np.ndarray, counts: Sequence[int] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allgather`. Where ``x`` lies in its own place within ``out`` it is not copied."""
        x = self._readable(x)
        if counts is not None:
            check_counts(counts, self.size, x.size, self.rank)
            if sum(counts) > self.largest:
                return super().allgather(x, counts, out)
        shape = (self.size, *x.shape) if counts is None else (sum(counts),)
        result = np.empty(shape, x.dtype) if out is None else out
        out_array, buffer = self._target(result, int(np.prod(shape)), x.dtype)
        before = x.size * self.rank if counts is None else sum(counts[: self.rank])
        sent = self._own(x, buffer, before)
        if counts is None:
            self.native.Allgather(sent, self._tell(buffer, x.size))
        else:
            self.native.Allgatherv(sent, self._ragged(buffer, counts))
        put(out_array, buffer, buffer.size)
        return result

    def _own(self, x: np.ndarray, buffer: np.ndarray, before: int) -> Any:
        if not np.may_share_memory(x, buffer):
            return self._tell(x)
        in_place = address(x) == address(buffer) + before * x.itemsize
        return self._mpi.IN_PLACE if in_place else self._tell(x.copy())

    def _ragged(self, array: np.ndarray, counts: Sequence[int]) -> tuple[Any, Any, Any]:
        memory, _, mpi_type = self._tell(array)
        return memory, (list(counts), [sum(counts[:rank]) for rank in range(self.size)]), mpi_type

    @told
    def scatter(self, x: np.ndarray | None, out: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.scatter`."""
        check_rank(self, root)
        sent, result = None, out
        if self.rank == root:
            rows = check_rows(self, None if x is None else self._readable(x))
            out, buffer = self._target(out, rows.size // self.size, rows.dtype)
            sent = self._tell(rows.copy() if np.may_share_memory(rows, buffer) else rows, buffer.size)
        else:
            out, buffer = self._target(out)
        self.native.Scatter(sent, self._tell(buffer), root)
        put(out, buffer, buffer.size)
        return result

    @told
    def reduce_scatter(
        self, x: np.ndarray, counts: Sequence[int] | None = None, op: Reduction = "sum", out: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Communicator.reduce_scatter`."""
        x = self._readable(x)
        if counts is None:
            shape = check_rows(self, x).shape[1:]
            each = [x.size // self.size] * self.size
        else:
            check_counts(counts, self.size, x.size)
            shape, each = (counts[self.rank],), list(counts)
        mpi_op = self._op(x, op)
        result = np.empty(shape, x.dtype) if out is None else out
        out_array, buffer = self._target(result, each[self.rank], x.dtype)
        if np.may_share_memory(x, buffer):
            buffer = np.empty(buffer.shape, buffer.dtype)
        if x.size > self.largest:
            for rank, row in enumerate(np.split(x.reshape(-1), np.cumsum(each)[:-1])):
                self._reduce(row, buffer if rank == self.rank else None, mpi_op, rank)
        else:
            self.native.Reduce_scatter(self._tell(x), self._tell(buffer), each, mpi_op)
        put(out_array, buffer, buffer.size)
        return result

    @told
    def alltoall(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.alltoall`."""
        rows = check_rows(self, self._readable(x))
        result = np.empty(rows.shape, rows.dtype) if out is None else out
        out_array, buffer = self._target(result, rows.size, rows.dtype)
        if np.may_share_memory(rows, buffer):
            rows = rows.copy()
        each = rows.size // self.size
        self.native.Alltoall(self._tell(rows, each), self._tell(buffer, each))
        put(out_array, buffer, buffer.size)
        return result

    # Groups, and ends

    @told
    def split(self, color: int | None, key: int = 0) -> MpiCommunicator | None:
        """See `Communicator.split`."""
        check_color(color)
        native = self.native.Split(self._mpi.UNDEFINED if color is None else color, key)
        if native == self._mpi.COMM_NULL:
            return None
        member = MpiCommunicator.__new__(MpiCommunicator)
        member._begin(self._mpi, native)
        member.largest = self.largest
        return member

    def abort(self, reason: str) -> None:
        """End all ranks of the world, after the reason is told."""
        end_process(f"rank {self._mpi.COMM_WORLD.Get_rank()}", reason, self._mpi.COMM_WORLD.Abort)

    def close(self) -> None:
        """Give MPI's communicator back; all ranks do that."""
        self._last = (None,) * 7
        self._layout.free()
        self.native.Free()
