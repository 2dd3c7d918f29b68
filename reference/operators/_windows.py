"""Windows that slide over the spatial axes of an ``(N, C, D1, …)`` tensor, as convolutions and pools use them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.graph.windows import same_padding, span, window_count
from deep_bench.reference.operators._arguments import check_choice

_AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class Windows:
    """Where windows of one shape lie on the spatial axes of a tensor; one entry per spatial axis in each field.

    Args:
        kernel: Elements in a window.
        strides: Distance between windows.
        dilations: Distance between the elements of a window.
        begins: Padding before the tensor.
        ends: Padding after the tensor.
        outputs: The number of windows.
        overhang: How far the last window reaches beyond the padding, which happens with ``ceil_mode`` only.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]
    outputs: tuple[int, ...]
    overhang: tuple[int, ...] = ()

    def pad(self, x: Any, value: Any) -> Any:
        """``x`` with ``value`` around it, as far as the windows reach."""
        ends = [e + o for e, o in zip(self.ends, self.overhang, strict=True)]
        return padded(x, self.begins, ends, value)

    def taps(self, x: Any) -> Iterator[Any]:
        """For each position in the window, in row-major order: that element of all windows, a view ``(N, C, *outputs)``.

        A loop over the few positions of a window, with NumPy running over the many windows, is far faster than a reduction
        over the small axes of a view of all windows.

        Args:
            x: The padded tensor.
        """
        return (x[at] for at in self.positions())

    def positions(self) -> Iterator[tuple[Any, ...]]:
        """The index that makes each of the `taps`."""
        for position in itertools.product(*map(range, self.kernel)):
            starts = [p * d for p, d in zip(position, self.dilations, strict=True)]
            stops = [p + max((o - 1) * s + 1, 0) for p, o, s in zip(starts, self.outputs, self.strides, strict=True)]
            yield (..., *map(slice, starts, stops, self.strides))


def windows(
    spatial: Sequence[int],
    kernel: Sequence[int],
    *,
    auto_pad: str = "NOTSET",
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
) -> Windows:
    """Lay out windows from the attributes that convolutions and pools share.

    How many there are along an axis, and what ``auto_pad`` adds, is defined in `deep_bench.graph.windows`.

    Source:
        ONNX AveragePool, opset 22.
    """
    check_choice("Conv or pool", "auto_pad", auto_pad, _AUTO_PADS)
    rank = len(kernel)
    strides, dilations = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    pads = tuple(pads) if pads and auto_pad == "NOTSET" else (0,) * (2 * rank)
    begins, ends, outputs, overhang = [], [], [], []
    for i, k, s, d, begin, end in zip(spatial, kernel, strides, dilations, pads[:rank], pads[rank:], strict=True):
        extent = span(k, d)
        if auto_pad.startswith("SAME"):
            begin, end = same_padding(i, extent, s, upper=auto_pad == "SAME_UPPER")
        count = window_count(i, begin, end, extent, s, ceil=bool(ceil_mode))
        begins.append(begin)
        ends.append(end)
        outputs.append(count)
        overhang.append(max((count - 1) * s + extent - i - begin - end, 0) if count else 0)
    return Windows(tuple(kernel), strides, dilations, *map(tuple, (begins, ends, outputs, overhang)))


def padded(x: Any, begins: Sequence[int], ends: Sequence[int], value: Any) -> Any:
    """``x`` with ``value`` before and after it along its last axes."""
    if not any(begins) and not any(ends):
        return x
    lead = x.ndim - len(begins)
    sizes = x.shape[lead:]
    shape = x.shape[:lead] + tuple(b + i + e for b, i, e in zip(begins, sizes, ends, strict=True))
    y = np.full_like(x, value, shape=shape)
    y[box(begins, sizes)] = x
    return y


def box(begins: Sequence[int], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The index of a box on a tensor's last axes."""
    return (..., *(slice(b, b + i) for b, i in zip(begins, sizes, strict=True)))
