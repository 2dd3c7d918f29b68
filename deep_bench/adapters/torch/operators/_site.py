"""What builders read from a site, in the terms of torch: types, numbers, and the geometry of sliding windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, output_dtype, static_shape
from deep_bench.adapters.torch.arrays import SMALL, torch_dtype
from deep_bench.graph.shapes import same_padding, span, window_count

Builder = Callable[[Site], Callable[..., Any]]
Tensor = torch.Tensor


def torch_type(site: Site, index: int = 0) -> torch.dtype:
    """The torch type of an input."""
    return torch_dtype(dtype_of(site, index))


def output_type(site: Site, index: int = 0) -> torch.dtype:
    """The torch type of an output, which an attribute may state.

    Raises:
        NotKnownYet: It is not known.
    """
    declared = site.attribute("to") or site.attribute("dtype") or site.attribute("output_dtype")
    return torch_dtype(int(declared) if declared else output_dtype(site, index))


def number(site: Site, index: int) -> float | int | bool | None:
    """A constant scalar input as a Python number within the range of the first input's type; ``None`` if unknown."""
    array = site.constant(index)
    if array is None:
        return None
    value = np.asarray(array).reshape(-1)[0].item()
    return in_range(value, torch_type(site)) if isinstance(value, float) else value


def in_range(value: float, kind: torch.dtype) -> float:
    """``value`` as the type has it: beyond its largest finite number lies infinity."""
    if kind.is_floating_point and math.isfinite(value) and abs(value) > torch.finfo(kind).max:
        return math.copysign(math.inf, value)
    return value


def listed(value: Tensor) -> list[int]:
    """A tensor of integers as a list; waits for the device it is on."""
    return value.reshape(-1).tolist()


def stacked(values: Sequence[Tensor], axis: int) -> Tensor:
    """Tensors of one shape along a new axis; torch does not copy integers of less than a byte itself."""
    if values and values[0].dtype in SMALL:
        storage = SMALL[values[0].dtype][1]
        return torch.stack([v.view(storage) for v in values], axis).view(values[0].dtype)
    return torch.stack(tuple(values), axis)


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window, as the attributes of a node describe it.

    Args:
        kernel: The window's size per spatial axis.
        strides: Steps between windows.
        dilations: Steps between the elements of a window.
        pads: Padding before and after each axis; ``None`` where ``auto_pad`` asks to compute it from the input's size.
        upper: For ``auto_pad``: whether the odd element goes after (``SAME_UPPER``) or before.
        ceil: Whether a last window that is only partly inside counts.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...] | None
    upper: bool
    ceil: bool

    @property
    def extents(self) -> tuple[int, ...]:
        """The size of a dilated window per axis."""
        return tuple(map(span, self.kernel, self.dilations))

    @property
    def symmetric(self) -> tuple[int, ...] | None:
        """The padding per axis, where it is the same before and after."""
        if self.pads is None or any(before != after for before, after in self.pads):
            return None
        return tuple(before for before, _ in self.pads)

    def padding(self, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The padding before and after each axis of an input of these sizes."""
        if self.pads is not None:
            return self.pads
        axes = zip(sizes, self.extents, self.strides, strict=True)
        return tuple(same_padding(size, extent, stride, upper=self.upper) for size, extent, stride in axes)

    def counts(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The number of windows per axis."""
        axes = zip(sizes, self.padding(sizes), self.extents, self.strides, strict=True)
        return tuple(window_count(size, *pads, extent, stride, ceil=self.ceil) for size, pads, extent, stride in axes)

    def exact_padding(self, sizes: Sequence[int]) -> list[int]:
        """The padding, in the order of `torch.nn.functional.pad`, after which the windows fill the input exactly.

        It is negative after an axis whose last elements no window reaches.
        """
        pads: list[int] = []
        counts, padding = self.counts(sizes), self.padding(sizes)
        for size, count, (before, _), extent, stride in zip(sizes, counts, padding, self.extents, self.strides, strict=True):
            pads[:0] = [before, (count - 1) * stride + extent - size - before]
        return pads

    def padded(self, x: Tensor, value: float) -> Tensor:
        """The input with what the windows see beyond its border."""
        pads = self.exact_padding(x.shape[2:])
        return torch.constant_pad_nd(x, pads, value) if any(pads) else x


def window(site: Site, kernel: Sequence[int]) -> Window:
    """The window of a convolution or pooling node.

    With ``auto_pad`` and a known input size, the padding is computed here, once.
    """
    n = len(kernel)
    auto = site.attribute("auto_pad", "NOTSET")
    pads = tuple(site.attribute("pads", (0,) * 2 * n)) if auto == "NOTSET" else (0,) * 2 * n
    shape = Window(
        kernel=tuple(kernel),
        strides=tuple(site.attribute("strides", (1,) * n)),
        dilations=tuple(site.attribute("dilations", (1,) * n)),
        pads=None if auto.startswith("SAME") else tuple(zip(pads[:n], pads[n:], strict=True)),
        upper=auto == "SAME_UPPER",
        ceil=bool(site.attribute("ceil_mode", 0)),
    )
    sizes = static_shape(site)
    if shape.pads is None and sizes is not None:
        return Window(shape.kernel, shape.strides, shape.dilations, shape.padding(sizes[2:]), shape.upper, shape.ceil)
    return shape


def kernel_shape(site: Site, weight: int | None = None) -> tuple[int, ...]:
    """The kernel's size, from the attribute or from the shape of the weights.

    Raises:
        NotNative: It is only known when the network runs.
    """
    declared = site.attribute("kernel_shape")
    if declared:
        return tuple(declared)
    shape = None if weight is None else static_shape(site, weight)
    if shape is None:
        raise NotNative("the kernel's shape is not known before it runs")
    return shape[2:]
