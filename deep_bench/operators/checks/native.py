"""What can be done to native arrays of any framework without importing it: writing to them, and finding their memory.

Arrays that allow none of it say so by an answer of ``False`` or ``None``, never silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.framework import Device
from deep_bench.tensor import is_float, is_inexact


def assign(device: Device[Any], target: Any, contents: np.ndarray) -> bool:
    """Write other contents into a native array; False where it cannot be written to.

    Example:
        >>> from deep_bench.operators.host import Host
        >>> x = np.zeros(2, np.float32)
        >>> assign(Host(), x, np.ones(2, np.float32)), x.tolist()
        (True, [1.0, 1.0])
    """
    try:
        target[...] = device.from_numpy(np.array(contents, order="C"))
    except Exception:  # frameworks refuse in their own ways; the answer says that it was refused
        return False
    return True


def poison_of(array: np.ndarray) -> np.ndarray:
    """Contents that no result has by chance: NaN, or the bytes 0x5A; the opposite for truth values."""
    if array.dtype == np.bool_:
        return np.asarray(~array)
    if array.dtype == object:
        return np.full_like(array, "poison")
    if is_inexact(array.dtype):
        return np.full_like(array, np.nan if _has_nan(array.dtype) else 1)
    if array.dtype.type.__module__ == "ml_dtypes":
        return np.full_like(array, ml_dtypes.iinfo(array.dtype).max)
    return np.frombuffer(b"\x5a" * array.nbytes, array.dtype).reshape(array.shape).copy()


def _has_nan(dtype: np.dtype) -> bool:
    with np.errstate(all="ignore"):
        return not is_float(dtype) or bool(np.isnan(np.asarray(np.nan).astype(dtype).astype(np.float32)))


def poison(device: Device[Any], target: Any) -> bool:
    """Fill a native array with `poison_of` it; False where it cannot be written to."""
    return assign(device, target, poison_of(np.asarray(device.to_numpy(target))))


def memory_of(array: Any) -> tuple[int, int] | None:
    """The first and the last address of the memory that an array lies in; ``None`` where that cannot be told.

    Example:
        >>> x = np.zeros(4)
        >>> memory_of(x)[0] <= memory_of(x[1:3])[0] < memory_of(x)[1]
        True
    """
    if isinstance(array, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(array)
        return (int(low), int(high)) if high > low else None
    storage = getattr(array, "untyped_storage", None)
    if storage is None or getattr(array, "data_ptr", None) is None:
        return None
    start, size = int(array.data_ptr()), int(array.element_size())
    extent = sum((d - 1) * s for d, s in zip(array.shape, array.stride(), strict=True)) + 1 if array.numel() else 0
    return (start, start + extent * size) if extent else None


def overlap(a: Any, b: Any) -> bool | None:
    """Whether two arrays share memory; ``None`` where that cannot be told."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    first, second = memory_of(a), memory_of(b)
    if first is None or second is None:
        return None
    return first[0] < second[1] and second[0] < first[1]


def strides_of(array: Any) -> tuple[int, ...] | None:
    """The distance of neighbours along each dimension, in elements; ``None`` where an array has none to tell."""
    if isinstance(array, np.ndarray):
        return tuple(s // array.itemsize for s in array.strides)
    stride = getattr(array, "stride", None)
    return tuple(map(int, stride())) if callable(stride) else None


def permuted(array: Any, axes: tuple[int, ...]) -> Any:
    """A view with its axes in another order."""
    permute = getattr(array, "permute", None)
    return permute(*axes) if permute is not None else array.transpose(axes)


def is_native(device: Device[Any], array: Any, like: Any) -> bool:
    """Whether an array is of the very kind that the device makes, so that nothing is left to be computed in it."""
    del device
    return type(array) is type(like) or (isinstance(like, np.ndarray) and isinstance(array, np.generic))


def same_bits(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> bool:
    """Whether arrays of the same names have the same shapes, types and bits."""
    return all(equal(a[name], b[name]) for name in a)


def equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays have the same shape, type and bits."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes()
