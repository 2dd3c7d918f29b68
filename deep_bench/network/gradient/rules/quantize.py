"""Quantization: steps, or straight through them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from deep_bench.network.gradient.rules._arithmetic import mask
from deep_bench.tensor import is_float

__all__ = ["ConvInteger", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "QuantizeLinear"]


def QuantizeLinear(at, x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    """0; straight through, the gradient of ``x / scale + zero_point`` where it is not saturated.

    Source:
        Bengio, Léonard and Courville, arXiv:1308.3432; for the scale Esser et al., arXiv:1902.08153.
    """
    if not at.backward.straight_through:
        return None
    dtype = at.y.dtype

    def unrounded(x, scale, zero_point):
        quotient = x.cast(np.float32) / _spread(at, scale.cast(np.float32), x, axis, block_size)
        if zero_point is not None:
            quotient = quotient + _spread(at, zero_point.cast(np.float32), x, axis, block_size)
        rounded = at.op.Round(quotient) if not is_float(dtype) else quotient
        limits = ml_dtypes.finfo(dtype) if is_float(dtype) else ml_dtypes.iinfo(dtype)
        inside = (rounded >= float(limits.min)) & (rounded <= float(limits.max))
        return at.op.Where(inside, quotient, 0).cast(at.dy.dtype)

    return at.through(unrounded, x, scale, zero_point)


def DequantizeLinear(at, x, scale, zero_point=None, *, axis=1, block_size=0, **attributes):
    """``dx = dy * scale``, ``d scale = dy * (x - zero_point)``, ``d zero_point = -dy * scale``."""
    work = np.float64 if scale.dtype == np.float64 else np.float32

    def product(x, scale, zero_point):
        difference = x.cast(work)
        if zero_point is not None:
            difference = difference - _spread(at, zero_point.cast(work), x, axis, block_size)
        return (difference * _spread(at, scale.cast(work), x, axis, block_size)).cast(at.dy.dtype)

    return at.through(product, x, scale, zero_point)


def _spread(at, v, x, axis, block_size):
    """One for all elements, or per element of an axis, or per block along it, so that it can be broadcast to ``x``."""
    if v.rank == 0 or v.static_shape == (1,):
        return v.reshape([])
    if v.rank == 1:
        return v.reshape([-1 if i == axis % x.rank else 1 for i in range(x.rank)])
    size, blocks = x.dims[axis], v.dims[axis]
    if block_size and not isinstance(size, int):
        numbers = at.op.Range(0, at.op.Shape(x).slice(0, axis, axis + 1).reshape([]), at.op.constant(1, np.int64))
        return at.op.Gather(v, at.op.Div(numbers, block_size), axis=axis)
    if not isinstance(size, int) or not (block_size or isinstance(blocks, int)):
        raise at.refusal("how many elements a block has is known only in a run")
    return at.op.Gather(v, at.op.constant(np.arange(size) // (block_size or -(-size // blocks)), np.int64), axis=axis)


def DynamicQuantizeLinear(at, x):
    """That of ``y_scale = (max(x, 0) - min(x, 0)) / 255``; straight through, that of ``y = x / y_scale`` too."""

    def smooth(x):
        highest, lowest = at.op.Max(at.op.ReduceMax(x, keepdims=0), 0), at.op.Min(at.op.ReduceMin(x, keepdims=0), 0)
        scale = (highest - lowest) / 255
        divisor = scale + mask(scale.equals(0), scale)
        return (x / divisor).cast(at.gradient_or_none(0) or x), scale

    return at.through(smooth, x)


def MatMulInteger(at, a, b, a_zero_point=None, b_zero_point=None):
    """Straight through: that of ``MatMul`` of what the integers stand for, less their zero points."""
    rows = a_zero_point
    if rows is not None and rows.rank == 1 and a.rank > 1:
        rows = rows.unsqueeze(1)  # one for each row

    def product(a, b):
        return at.op.MatMul(_shifted(a, rows), _shifted(b, b_zero_point)).cast(at.dy.dtype)

    return at.through(product, a, b)


def ConvInteger(at, x, w, x_zero_point=None, w_zero_point=None, **attributes):
    """Straight through: that of ``Conv`` of what the integers stand for, less their zero points."""
    channels = w_zero_point
    if channels is not None and channels.rank == 1:
        channels = channels.reshape([-1] + [1] * (w.rank - 1))

    def convolution(x, w):
        return at.op.Conv(_shifted(x, x_zero_point), _shifted(w, channels), **attributes).cast(at.dy.dtype)

    return at.through(convolution, x, w)


def _shifted(v, zero_point):
    return v.cast(np.float32) if zero_point is None else v.cast(np.float32) - zero_point.cast(np.float32)
