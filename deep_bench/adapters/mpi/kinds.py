"""NumPy's element types as MPI sends and reduces them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from deep_bench.distributed.communicators.checks import REDUCTIONS
from deep_bench.errors import Unsupported

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
class Kind:
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


class Kinds(dict[np.dtype, Kind]):
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

    def __missing__(self, dtype: np.dtype) -> Kind:
        if dtype.hasobject:
            raise Unsupported(f"an array of {dtype}", "numbers, or other elements of a fixed size: nothing is pickled")
        kind = self[dtype] = self._made(dtype)
        if kind.own:
            self._dtypes[kind.type.handle] = dtype
        return kind

    def _made(self, dtype: np.dtype) -> Kind:
        MPI = self._mpi
        builtin = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}
        if dtype == np.bool_:
            ops = {"sum": MPI.MAX, "prod": MPI.MIN, "min": MPI.MIN, "max": MPI.MAX}
            return Kind(dtype, MPI.UINT8_T, 1, True, ops, frozenset())
        if dtype in _NATIVE:
            custom_ops = {name: self._ops[name] for name in ("min", "max")} if dtype.kind == "c" else {}
            return Kind(dtype, getattr(MPI, _NATIVE[dtype]), 1, True, {**builtin, **custom_ops}, frozenset(custom_ops))
        packed = MPI.BYTE.Create_contiguous(dtype.itemsize).Commit()
        return Kind(dtype, packed, dtype.itemsize, False, self._ops, frozenset(self._ops))

    def _combining(self, function: Callable[..., np.ndarray]) -> Callable[[Any, Any, Any], None]:
        def combine(other: Any, total: Any, datatype: Any) -> None:
            dtype = self._dtypes[datatype.handle]
            target = np.frombuffer(total, dtype)
            function(np.frombuffer(other, dtype), target, out=target)

        return combine


@cache
def kinds(MPI: Any) -> Kinds:
    """Those of this process: MPI allows few operations of one's own."""
    return Kinds(MPI)
