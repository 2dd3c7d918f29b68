"""What a resized axis is made of: for each element of the result, which elements of the input count, and how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.adapters.lowering import NotNative

_ROUND: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """The attributes of a ``Resize`` node.

    Args:
        mode: ``"nearest"``, ``"linear"`` or ``"cubic"``.
        coordinates: How a place in the result is one in the input.
        nearest: How it is rounded.
        a: The coefficient of the cubic kernel.
        exclude_outside: Whether places beyond the border weigh nothing.
        antialias: Whether the kernel is stretched when shrinking.
    """

    mode: str
    coordinates: str
    nearest: str
    a: float
    exclude_outside: bool
    antialias: bool


@dataclass(frozen=True, slots=True)
class Taps:
    """For each element of a resized axis: the input's elements, their weights, and whether it lies outside.

    ``index`` and ``weight`` have the shape ``[result, taps]``.
    """

    index: np.ndarray
    weight: np.ndarray
    outside: np.ndarray


@dataclass(frozen=True, slots=True)
class Axis:
    """One resized axis.

    Args:
        size: Its length in the input.
        result: Its length in the result.
        scale: The factor between them as the node states it; ``size * scale`` need not be an integer.
        region: Start and end of the region of interest, from 0 to 1.
    """

    size: int
    result: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


def places(rule: Rule, axis: Axis, kind: Any = np.float32) -> np.ndarray:
    """Where in the input each element of the result lies, computed in an element type."""
    size, result, scale, region = axis.size, axis.result, axis.scale, axis.region
    i = np.arange(result, dtype=kind)
    s = kind(scale)
    unit, half = kind(1), kind(0.5)
    if rule.coordinates == "half_pixel":
        return (i + half) / s - half
    if rule.coordinates == "half_pixel_symmetric":
        adjustment = kind(result) / (s * kind(size))
        centre = kind(size) / 2
        return centre * (unit - adjustment) + (i + half) / s - half
    if rule.coordinates == "pytorch_half_pixel":
        return (i + half) / s - half if result > 1 else np.zeros_like(i)
    if rule.coordinates == "align_corners":
        return i * kind(size - 1) / kind(result - 1) if result > 1 else np.zeros_like(i)
    if rule.coordinates == "asymmetric":
        return i / s
    if rule.coordinates == "tf_crop_and_resize":
        start, end = (kind(v) for v in region)
        if result > 1:
            return start * kind(size - 1) + i * (end - start) * kind(size - 1) / kind(result - 1)
        return np.full_like(i, half * (start + end) * kind(size - 1))
    raise NotNative(f"torch has no coordinates {rule.coordinates!r}")


def taps(rule: Rule, axis: Axis, kind: Any = np.float32) -> Taps:
    """The taps of one axis, with weights in an element type; decisions are taken in float32, as everywhere."""
    size, result, scale = axis.size, axis.result, axis.scale
    x = places(rule, axis)
    outside = (x < 0) | (x > size - 1) if rule.coordinates == "tf_crop_and_resize" else np.zeros(result, bool)
    if rule.mode == "nearest":
        index = np.clip(_ROUND[rule.nearest](x), 0, size - 1).astype(np.int64)
        return Taps(index[:, None], np.ones((result, 1), np.float32), outside)
    x = places(rule, axis, kind)
    first = np.floor(x).astype(np.int64)
    stretch = max(1.0, 1.0 / scale) if rule.antialias else 1.0
    reach = int(np.ceil((1 if rule.mode == "linear" else 2) * stretch))
    index = first[:, None] + np.arange(1 - reach, reach + 1)
    distance = (x[:, None] - index.astype(kind)) / kind(stretch)
    weight = _linear(distance) if rule.mode == "linear" else _cubic(distance, rule.a)
    if rule.exclude_outside:
        weight = np.where((index < 0) | (index >= size), 0, weight)
    if rule.exclude_outside or rule.antialias:
        weight = weight / weight.sum(1, keepdims=True)
    return Taps(np.clip(index, 0, size - 1), weight.astype(kind), outside)


def _linear(distance: np.ndarray) -> np.ndarray:
    return np.maximum(0, 1 - np.abs(distance))


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    t = np.abs(distance.astype(np.float64))
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))
