"""Descriptions of tensors: names, shapes and element types, shared by all layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np

STRING = np.dtype(object)

_NARROW_FLOATS = (
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float6_e2m3fn,
    ml_dtypes.float6_e3m2fn,
    ml_dtypes.float4_e2m1fn,
)
_NARROW_INTEGERS = (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)


Container = Literal["sequence", "optional"]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A value's name, shape and element type: a tensor's, or those of the tensors in a sequence or an optional.

    Args:
        name: The value's name in its network.
        shape: One entry per dimension: an ``int``, or a ``str`` that names a dynamic dimension, as in ONNX.
            That of a sequence or an optional is ``()``: its tensors may be of any shape.
        dtype: The element type; those of ``ml_dtypes`` (bfloat16, float8, int4, …) included. Strings are ``object``.
        containers: What the tensors are in, from the outside: ``()`` for a tensor itself, ``("sequence",)``,
            ``("optional",)`` or ``("optional", "sequence")``. A sequence is a ``list``, an empty optional ``None``.

    Example:
        >>> TensorSpec("x", ("batch", 3), np.dtype("float32")).rank
        2
        >>> print(TensorSpec("xs", (), np.dtype("float32"), ("sequence",)))
        xs: sequence of float32 tensors
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: np.dtype
    containers: tuple[Container, ...] = ()

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, and no sequence or optional."""
        return not self.containers

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def open_dimensions(self) -> tuple[str, ...]:
        """The names of the dimensions that are not fixed yet."""
        return tuple(d for d in self.shape if isinstance(d, str))

    def __str__(self) -> str:
        kind = "string" if self.dtype == STRING else str(self.dtype)
        tensor = f"{kind}[{', '.join(map(str, self.shape))}]"
        if self.containers:
            tensor = f"sequence of {kind} tensors" if "sequence" in self.containers else f"{kind} tensor"
        return f"{self.name}: {'optional ' if 'optional' in self.containers else ''}{tensor}"


def text(array: np.ndarray) -> np.ndarray:
    """Strings as ``str`` in an object array, as operators expect them; other arrays as they are."""
    if array.dtype.kind not in "OSU":
        return array
    decoded = [s.decode() if isinstance(s, bytes) else s for s in array.ravel().tolist()]
    result = np.empty(len(decoded), dtype=object)
    result[:] = decoded
    return result.reshape(array.shape)


def is_float(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is a real floating-point type, the narrow ones of ``ml_dtypes`` included."""
    return np.issubdtype(dtype, np.floating) or dtype.type in _NARROW_FLOATS


def as_float(value: Any, dtype: np.dtype) -> Any:
    """An array of one floating-point type in another; anything else as it is."""
    return value.astype(dtype) if isinstance(value, np.ndarray) and is_float(dtype) and is_float(value.dtype) else value


def is_inexact(dtype: np.dtype) -> bool:
    """Whether arithmetic in ``dtype`` rounds: real or complex floating point."""
    return is_float(dtype) or np.issubdtype(dtype, np.complexfloating)


def is_integer(dtype: np.dtype) -> bool:
    """Whether ``dtype`` is a signed or unsigned integer type, int4 and int2 included."""
    return np.issubdtype(dtype, np.integer) or dtype.type in _NARROW_INTEGERS


def unit_roundoff(dtype: np.dtype) -> float:
    r"""The unit roundoff :math:`u = 2^{-p}` of a binary format with a significand of ``p`` bits.

    Complex types have that of their parts.

    Source:
        Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed., section 2.1.

    Example:
        >>> unit_roundoff(np.dtype("float32")) == 2.0 ** -24
        True
    """
    return float(ml_dtypes.finfo(dtype).eps) / 2


def significand_bits(dtype: np.dtype) -> int:
    """The precision ``p`` of a format in bits, the implicit one included: 24 for float32."""
    return round(-np.log2(unit_roundoff(dtype)))
