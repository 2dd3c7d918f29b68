"""Quantization to integers and narrow floating point, and arithmetic on what is quantized."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from deep_bench.reference.operators._arguments import column, dtype_of
from deep_bench.reference.operators.cast import converted
from deep_bench.reference.operators.convolution import ConvInteger
from deep_bench.reference.operators.linear import MatMulInteger
from deep_bench.tensor import is_integer

__all__ = ["DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"]


def QuantizeLinear(x, scale, zero_point=None, *, axis=1, block_size=0, output_dtype=0, precision=0, saturate=1):
    """``saturate(round(x / scale) + zero_point)``, with one scale for all, per element of ``axis``, or per block along it.

    Halves are rounded to even. The quotient is taken in the dtype of ``scale``, or in ``precision``.

    Source:
        ONNX QuantizeLinear, opset 28.
    """
    if output_dtype:
        dtype = dtype_of(output_dtype)
    else:
        dtype = np.dtype(np.uint8) if zero_point is None else zero_point.dtype
    work = dtype_of(precision) if precision else scale.dtype
    quotient = np.divide(x.astype(work, copy=False), _spread(scale, x, axis, block_size).astype(work, copy=False))
    offset = 0 if zero_point is None else _spread(zero_point, x, axis, block_size).astype(np.float64)
    return _saturated(quotient, offset, dtype, saturate)


def _saturated(quotient, offset, dtype, saturate=1):
    if not is_integer(dtype):
        return converted(quotient + offset if np.any(offset) else quotient, dtype, saturate=bool(saturate))
    limits = ml_dtypes.iinfo(dtype)
    return np.clip(np.rint(quotient).astype(np.float64) + offset, int(limits.min), int(limits.max)).astype(dtype)


def _spread(v, x, axis, block_size):
    """``v`` shaped to be broadcast to ``x``: a scalar, a vector along ``axis``, or repeated for each element of a block."""
    if v.size == 1 and v.ndim < 2:
        return v.reshape(())
    if v.ndim == 1:
        return column(v, x.ndim, axis)
    size = block_size or -(-x.shape[axis] // v.shape[axis])
    return np.take(v, np.arange(x.shape[axis]) // size, axis=axis)


def DequantizeLinear(x, scale, zero_point=None, *, axis=1, block_size=0, output_dtype=0):
    """``(x - zero_point) * scale``, with one scale for all, per element of ``axis``, or per block along it.

    Source:
        ONNX DequantizeLinear, opset 28.
    """
    dtype = dtype_of(output_dtype) if output_dtype else scale.dtype
    work = np.float32 if scale.dtype.itemsize < 4 else scale.dtype
    difference = x.astype(np.float64)
    if zero_point is not None:
        difference = difference - _spread(zero_point, x, axis, block_size).astype(np.float64)
    y = difference.astype(work) * _spread(scale, x, axis, block_size).astype(work, copy=False)
    return y.astype(dtype, copy=False)


def DynamicQuantizeLinear(x):
    """``x`` in uint8 with the scale and zero point that make its range, and 0, fit: ``scale = (max - min) / 255``.

    Source:
        ONNX DynamicQuantizeLinear, opset 11.
    """
    highest, lowest = np.max(x, initial=0), np.min(x, initial=0)
    scale = np.divide(highest - lowest, 255)
    divisor = np.where(scale == 0, 1, scale).astype(x.dtype, copy=False)
    zero_point = np.rint(np.clip(-lowest / divisor, 0, 255)).astype(np.uint8)
    return QuantizeLinear(x, divisor, zero_point), scale, zero_point


def QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point):
    """The matrix product of what ``a`` and ``b`` stand for, quantized. Source: ONNX QLinearMatMul, opset 21."""
    if is_integer(a.dtype):
        product = MatMulInteger(a, b, a_zero_point, b_zero_point)
    else:
        lhs, left_zero, right, right_zero = (v.astype(np.float32) for v in (a, a_zero_point, b, b_zero_point))
        product = np.matmul(lhs - _rows(left_zero, a), right - right_zero)
    a_factor, b_factor = (v.astype(np.float32, copy=False) for v in (_rows(a_scale, a), b_scale))
    if b.ndim == 1 and a_factor.ndim > 1:
        a_factor = np.squeeze(a_factor, axis=-1)  # a vector leaves the product without columns
    if a.ndim == 1 and b_factor.ndim > 1:
        b_factor = np.squeeze(b_factor, axis=-2)  # … or without rows
    factor = a_factor * b_factor / _rows(y_scale, product).astype(np.float32, copy=False)
    return _saturated(product * factor, _rows(y_zero_point, product).astype(np.float64), y_zero_point.dtype)


def _rows(v, x):
    return v[:, np.newaxis] if v.ndim == 1 and v.size != 1 and x.ndim > 1 else v


def QLinearConv(
    x,
    x_scale,
    x_zero_point,
    w,
    w_scale,
    w_zero_point,
    y_scale,
    y_zero_point,
    b=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    """The convolution of what ``x`` and ``w`` (with one scale per output channel, or one for all) stand for, quantized.

    The bias is an integer in units of ``x_scale * w_scale``.

    Source:
        ONNX QLinearConv, opset 10.
    """
    y = ConvInteger(
        x, w, x_zero_point, w_zero_point, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides
    )
    if b is not None:
        y = y + column(b, y.ndim)
    factor = column(x_scale * w_scale / y_scale, y.ndim)
    return _saturated(y * factor, y_zero_point.astype(np.float64), y_zero_point.dtype)
