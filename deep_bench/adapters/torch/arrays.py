"""NumPy arrays to tensors and back, and the element types that both know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch

from deep_bench.errors import Unsupported
from deep_bench.tensor import STRING

TYPES = MappingProxyType(
    {np.dtype(n): getattr(torch, n) for n in ("bool", "float16", "float32", "float64", "complex64", "complex128")}
    | {np.dtype(f"{sign}int{bits}"): getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
    | {np.dtype(ml_dtypes.bfloat16): torch.bfloat16}
    | {
        np.dtype(getattr(ml_dtypes, n)): getattr(torch, n)
        for n in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
    }
    | {np.dtype(getattr(ml_dtypes, n)): getattr(torch, n) for n in ("int4", "uint4", "int2", "uint2")}
)
"""NumPy dtype to ``torch.dtype``. The 2- and 4-bit integers take a byte each, as in NumPy; torch only stores them."""

SMALL: Mapping[torch.dtype, tuple[int, torch.dtype]] = MappingProxyType(
    {
        getattr(torch, f"{sign}int{bits}"): (bits, torch.uint8 if sign else torch.int8)
        for sign in ("", "u")
        for bits in (2, 4)
    }
)
"""The types of less than a byte to their width in bits, and the type whose views show their values."""
_PLAIN = frozenset(d for d in TYPES if d.type.__module__ == "numpy")
_NUMPY = {t: n for n, t in TYPES.items()}
_SAME_BITS = {1: torch.uint8, 2: torch.int16}


def torch_dtype(dtype: np.dtype | int) -> torch.dtype:
    """The torch type of a NumPy dtype, or of an ``onnx.TensorProto`` code.

    Raises:
        Unsupported: torch has no such element type (strings, float4).

    Example:
        >>> torch_dtype(np.dtype("float32")), torch_dtype(onnx.TensorProto.BOOL)
        (torch.float32, torch.bool)
    """
    if isinstance(dtype, int):
        dtype = STRING if dtype == onnx.TensorProto.STRING else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    if dtype not in TYPES:
        description = "strings" if dtype == STRING else str(dtype)
        raise Unsupported(
            f"torch has no tensors of {description}", advice="run this network in the reference or in ONNX Runtime"
        )
    return TYPES[dtype]


def is_foreign(dtype: np.dtype | None) -> bool:
    """Whether values of this type (strings, float4) stay NumPy arrays, since torch has no tensors of them."""
    return dtype is not None and dtype not in TYPES


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """The NumPy dtype of a torch type."""
    return _NUMPY[dtype]


def describe_value(value: Any) -> tuple[Sequence[int], np.dtype] | None:
    """The shape and element type of a native value; see `deep_bench.framework.Describe`."""
    if isinstance(value, torch.Tensor):
        dtype = _NUMPY.get(value.dtype)
        return None if dtype is None else (value.shape, dtype)
    return (value.shape, value.dtype) if isinstance(value, np.ndarray) and is_foreign(value.dtype) else None


def to_tensor(array: np.ndarray, device: torch.device | str = "cpu") -> torch.Tensor:
    """A tensor with a copy of ``array``'s contents."""
    target = torch_dtype(array.dtype)
    if target in SMALL:
        storage = _NUMPY[SMALL[target][1]]
        return torch.from_numpy(array.astype(storage)).view(target).to(device)  # NumPy leaves the upper bits unset
    if array.dtype not in _PLAIN:
        bits = np.array(array, order="C").view(f"u{array.dtype.itemsize}")
        return torch.from_numpy(bits).view(target).to(device)
    tensor = torch.empty(array.shape, dtype=target)  # torch aligns its memory to 64 bytes, NumPy only to 16
    np.copyto(tensor.numpy(), array)
    return tensor.to(device)


def can_be_shared(array: np.ndarray) -> bool:
    """Whether a tensor can have the array's own memory."""
    return array.dtype in _PLAIN and array.flags.writeable and array.flags.c_contiguous


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """A NumPy array with a copy of the tensor's contents."""
    tensor = tensor.detach().cpu()
    dtype = _NUMPY[tensor.dtype]
    if dtype not in _PLAIN:
        return tensor.contiguous().view(_SAME_BITS[dtype.itemsize]).numpy().view(dtype).copy()
    return np.array(tensor.numpy())


def view_of(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's contents in its own memory, to be looked at; of a tensor on another device a copy."""
    plain = tensor.detach() if tensor.requires_grad else tensor
    try:
        return plain.numpy()
    except TypeError:  # on another device, or of a type that torch does not give to NumPy
        plain, dtype = plain.cpu(), _NUMPY[plain.dtype]
        return plain.numpy() if dtype in _PLAIN else plain.view(_SAME_BITS[dtype.itemsize]).numpy().view(dtype)


def sharing_tensor(array: np.ndarray) -> torch.Tensor:
    """A tensor that has the array's own memory, and holds it; a copy where that cannot be."""
    dtype = array.dtype
    if not array.flags.carray:  # contiguous, aligned, and to be written
        return to_tensor(array)
    if dtype in _PLAIN:
        return torch.from_numpy(array)
    target, bits = torch_dtype(dtype), _SAME_BITS.get(dtype.itemsize)
    if bits is None or target in SMALL:
        return to_tensor(array)
    return torch.from_numpy(array.view(_NUMPY[bits])).view(target)


def contiguous_copy(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy; torch does not copy integers of less than a byte itself."""
    if tensor.dtype in SMALL:
        return tensor.view(torch.uint8).clone(memory_format=torch.contiguous_format).view(tensor.dtype)
    return tensor.clone(memory_format=torch.contiguous_format)


def map_native(function: Callable[[torch.Tensor | np.ndarray], Any], value: Any) -> Any:
    """``value`` with a function applied to each tensor, or foreign array, in it; ``None`` is an empty optional."""
    if isinstance(value, list | tuple):
        return [map_native(function, item) for item in value]
    return None if value is None else function(value)


def to_numpy(value: Any) -> Any:
    """What the reference's functions take for a native value: lists are sequences, ``None`` is an empty optional."""
    if isinstance(value, torch.Tensor):
        return to_array(value)
    if isinstance(value, list | tuple):
        return type(value)(to_numpy(v) for v in value)
    return value


def to_native(value: Any, device: torch.device | str, convert: Callable[[np.ndarray], np.ndarray] | None = None) -> Any:
    """The native form of what a reference function returned, each array converted first.

    Arrays of types that torch lacks stay NumPy arrays.
    """
    if isinstance(value, list | tuple):
        return type(value)(to_native(v, device, convert) for v in value)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value) if convert is None else convert(np.asarray(value))
        return to_tensor(array, device) if array.dtype in TYPES else array
    return value
