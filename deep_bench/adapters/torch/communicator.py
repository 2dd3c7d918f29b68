"""`TorchCommunicator`: ranks are processes under ``torch.distributed``.

The receiver of a message learns how long it is. Collective operations on tensors that lie on a device need not look into
them by NumPy.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from threading import Thread
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import torch
import torch.distributed as dist

from deep_bench.adapters.torch.arrays import view_of
from deep_bench.adapters.torch.rendezvous import Meeting, meeting
from deep_bench.distributed.communicators.communicator import (
    ANY,
    Communicator,
    Received,
    Reduction,
    Request,
    check_color,
    check_counts,
    check_out,
    check_peer,
    check_rank,
    check_reduction,
    check_rows,
    check_writable,
    end_process,
)
from deep_bench.errors import CommunicationFailed, InvalidArgument, Unsupported

_FIRST_TAG, _TAGS = 2**24, 2**24
_HEAD = 4


def memory(array: np.ndarray) -> torch.Tensor:
    """The memory of a contiguous array, as bytes; a copy if it may not be written, which torch has no tensors for."""
    flat = array.reshape(-1).view(np.uint8)
    return torch.from_numpy(flat if flat.flags.writeable else flat.copy())


class _Awaited(Request):
    """A request whose library cannot be asked whether it is done: a thread waits for it."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._error: BaseException | None = None
        self._done = False
        self._received: Received | None = None

    def wait(self) -> Received | None:
        """Return when it is done."""
        if self._thread is not None:
            self._thread.join()
        self._finish()
        if self._error is not None:
            raise self._error
        return self._received

    def test(self) -> bool:
        """Whether it is done."""
        self.go_on()
        return self._done

    def go_on(self) -> None:
        """Do what is left to do while the caller does something else."""
        if self._thread is None and not self._done:
            self._thread = Thread(target=self._finish, daemon=True)
            self._thread.start()

    def _finish(self) -> None:
        if self._done:
            return
        try:
            self._received = self._awaited()
        except RuntimeError as error:
            self._error = CommunicationFailed(f"torch.distributed failed: {error}")
        except CommunicationFailed as error:
            self._error = error
        self._done = True

    def _awaited(self) -> Received | None:
        raise NotImplementedError


class Sending(_Awaited):
    """A message that is being sent.

    Args:
        array: It, contiguous.
        to: The rank in the world.
        group: torch's group.
        tag: Its tag.
        number: Of the messages from here to there so far.
    """

    def __init__(self, array: np.ndarray, to: int, group: Any, tag: int, number: int) -> None:
        super().__init__()
        inner = _FIRST_TAG + number % _TAGS
        self._kept = [torch.tensor([array.size, inner, array.itemsize, _checksum(array.dtype)]), memory(array)]
        self._works: list[Any] = [dist.isend(self._kept[0], to, group=group, tag=tag)]
        if array.nbytes:
            self._works.append(dist.isend(self._kept[1], to, group=group, tag=inner))

    def _awaited(self) -> None:
        for work in self._works:
            work.wait()
        self._kept.clear()


class Receiving(_Awaited):
    """A message that is being received.

    Args:
        out: Where it goes.
        source: The rank in the world; ``None`` for whoever sends first.
        group: torch's group.
        tag: Its tag.
        named: The rank in the world, and ours, for a rank in torch's group.
    """

    def __init__(
        self, out: np.ndarray, source: int | None, group: Any, tag: int, named: Callable[[int], tuple[int, int]]
    ) -> None:
        super().__init__()
        self._out, self._group, self._tag, self._named = out, group, tag, named
        self._head = torch.zeros(_HEAD, dtype=torch.int64)
        self._work: Any = dist.irecv(self._head, source, group=group, tag=tag)

    def _awaited(self) -> Received:
        self._work.wait()
        world, ours = self._named(self._work._source_rank())
        elements, inner, itemsize, checksum = self._head.tolist()
        out = self._out
        fits = elements <= out.size and checksum == _checksum(out.dtype)
        direct = fits and out.flags.c_contiguous
        buffer = out.reshape(-1).view(np.uint8)[: elements * itemsize] if direct else np.empty(elements * itemsize, np.uint8)
        if buffer.size:
            dist.recv(torch.from_numpy(buffer), world, group=self._group, tag=inner)
        if not fits:
            raise CommunicationFailed(
                f"rank {ours} sent {elements} elements of {itemsize} bytes", f"at most {out.size} of {out.dtype}"
            )
        if not direct:
            out.flat[:elements] = buffer.view(out.dtype)
        return Received(ours, self._tag, elements)


def _checksum(dtype: np.dtype) -> int:
    return crc32(f"{dtype.name} {dtype.str}".encode())


class Working(Request):
    """A collective operation under way.

    Args:
        work: torch's.
        after: Called once, when it is done.
    """

    def __init__(self, work: Any, after: Callable[[], object]) -> None:
        self._work, self._after = work, after

    def wait(self) -> None:
        """Return when it is done."""
        if self._work is not None:
            try:
                self._work.wait()
            except RuntimeError as error:
                raise CommunicationFailed(f"torch.distributed failed: {error}") from error
            self._work = None
            self._after()

    def test(self) -> bool:
        """Whether it is done."""
        if self._work is not None and self._work.is_completed():
            self.wait()
        return self._work is None


OPS = {"sum": dist.ReduceOp.SUM, "prod": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class TensorCollectives:
    """Those of one group. What they return is ready in the order of the device's stream; the host may have to wait for that.

    Args:
        group: torch's.
        world: The ranks of the world, in the order of ours.
    """

    def __init__(self, group: Any, world: tuple[int, ...]) -> None:
        self._group, self._world = group, world
        self._in_order = list(world) == sorted(world)

    def allreduce(self, x: torch.Tensor, op: str, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.allreduce`."""
        return self.begun(x, op, out)[0]

    def begun(self, x: torch.Tensor, op: str, out: torch.Tensor | None, *, later: bool = False) -> tuple[torch.Tensor, Any]:
        """An allreduce, and torch's request for it if its end is waited for ``later``."""
        check_reduction(op)
        self._check(x.numel(), x, out)
        target = x.contiguous().clone() if out is None else out
        if out is not None and out is not x:
            out.copy_(x.view(out.shape))
        return target, dist.all_reduce(target, OPS[op], group=self._group, async_op=later)

    def reduce(self, x: torch.Tensor, op: str, root: int) -> torch.Tensor:
        """See `Communicator.reduce`; what other ranks than the root get is of no use."""
        check_reduction(op)
        total = x.contiguous().clone()
        dist.reduce(total, self._world[root], OPS[op], group=self._group)
        return total

    def broadcast(self, x: torch.Tensor, root: int) -> torch.Tensor:
        """See `Communicator.broadcast`."""
        self._check(x.numel(), x, x)
        dist.broadcast(x, self._world[root], group=self._group)
        return x

    def allgather(self, x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.allgather`, without counts."""
        size = len(self._world)
        self._check(x.numel() * size, x, out)
        rows = x.new_empty((size, *x.shape)) if out is None else out
        sorted_rows = [row for _, row in sorted(zip(self._world, rows.view(size, *x.shape), strict=True), key=_first)]
        dist.all_gather(sorted_rows, x.contiguous(), group=self._group)
        return rows

    def reduce_scatter(self, x: torch.Tensor, op: str, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.reduce_scatter`, without counts."""
        check_reduction(op)
        size, rank = len(self._world), self._world.index(dist.get_rank())
        if x.ndim == 0 or len(x) != size:
            raise InvalidArgument(f"{x.dtype}{list(x.shape)} for {size} ranks", f"a tensor of shape ({size}, …)")
        self._check(x.numel() // size, x, out)
        if not self._in_order:
            row = self.begun(x, op, None)[0][rank]
            return row.clone() if out is None else out.copy_(row.view(out.shape))
        row = x.new_empty(x.shape[1:]) if out is None else out
        single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        single(row, x.contiguous(), OPS[op], group=self._group)
        return row

    def alltoall(self, x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """See `Communicator.alltoall`."""
        if not self._in_order:
            raise Unsupported("alltoall of tensors in a group with another order of ranks", "arrays in host memory")
        self._check(x.numel(), x, out)
        rows = torch.empty_like(x) if out is None else out
        dist.all_to_all_single(rows, x.contiguous(), group=self._group)
        return rows

    @staticmethod
    def _check(elements: int, x: torch.Tensor, out: torch.Tensor | None) -> None:
        if out is not None and (out.numel() != elements or out.dtype != x.dtype or not out.is_contiguous()):
            raise InvalidArgument(
                f"out: {out.dtype}{list(out.shape)}{'' if out.is_contiguous() else ', not contiguous'}",
                f"{elements} elements of {x.dtype} one after the other",
            )


def _first(pair: tuple[int, torch.Tensor]) -> int:
    return pair[0]


_REDUCED = frozenset(np.dtype(name) for name in ("float32", "float64", "int8", "uint8", "int32", "int64"))
"""What gloo reduces; NumPy reduces the rest, so that it is rounded as elsewhere."""


class TorchCommunicator(Communicator):
    """The ranks that torchrun, ``mpirun`` or ``srun`` started, by gloo; by NCCL for tensors on CUDA devices.

    NumPy arrays are shared with torch, not copied, if they are contiguous and may be written. Types that gloo does not
    reduce (float16, bfloat16, bool, complex, unsigned and 16-bit integers) are gathered, and reduced by NumPy in the order
    of the ranks. Tensors in host memory are taken as the arrays that share their memory. Tensors on CUDA devices: collective
    operations but gather and scatter, without counts, each tensor on the rank's own device; no messages. Ranks cannot send
    to themselves.

    Args:
        backend: torch's; ``None`` for gloo, and NCCL beside it where CUDA is.
        over: A communicator that reaches all ranks already, over which they agree where to meet.
        address: ``host:port`` of rank 0; ranks are numbered by the launcher. Without either: torchrun's environment, MPI
            under ``mpirun`` and ``srun``, or one rank alone.
        patience_s: So long does a rank wait for others, in every operation.
        meeting_s: So long does it wait until all have come; ``patience_s`` by default.

    Attributes:
        group: torch's group.

    Raises:
        CommunicationFailed: Several ranks were started, and nothing says where they meet.
        RanksAbsent: Not all of them came.

    Example:
        >>> TorchCommunicator().allreduce(np.ones(3)).tolist()
        [1.0, 1.0, 1.0]
    """

    name: ClassVar[str] = "torch"

    def __init__(
        self,
        backend: str | None = None,
        *,
        over: Communicator | None = None,
        address: str | None = None,
        patience_s: float = 300.0,
        meeting_s: float | None = None,
    ) -> None:
        waits = patience_s if meeting_s is None else meeting_s
        if not (patience_s > 0 and waits > 0):
            raise InvalidArgument(f"patience_s={patience_s}, meeting_s={meeting_s}", "more than 0 seconds")
        backend = backend or ("cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo")
        self._patience = timedelta(seconds=patience_s)
        self._how = "torch.distributed was begun before"
        self._owns = not dist.is_initialized()
        if self._owns:
            self._how = _begin(backend, meeting(over, address, timedelta(seconds=waits)), self._patience)
        world = tuple(range(dist.get_world_size()))
        self._enter(dist.new_group(world, timeout=self._patience, backend=backend), world, backend)

    def _enter(self, group: Any, world: tuple[int, ...], backend: str) -> None:
        self.group, self._world, self._backend = group, world, backend
        self.rank, self.size = world.index(dist.get_rank()), len(world)
        self._sorted = [world.index(rank) for rank in sorted(world)]  # ours, for each rank of torch's group
        self._in_order = self._sorted == list(range(self.size))
        self._sent: Counter[int] = Counter()
        self._tensors = TensorCollectives(group, world)

    # Facts

    def describe(self) -> dict[str, str]:
        """torch with its version, the backend, how ranks met, and what is not done by torch itself."""
        return {
            "communicator": self.name,
            "library": f"torch {torch.__version__}",
            "backend": self._backend,
            "met": self._how,
            "host": platform.node(),
            "plain": "reduce_scatter; allgather with counts; reductions but of float32, float64, int8, uint8, int32, int64",
        }

    def takes(self, array: Any) -> bool:
        """NumPy arrays, and tensors in host memory; with NCCL, those on CUDA devices."""
        if isinstance(array, torch.Tensor):
            return array.device.type == "cpu" or (array.device.type == "cuda" and "nccl" in self._backend)
        return isinstance(array, np.ndarray)

    def _host(self, array: Any, subject: str = "this operation") -> np.ndarray:
        """An array in host memory.

        Raises:
            Unsupported: A tensor on a device.
            InvalidArgument: Something else.
        """
        if isinstance(array, np.ndarray):
            return array
        if not isinstance(array, torch.Tensor):
            raise InvalidArgument(f"{type(array).__module__}.{type(array).__qualname__}", "a NumPy array or a tensor")
        if array.device.type != "cpu":
            raise Unsupported(f"{subject} of a tensor on {array.device}", "one in host memory", "copy it to the host")
        return view_of(array)

    def _on_device(self, array: Any) -> bool:
        if not isinstance(array, torch.Tensor) or array.device.type == "cpu":
            return False
        if not self.takes(array):
            raise Unsupported(f"a tensor on {array.device}, by {self._backend}", "one in host memory", "copy it to the host")
        return True

    # Messages

    def isend(self, x: np.ndarray, to: int, tag: int = 0) -> Request:
        """See `Communicator.isend`."""
        check_peer(self, to, tag)
        self._check_other(to)
        x = np.ascontiguousarray(self._host(x, "a message"))
        self._sent[to] += 1
        return Sending(x, self._world[to], self.group, tag, self._sent[to])

    def irecv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Request:
        """See `Communicator.irecv`."""
        begun = self._receiving(out, source, tag)
        begun.go_on()  # or both sides might wait for the other to take what it sends
        return begun

    def recv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Received:
        """See `Communicator.recv`."""
        received = self._receiving(out, source, tag).wait()
        assert received is not None
        return received

    def _receiving(self, out: np.ndarray, source: int, tag: int) -> Receiving:
        check_peer(self, source, tag, anyone=True)
        self._check_other(source)
        out = self._host(out, "a message")
        check_writable(out)
        return Receiving(out, None if source == ANY else self._world[source], self.group, tag, self._named)

    def _check_other(self, rank: int) -> None:
        if rank == self.rank:
            raise Unsupported(f"a message from rank {rank} to itself, by {self._backend}", "another rank")

    def _named(self, rank: int) -> tuple[int, int]:
        ours = self._sorted[rank]
        return self._world[ours], ours

    # Collective operations

    def barrier(self) -> None:
        """See `Communicator.barrier`."""
        self.allreduce(np.zeros(1, np.uint8))

    def broadcast(self, x: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.broadcast`."""
        check_rank(self, root)
        if self._on_device(x):
            return self._tensors.broadcast(x, root)  # type: ignore[arg-type, return-value]
        array = self._host(x)
        if self.rank != root:
            check_writable(array)
        buffer = np.ascontiguousarray(array)
        if buffer.nbytes:
            dist.broadcast(memory(buffer), self._world[root], group=self.group)
        if self.rank != root:
            _put(array, buffer)
        return x

    def reduce(self, x: np.ndarray, op: Reduction = "sum", root: int = 0) -> np.ndarray | None:
        """See `Communicator.reduce`."""
        check_rank(self, root)
        if self._on_device(x):
            total = self._tensors.reduce(x, op, root)  # type: ignore[arg-type]
            return total if self.rank == root else None  # type: ignore[return-value]
        x = self._host(x)
        check_reduction(op)
        if x.dtype not in _REDUCED:
            return super().reduce(x, op, root)
        buffer = np.array(x, order="C")
        dist.reduce(torch.from_numpy(buffer), self._world[root], OPS[op], group=self.group)
        return buffer if self.rank == root else None

    def allreduce(self, x: np.ndarray, op: Reduction = "sum", out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allreduce`."""
        if self._on_device(x):
            return self._tensors.allreduce(x, op, out)  # type: ignore[arg-type, return-value]
        x = self._host(x)
        if x.dtype not in _REDUCED:
            result = super().allreduce(x, op, None if out is None else self._host(out))
            return result if out is None else out
        result = np.empty(x.shape, x.dtype) if out is None else out
        self._begun(x, self._host(result), op).wait()
        return result

    def iallreduce(self, x: np.ndarray, out: np.ndarray, op: Reduction = "sum") -> Request:
        """See `Communicator.iallreduce`."""
        if self._on_device(x):
            return Working(self._tensors.begun(x, op, out, later=True)[1], lambda: None)  # type: ignore[arg-type]
        x, out = self._host(x), self._host(out)
        return self._begun(x, out, op) if x.dtype in _REDUCED else super().iallreduce(x, out, op)

    def _begun(self, x: np.ndarray, out: np.ndarray, op: str) -> Request:
        check_reduction(op)
        check_out(out, x.size, x.dtype)
        buffer = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
        if buffer is not x:
            buffer[...] = x.reshape(out.shape)
        work = dist.all_reduce(torch.from_numpy(buffer), OPS[op], group=self.group, async_op=True)
        return Working(work, lambda: _put(out, buffer))

    def gather(self, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """See `Communicator.gather`."""
        check_rank(self, root)
        x = self._host(x, "gather")
        rows = np.empty((self.size, *x.shape), x.dtype) if self.rank == root else None
        if x.nbytes:
            places = None if rows is None else self._places(rows)
            dist.gather(memory(np.ascontiguousarray(x)), places, self._world[root], group=self.group)
        return rows

    def _places(self, rows: np.ndarray) -> list[torch.Tensor]:
        """The memory of each row, in the order of torch's ranks."""
        return [memory(rows[rank : rank + 1]) for rank in self._sorted]

    def allgather(self, x: np.ndarray, counts: Sequence[int] | None = None, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.allgather`."""
        if self._on_device(x) and counts is None:
            return self._tensors.allgather(x, out)  # type: ignore[arg-type, return-value]
        x = self._host(x, "allgather with counts")
        if counts is not None:
            check_counts(counts, self.size, x.size, self.rank)
            result = super().allgather(x, counts, None if out is None else self._host(out))
            return result if out is None else out
        result = np.empty((self.size, *x.shape), x.dtype) if out is None else out
        array = self._host(result)
        check_out(array, x.size * self.size, x.dtype)
        buffer = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
        if x.nbytes:
            sent = np.array(x, order="C") if np.may_share_memory(x, buffer) else np.ascontiguousarray(x)
            dist.all_gather(self._places(buffer.reshape(self.size, -1)), memory(sent), group=self.group)
        _put(array, buffer)
        return result

    def scatter(self, x: np.ndarray | None, out: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.scatter`."""
        check_rank(self, root)
        array, rows = self._host(out, "scatter"), None
        check_writable(array)
        if self.rank == root:
            rows = np.array(check_rows(self, None if x is None else self._host(x, "scatter")), order="C")
            check_out(array, rows.size // self.size, rows.dtype)
        buffer = array if array.flags.c_contiguous else np.empty(array.shape, array.dtype)
        if buffer.nbytes:
            dist.scatter(memory(buffer), None if rows is None else self._places(rows), self._world[root], group=self.group)
        _put(array, buffer)
        return out

    def reduce_scatter(
        self, x: np.ndarray, counts: Sequence[int] | None = None, op: Reduction = "sum", out: np.ndarray | None = None
    ) -> np.ndarray:
        """See `Communicator.reduce_scatter`."""
        if self._on_device(x) and counts is None:
            return self._tensors.reduce_scatter(x, op, out)  # type: ignore[arg-type, return-value]
        x = self._host(x, "reduce_scatter with counts")
        result = super().reduce_scatter(x, counts, op, None if out is None else self._host(out))
        return result if out is None else out

    def alltoall(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.alltoall`."""
        if self._on_device(x):
            return self._tensors.alltoall(x, out)  # type: ignore[arg-type, return-value]
        rows = check_rows(self, self._host(x))
        result = np.empty(rows.shape, rows.dtype) if out is None else out
        array = self._host(result)
        check_out(array, rows.size, rows.dtype)
        sent = np.array(rows[self._sorted], order="C")
        got = np.empty_like(sent)
        if rows.nbytes:
            dist.all_to_all_single(memory(got), memory(sent), group=self.group)
        ordered_rows = got[np.argsort(self._sorted)]
        array[...] = ordered_rows.reshape(array.shape)
        return result

    # Groups, and ends

    def split(self, color: int | None, key: int = 0) -> TorchCommunicator | None:
        """See `Communicator.split`."""
        check_color(color)
        rows = self.allgather(np.array([-1 if color is None else color, key, len(_names())], np.int64))
        most = int(rows[:, 2].max())
        if color is None:
            return None
        members = sorted((int(k), rank) for rank, (c, k) in enumerate(rows[:, :2]) if c == color)
        world = tuple(self._world[rank] for _, rank in members)
        member = TorchCommunicator.__new__(TorchCommunicator)
        member._owns, member._how, member._patience = False, self._how, self._patience
        _hold_names(most)
        group = dist.new_group(sorted(world), timeout=self._patience, backend=self._backend, use_local_synchronization=True)
        member._enter(group, world, self._backend)
        return member

    def abort(self, reason: str) -> None:
        """End this process; its launcher ends the others."""
        end_process(f"rank {self.rank}", reason)

    def close(self) -> None:
        """Leave the group; and torch.distributed, if this communicator began it."""
        held = len(_names())
        dist.destroy_process_group(self.group)
        _hold_names(held)
        if self._owns:
            dist.destroy_process_group()


def _begin(backend: str, where: Meeting, patience: timedelta) -> str:
    dist.init_process_group(backend, store=where.store, rank=where.rank, world_size=where.size, timeout=patience)
    return where.how


class _Held:
    """Stands for a group that this rank has not, or has left."""

    def shutdown(self) -> None:
        """Torch asks for it when all groups are left."""


def _names() -> dict[Any, Any]:
    return dist.distributed_c10d._world.pg_names


def _hold_names(number: int) -> None:
    """Make so many groups known to torch.

    It names a group that only its members make by the number of groups that each of them has. Where that differs they wait
    for each other for ever; where it falls, as a group is left, the next one finds what the last one wrote.
    """
    names = _names()
    while len(names) < number:
        names[_Held()] = f"held {len(names)}"


def _put(out: np.ndarray, buffer: np.ndarray) -> None:
    if buffer is not out:
        out[...] = buffer.reshape(out.shape)
