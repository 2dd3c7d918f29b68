"""Native arrays of any framework, without importing it: writing to them, finding their memory, and how they lie in it.

Arrays that allow none of it say so by an answer of ``False`` or ``None``, never silently. `LAYOUTS` are inputs that do not
lie one element after the other from the first byte of their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.arrays import equal_arrays
from deep_bench.framework import Device
from deep_bench.tensor import is_float, is_inexact


def assign(device: Device[Any], target: Any, contents: np.ndarray) -> bool:
    """Write other contents into a native array; False where it cannot be written to.

    Example:
        >>> from deep_bench.operators.operator import Host
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
    return all(equal_arrays(a[name], b[name]) for name in a)


_GAP = 3
"""Elements between rows that lie apart."""


@dataclass(eq=False)
class PlacedArray:
    """An array in a larger piece of memory.

    Args:
        view: The array, native.
        base: The whole memory, native; ``None`` where there is nothing around the array.
        before: What the memory held.
    """

    view: Any
    base: Any = None
    before: np.ndarray | None = None

    def untouched(self, device: Device[Any]) -> bool:
        """Whether the memory holds what it held, between the elements of the array as well."""
        return self.before is None or equal_arrays(np.asarray(device.to_numpy(self.base)), self.before)


def _with_axes(array: np.ndarray, device: Device[Any], axes: tuple[int, ...]) -> PlacedArray:
    """The array as a view of its transpose; ``axes`` is its own inverse."""
    base = np.array(array.transpose(axes), order="C")
    native = device.from_numpy(base)
    return PlacedArray(permuted(native, axes), native, base.copy())


def _fortran_order(array: np.ndarray, device: Device[Any]) -> PlacedArray:
    return _with_axes(array, device, tuple(range(array.ndim))[::-1])


def _transposed(array: np.ndarray, device: Device[Any]) -> PlacedArray:
    return _with_axes(array, device, (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2))


def _along_rows(array: np.ndarray, device: Device[Any], last: slice, length: int) -> PlacedArray:
    """The array as a part of rows of this length, which are poisoned around it."""
    base = poison_of(np.zeros((*array.shape[:-1], length), array.dtype))
    base[..., last] = array
    native = device.from_numpy(base)
    return PlacedArray(native[(*[slice(None)] * (array.ndim - 1), last)], native, base.copy())


def _every_second(array: np.ndarray, device: Device[Any]) -> PlacedArray:
    return _along_rows(array, device, slice(None, None, 2), 2 * array.shape[-1])


def _rows_apart(array: np.ndarray, device: Device[Any]) -> PlacedArray:
    return _along_rows(array, device, slice(0, array.shape[-1]), array.shape[-1] + _GAP)


def _negative_stride(array: np.ndarray, device: Device[Any]) -> PlacedArray:
    return _along_rows(array, device, slice(None, None, -1), array.shape[-1])


def _storage_offset(array: np.ndarray, device: Device[Any]) -> PlacedArray:
    placed = _along_rows(array.reshape(-1), device, slice(1, None), array.size + 1)
    return PlacedArray(placed.view.reshape(array.shape), placed.base, placed.before)


def _odd_address(array: np.ndarray, device: Device[Any]) -> PlacedArray | None:
    if array.dtype.itemsize < 2 or array.dtype == object or not isinstance(device.from_numpy(array), np.ndarray):
        return None
    memory = np.full(array.nbytes + 2, 0x5A, np.uint8)
    start = 1 - memory.ctypes.data % 2
    view = np.ndarray(array.shape, array.dtype, memory.data, start)
    view[...] = array
    return PlacedArray(device.from_numpy(view), memory, memory.copy())


LAYOUTS: Mapping[str, tuple[int, Callable[[np.ndarray, Device[Any]], PlacedArray | None]]] = {
    "Fortran order": (2, _fortran_order),
    "transposed": (3, _transposed),
    "every second element": (1, _every_second),
    "rows apart": (2, _rows_apart),
    "negative stride": (1, _negative_stride),
    "storage offset": (0, _storage_offset),
    "odd address": (0, _odd_address),
}
"""Name of a layout to the dimensions that it takes, and a function that lays an array out so, where it can lie so."""


@dataclass(eq=False)
class Arrangement:
    """Lays all inputs of a kernel out in one way.

    Args:
        layout: One of `LAYOUTS`.

    Attributes:
        placed: The inputs that were laid out last.
        applied: Whether any of them could be.
    """

    layout: str
    placed: list[PlacedArray] = field(default_factory=list)
    applied: bool = False

    def __call__(self, prepared: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Native arrays with these contents; those that cannot lie so lie as usual."""
        device = prepared.device
        self.placed = []
        views: dict[str, Any] = {}
        for name, array in arrays.items():
            placed = self._lay_out(array, device)
            if placed is None:
                placed = PlacedArray(device.from_numpy(np.array(array, order="C")))
            else:
                self.applied = True
            self.placed.append(placed)
            views[name] = placed.view
        return views

    def untouched(self, device: Device[Any]) -> bool:
        """Whether the memory around the inputs, and the inputs, hold what they held."""
        return all(placed.untouched(device) for placed in self.placed)

    def _lay_out(self, array: np.ndarray, device: Device[Any]) -> PlacedArray | None:
        dimensions, lay_out = LAYOUTS[self.layout]
        if not array.size or array.ndim < dimensions:
            return None
        try:
            placed = lay_out(array, device)
        except Exception:  # frameworks refuse such views in their own ways: then there are no such arrays
            return None
        strides = None if placed is None else strides_of(placed.view)
        if placed is None or strides is None:
            return None
        if self.layout == "odd address":  # whether the device kept the layout: some copy every view
            as_meant = not placed.view.flags.aligned
        else:
            as_meant = self.layout == "storage offset" or strides != strides_of(np.empty(array.shape, np.uint8))
        return placed if as_meant else None


def available_layouts(device: Device[Any], arrays: Mapping[str, np.ndarray]) -> list[str]:
    """The layouts that some of these arrays can have on a device.

    Example:
        >>> from deep_bench.operators.operator import Host
        >>> available_layouts(Host(), {"x": np.zeros((2, 3), np.float32)})  # doctest: +NORMALIZE_WHITESPACE
        ['Fortran order', 'every second element', 'rows apart', 'negative stride', 'storage offset', 'odd address']
    """
    return [name for name in LAYOUTS if any(Arrangement(name)._lay_out(a, device) is not None for a in arrays.values())]
