"""Inputs that do not lie one element after the other from the first byte of their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from deep_bench.framework import Device
from deep_bench.operators.checks.native import equal, permuted, poison_of, strides_of

_GAP = 3
"""Elements between rows that lie apart."""


@dataclass(eq=False)
class Placed:
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
        return self.before is None or equal(np.asarray(device.to_numpy(self.base)), self.before)


def _within(device: Device[Any], base: np.ndarray, look: Callable[[Any], Any]) -> Placed:
    native = device.from_numpy(base)
    return Placed(look(native), native, base.copy())


def _reversed_axes(array: np.ndarray, device: Device[Any]) -> Placed | None:
    if array.ndim < 2:
        return None
    axes = tuple(range(array.ndim))[::-1]
    return _within(device, np.array(array.transpose(axes), order="C"), lambda base: permuted(base, axes))


def _swapped(array: np.ndarray, device: Device[Any]) -> Placed | None:
    if array.ndim < 3:
        return None
    axes = (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
    return _within(device, np.array(array.transpose(axes), order="C"), lambda base: permuted(base, axes))


def _gapped(array: np.ndarray, shape: tuple[int, ...], index: tuple[slice, ...]) -> np.ndarray:
    base = poison_of(np.zeros(shape, array.dtype))
    base[index] = array
    return base


def _every_second(array: np.ndarray, device: Device[Any]) -> Placed | None:
    if array.ndim < 1:
        return None
    index = (*[slice(None)] * (array.ndim - 1), slice(None, None, 2))
    base = _gapped(array, (*array.shape[:-1], 2 * array.shape[-1]), index)
    return _within(device, base, lambda native: native[index])


def _long_rows(array: np.ndarray, device: Device[Any]) -> Placed | None:
    if array.ndim < 2:
        return None
    index = (*[slice(None)] * (array.ndim - 1), slice(0, array.shape[-1]))
    base = _gapped(array, (*array.shape[:-1], array.shape[-1] + _GAP), index)
    return _within(device, base, lambda native: native[index])


def _backwards(array: np.ndarray, device: Device[Any]) -> Placed | None:
    if array.ndim < 1:
        return None
    index = (*[slice(None)] * (array.ndim - 1), slice(None, None, -1))
    return _within(device, np.array(array[index], order="C"), lambda native: native[index])


def _later_start(array: np.ndarray, device: Device[Any]) -> Placed | None:
    size = prod(array.shape)
    base = _gapped(array.reshape(-1), (size + 1,), (slice(1, None),))
    return _within(device, base, lambda native: native[1:].reshape(array.shape))


def _odd_address(array: np.ndarray, device: Device[Any]) -> Placed | None:
    if array.dtype.itemsize < 2 or array.dtype == object or not isinstance(device.from_numpy(array), np.ndarray):
        return None
    memory = np.full(array.nbytes + 2, 0x5A, np.uint8)
    start = 1 - memory.ctypes.data % 2
    view = np.ndarray(array.shape, array.dtype, memory.data, start)
    view[...] = array
    return Placed(device.from_numpy(view), memory, memory.copy())


LAYOUTS: Mapping[str, Callable[[np.ndarray, Device[Any]], Placed | None]] = {
    "Fortran order": _reversed_axes,
    "transposed": _swapped,
    "every second element": _every_second,
    "rows apart": _long_rows,
    "negative stride": _backwards,
    "storage offset": _later_start,
    "odd address": _odd_address,
}
"""Name of a layout to a function that lays an array out so; ``None`` where an array cannot lie so."""


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
    placed: list[Placed] = field(default_factory=list)
    applied: bool = False

    def __call__(self, prepared: Any, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """Native arrays with these contents; those that cannot lie so lie as usual."""
        device = prepared.device
        self.placed = []
        views: dict[str, Any] = {}
        for name, array in arrays.items():
            placed = self._lay_out(array, device)
            if placed is None:
                placed = Placed(device.from_numpy(np.array(array, order="C")))
            else:
                self.applied = True
            self.placed.append(placed)
            views[name] = placed.view
        return views

    def untouched(self, device: Device[Any]) -> bool:
        """Whether the memory around the inputs, and the inputs, hold what they held."""
        return all(placed.untouched(device) for placed in self.placed)

    def _lay_out(self, array: np.ndarray, device: Device[Any]) -> Placed | None:
        if not array.size:
            return None
        try:
            placed = LAYOUTS[self.layout](array, device)
        except Exception:  # frameworks refuse such views in their own ways: then there are no such arrays
            return None
        return placed if placed is not None and self._as_meant(placed.view, array) else None

    def _as_meant(self, view: Any, array: np.ndarray) -> bool:
        """Whether the device kept the layout: some copy every view."""
        strides = strides_of(view)
        if strides is None:
            return False
        if self.layout == "odd address":
            return not view.flags.aligned
        if self.layout == "storage offset":
            return True
        plain = strides_of(np.empty(array.shape, np.uint8))
        return strides != plain


def available(device: Device[Any], arrays: Mapping[str, np.ndarray]) -> list[str]:
    """The layouts that some of these arrays can have on a device.

    Example:
        >>> from deep_bench.operators.host import Host
        >>> available(Host(), {"x": np.zeros((2, 3), np.float32)})  # doctest: +NORMALIZE_WHITESPACE
        ['Fortran order', 'every second element', 'rows apart', 'negative stride', 'storage offset', 'odd address']
    """
    return [name for name in LAYOUTS if any(Arrangement(name)._lay_out(a, device) is not None for a in arrays.values())]
