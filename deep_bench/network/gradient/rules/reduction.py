"""Reductions: the gradient goes back along the axes that were reduced."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._arithmetic import in_float32, mask, nonzero, where

__all__ = [
    "CumProd",
    "CumSum",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]


def restored(at, y, x, axes, keepdims, noop_with_empty_axes):
    """A reduction's result, or its gradient, with the axes that it lost as axes of one element again."""
    if keepdims or x.static_shape == ():
        return y
    count = None if axes is None else _count(axes)
    if axes is None or count == 0:
        return y  # of all axes: a scalar; of none: the shape of x
    if count is None and not noop_with_empty_axes:
        # With no axes at all a reduction is over all of them.
        rank = at.op.Size(x.shape)
        missing = at.op.Range(0, rank * at.op.Size(axes).equals(0).cast(np.int64), at.op.constant(1, np.int64))
        axes = at.op.Concat(missing, axes, axis=0)
    return at.op.Unsqueeze(y, axes)


def _count(axes):
    shape = axes.static_shape
    return None if shape is None else int(np.prod(shape))


def spread(at, gradient, x, *settings):
    """A reduction's gradient, repeated along the axes that it reduced, in the shape of ``x``."""
    if x.static_shape is not None and 0 in x.static_shape:
        return at.op.constant(np.zeros(x.static_shape), gradient.dtype)
    back = restored(at, gradient, x, *settings)
    return back if back.static_shape is not None and back.static_shape == x.static_shape else back.expand(x.shape)


def ReduceSum(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy``."""
    return spread(at, at.dy, x, axes, keepdims, noop_with_empty_axes)


@in_float32
def ReduceMean(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy / n``."""
    before, after = x.static_shape, at.y.static_shape
    if before is None or after is None:
        count = at.op.Size(x).cast(x.dtype) / at.op.Size(at.y).cast(x.dtype)
    else:
        count = float(np.prod(before) / max(np.prod(after), 1))
    return spread(at, at.dy / count, x, axes, keepdims, noop_with_empty_axes)


@in_float32
def ReduceSumSquare(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = 2 * dy * x``."""
    return x * restored(at, at.dy + at.dy, x, axes, keepdims, noop_with_empty_axes)


@in_float32
def ReduceL1(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy * sign(x)``, 0 at 0."""
    return at.op.Sign(x) * restored(at, at.dy, x, axes, keepdims, noop_with_empty_axes)


@in_float32
def ReduceL2(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy * x / y``, 0 where ``y`` is."""
    length = at.y + mask(at.y.equals(0), at.y)
    return x * restored(at, at.dy / length, x, axes, keepdims, noop_with_empty_axes)


@in_float32
def ReduceLogSum(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy / sum of x``."""
    total = at.op.ReduceSum(x, axes, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes)
    return spread(at, at.dy / nonzero(total), x, axes, keepdims, noop_with_empty_axes)


@in_float32
def ReduceLogSumExp(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy * exp(x - y)``."""
    # Not y itself, which may have been rounded to a narrow format; and not -inf - -inf.
    y = at.op.ReduceLogSumExp(x, axes, keepdims=1, noop_with_empty_axes=noop_with_empty_axes)
    y = at.op.Max(y, float(np.finfo(x.dtype).min))
    return at.op.Exp(x - y) * restored(at, at.dy, x, axes, keepdims, noop_with_empty_axes)


def ReduceMax(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy`` where ``x`` is the largest; elements that are equally large share it."""
    return _extreme(at, x, axes, keepdims, noop_with_empty_axes)


def ReduceMin(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy`` where ``x`` is the smallest; elements that are equally small share it."""
    return _extreme(at, x, axes, keepdims, noop_with_empty_axes)


def _extreme(at, x, axes, keepdims, noop):
    chosen = mask(x.equals(restored(at, at.y, x, axes, keepdims, noop)), at.dy)
    count = at.op.ReduceSum(chosen, axes, keepdims=keepdims, noop_with_empty_axes=noop)
    return chosen * restored(at, at.dy / at.op.Max(count, 1), x, axes, keepdims, noop)


@in_float32
def ReduceProd(at, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``dx = dy * product of the others``: that of all which are not 0, divided by ``x``, unless another one is 0."""
    settings = keepdims, noop_with_empty_axes
    zero = mask(x.equals(0), x)
    safe = x + zero
    zeros = at.op.ReduceSum(zero, axes, keepdims=1, noop_with_empty_axes=noop_with_empty_axes)
    product = at.op.ReduceProd(safe, axes, keepdims=1, noop_with_empty_axes=noop_with_empty_axes)
    other_product = product * restored(at, at.dy, x, axes, *settings) / safe
    return where((zeros - zero).equals(0), other_product)


def CumSum(at, x, axis, *, exclusive=0, reverse=0):
    """``dx`` is the running sum of ``dy`` from the other end."""
    return at.op.CumSum(at.dy, axis, exclusive=exclusive, reverse=1 - reverse), None


@in_float32
def CumProd(at, x, axis, *, exclusive=0, reverse=0):
    """``dx[i] = sum over k of dy[k] * y[k] / x[i]``, for the results ``k`` that contain ``x[i]``.

    Results from the first 0 on are 0. What they are without it is its own gradient; elements behind it have none.
    """
    back = {"exclusive": exclusive, "reverse": 1 - reverse}
    zero = x.equals(0)
    count = at.op.CumSum(zero.cast(np.int64), axis, reverse=reverse)
    first = mask(zero & count.equals(1), x)
    before = at.op.CumSum(at.dy * at.y, axis, **back) / (x + mask(zero, x))
    without = at.op.CumProd(x + first, axis, exclusive=exclusive, reverse=reverse)
    at_first = at.op.CumSum(at.dy * without, axis, **back)
    return where(count.equals(0), before) + first * at_first, None
