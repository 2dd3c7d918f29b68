"""What is known of a value when a network is prepared."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx

from deep_bench.adapters.lowering.plan import Slot
from deep_bench.tensor import STRING, TensorSpec, text

Shape: TypeAlias = tuple[int | None, ...]

DATA_LIMIT = 256
"""Constants with more elements never decide a shape, and are not given to shape inference."""


@dataclass(frozen=True, slots=True)
class Partial:
    """An integer tensor of which some elements are known: the shape of a value with open dimensions, for one.

    Args:
        values: The elements; those that are not known hold an arbitrary number.
        known: Which elements are known.
    """

    values: np.ndarray
    known: np.ndarray

    def entries(self) -> list[int | None]:
        """The elements in order, ``None`` for each unknown one."""
        return [int(v) if k else None for v, k in zip(self.values.ravel(), self.known.ravel(), strict=True)]


@dataclass(slots=True)
class Fact:
    """A value: its plan-wide name, and what is known of it.

    Args:
        name: Unique in the whole network.
        scope: The number of the graph that defines it.
        dtype: As in `Slot`.
        shape: As in `Slot`.
        constant: As in `Slot`; for a parameter that training changes it is ``None``.
        partial: What is known of its elements, if not all are.
        kind: The type of a value that is no tensor.
        stored: The contents of an initializer or a folded value, parameters included.
    """

    name: str
    scope: int
    dtype: np.dtype | None = None
    shape: Shape | None = None
    constant: np.ndarray | None = None
    partial: Partial | None = None
    kind: onnx.TypeProto | None = None
    stored: np.ndarray | None = None
    _proto: onnx.TypeProto | None = field(default=None, repr=False)

    @property
    def slot(self) -> Slot:
        """The value as an adapter sees it."""
        return Slot(self.name, self.dtype, self.shape, self.constant)

    @property
    def proto(self) -> onnx.TypeProto:
        """Its type as ONNX writes it; empty if nothing is known."""
        if self._proto is None:
            self._proto = self.kind if self.kind is not None else tensor_type(self.dtype, self.shape)
        return self._proto

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape if all its dimensions are known."""
        return self.shape if self.shape is not None and None not in self.shape else None  # type: ignore[return-value]


def constant_fact(name: str, scope: int, array: np.ndarray, *, trained: bool = False) -> Fact:
    """A value with known contents; a parameter under training has a known shape only."""
    array = text(array)
    return Fact(name, scope, array.dtype, array.shape, constant=None if trained else array, stored=array)


def same_dimension(a: int | None, b: int | None) -> bool:
    """Whether two dimensions are known to be equal."""
    return a is not None and a == b


def join(a: Shape | None, b: Shape | None) -> Shape | None:
    """What holds of a shape that may be either of two."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if same_dimension(x, y) else None for x, y in zip(a, b, strict=True))


def tensor_type(dtype: np.dtype | None, shape: Sequence[int | None] | None) -> onnx.TypeProto:
    """An ONNX type; dimensions that are not known stay open."""
    proto = onnx.TypeProto()
    if dtype is not None:
        proto.tensor_type.elem_type = type_code(dtype)
        if shape is not None:
            dims = proto.tensor_type.shape.dim
            del dims[:]
            proto.tensor_type.shape.SetInParent()
            for size in shape:
                dim = dims.add()
                if size is not None:
                    dim.dim_value = size
    return proto


def container_type(spec: TensorSpec) -> onnx.TypeProto:
    """The ONNX type of a sequence or an optional, with elements of unknown shape."""
    proto = tensor_type(spec.dtype, None)
    for container in reversed(spec.containers):
        outer = onnx.TypeProto()
        (outer.sequence_type if container == "sequence" else outer.optional_type).elem_type.CopyFrom(proto)
        proto = outer
    return proto


@functools.cache
def type_code(dtype: np.dtype) -> int:
    """ONNX's number for an element type."""
    if dtype == STRING:
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))


@functools.cache
def dtype_of(code: int) -> np.dtype | None:
    """The element type behind ONNX's number, ``None`` for an undefined one."""
    if code == onnx.TensorProto.UNDEFINED:
        return None
    return STRING if code == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))


def read_type(proto: onnx.TypeProto) -> tuple[np.dtype | None, Shape | None, onnx.TypeProto | None]:
    """An ONNX type as element type, shape, and, for what is no tensor, the type itself."""
    if not proto.HasField("tensor_type"):
        return None, None, proto if proto.WhichOneof("value") else None
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return dtype_of(tensor.elem_type), None, None
    dims = tuple(d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim)
    return dtype_of(tensor.elem_type), dims, None
