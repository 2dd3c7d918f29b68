"""Axes as operators name them: by number from either end, as a tensor, or left out."""

from __future__ import annotations

from typing import Any


def reduced_axes(x: Any, axes: Any, noop_with_empty_axes: int = 0) -> tuple[int, ...]:
    """The axes to reduce over: those in the tensor ``axes``; all (or none, if asked for) where it is absent or empty.

    Source:
        ONNX ReduceSum, opset 13.
    """
    if axes is not None and axes.size:
        return tuple(axis % x.ndim for axis in axes.reshape(-1).tolist())
    return () if noop_with_empty_axes else tuple(range(x.ndim))


def column(v: Any, rank: int, axis: int = 1) -> Any:
    """The vector ``v`` shaped to lie along ``axis`` of a tensor of this rank; a scalar stays one."""
    return v.reshape([-1 if a == axis % rank else 1 for a in range(rank)]) if v.ndim == 1 else v
