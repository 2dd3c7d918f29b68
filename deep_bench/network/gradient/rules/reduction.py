"""Reductions: the gradient goes back along the axes that were summed over."""

from __future__ import annotations

__all__ = ["ReduceMean", "ReduceSum"]


def spread(at, gradient, x, axes, keepdims, noop_with_empty_axes):
    """A reduction's gradient, repeated along the axes that it reduced, in the shape of ``x``."""
    if keepdims or x.static_shape == ():
        return gradient.expand(x.shape)
    if axes is None:
        return gradient if noop_with_empty_axes else gradient.expand(x.shape)
    if axes.known is not None and axes.known.size == 0:
        return gradient if noop_with_empty_axes else gradient.expand(x.shape)
    if axes.known is None and axes.static_shape is None and not noop_with_empty_axes:
        # With no axes at all a reduction is over all, and its result has no dimension to insert others into.
        axes = at.op.Where(at.op.Size(axes).equals(0), at.op.Range(0, at.op.Size(x.shape), 1), axes)
    return at.op.Unsqueeze(gradient, axes).expand(x.shape)


def ReduceSum(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    return spread(at, at.dy, x, axes, keepdims, noop_with_empty_axes)


def ReduceMean(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    count = at.op.Size(x).cast(x.dtype) / at.op.Size(at.y).cast(x.dtype)
    return spread(at, at.dy / count, x, axes, keepdims, noop_with_empty_axes)
