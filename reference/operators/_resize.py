"""What ``Resize`` does along one axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.reference.operators._arguments import check_choice
from deep_bench.reference.operators._interpolation import cubic, neighbours, triangle

_TIE = 1e-6
"""Coordinates this close to the middle of two elements are meant to be there: a scale such as 2/7 is rounded."""

_ROUND: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda c: np.ceil(c - 0.5 - _TIE),
    "round_prefer_ceil": lambda c: np.floor(c + 0.5 + _TIE),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis that is resized.

    Args:
        index: Which axis.
        length: Its elements before.
        resized: Its elements after.
        scale: The scale that was asked for; ``length * scale`` may have a fraction.
        start: Where the region of interest begins, as a share of the axis.
        end: Where it ends.
    """

    index: int
    length: int
    resized: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    def original(self, x: Any, transformation: str) -> Any:
        """The coordinates ``x`` of resized elements, in the original tensor.

        Source: ONNX Resize, opset 19, ``coordinate_transformation_mode``.
        """
        n, m, scale = self.length, self.resized, x.dtype.type(self.scale)
        half = x.dtype.type(0.5)
        match transformation:
            case "asymmetric":
                return x / scale
            case "pytorch_half_pixel" if m <= 1:
                return x * 0
            case "half_pixel" | "pytorch_half_pixel":
                return (x + half) / scale - half
            case "half_pixel_symmetric":
                offset = half * n * (1 - m / (n * scale))
                return offset + (x + half) / scale - half
            case "align_corners":
                return x * (n - 1) / max(m - 1, 1)
            case _:  # tf_crop_and_resize
                start, end = x.dtype.type(self.start), x.dtype.type(self.end)
                if m <= 1:
                    return x * 0 + half * (start + end) * (n - 1)
                return start * (n - 1) + x * (end - start) * (n - 1) / (m - 1)


def nearest(axis: Axis, position: Any, rounding: str) -> np.ndarray:
    """The element nearest to each position."""
    check_choice("Resize", "nearest_mode", rounding, _ROUND)
    exact = position.astype(np.float64)  # so that half an element is added without rounding
    return np.clip(_ROUND[rounding](exact).astype(np.int64), 0, axis.length - 1)


def weighted(
    axis: Axis, position: Any, mode: str, *, a: float, antialias: bool, exclude_outside: bool
) -> tuple[np.ndarray, Any]:
    """The elements around each position and their weights, one row per position.

    The weight of element ``i`` is ``kernel((i - position) / stretch)``, where ``stretch`` is 1, or ``1 / scale`` for an
    antialiased reduction. Elements outside the tensor repeat its first or last one; with ``exclude_outside`` they weigh 0.
    """
    radius = 1 if mode == "linear" else 2
    stretch = position.dtype.type(max(1.0, 1.0 / axis.scale) if antialias else 1.0)
    taps = neighbours(position, int(np.ceil(radius * stretch)))
    distance = (taps.astype(position.dtype) - position[:, np.newaxis]) / stretch
    weights = triangle(distance) if mode == "linear" else cubic(distance, a)
    inside = np.clip(taps, 0, axis.length - 1)
    if exclude_outside:
        weights = np.where(taps == inside, weights, np.zeros_like(weights))
    if exclude_outside or antialias:
        weights = weights / np.sum(weights, axis=1, keepdims=True)
    return inside, weights
