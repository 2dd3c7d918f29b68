"""Arithmetic on what is quantized to eight bits, with a scale and a zero point for each tensor."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import activation, elementwise, quantize, shape
from deep_bench.reference.operators._arguments import check_choice

__all__ = [
    "DequantizeLinear",
    "QLinearAdd",
    "QLinearConcat",
    "QLinearConv",
    "QLinearLeakyRelu",
    "QLinearMul",
    "QLinearSigmoid",
    "QLinearSoftmax",
    "QLinearWhere",
    "QuantizeLinear",
]


def QuantizeLinear(x, y_scale, y_zero_point=None, *, axis=1):
    """QuantizeLinear of the standard, for a scalar scale or one per element of ``axis``.

    Source:
        ONNX Runtime QuantizeLinear.
    """
    return quantize.QuantizeLinear(x, y_scale, y_zero_point, axis=axis)


def DequantizeLinear(x, x_scale, x_zero_point=None, *, axis=1):
    """DequantizeLinear of the standard, for a scalar scale or one per element of ``axis``.

    Source:
        ONNX Runtime DequantizeLinear.
    """
    return quantize.DequantizeLinear(x, x_scale, x_zero_point, axis=axis)


def real(x, scale, zero_point):
    """What ``x`` stands for: ``(x - zero_point) * scale``, with zero point 0 if it is ``None``."""
    return quantize.DequantizeLinear(x, scale, zero_point)


def quantized(y, scale, zero_point, dtype):
    """``saturate(round(y / scale) + zero_point)`` in ``dtype``, with zero point 0 if it is ``None``."""
    return quantize.QuantizeLinear(y, scale, np.zeros((), dtype) if zero_point is None else zero_point)


def QLinearAdd(a, a_scale, a_zero_point, b, b_scale, b_zero_point, c_scale, c_zero_point=None):
    """The sum of what ``a`` and ``b`` stand for, quantized. Source: ONNX Runtime QLinearAdd."""
    total = real(a, a_scale, a_zero_point) + real(b, b_scale, b_zero_point)
    return quantized(total, c_scale, c_zero_point, a.dtype)


def QLinearMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, c_scale, c_zero_point=None):
    """The product of what ``a`` and ``b`` stand for, quantized. Source: ONNX Runtime QLinearMul."""
    unit_scale = np.ones_like(a_scale)
    product = real(a, unit_scale, a_zero_point) * real(b, unit_scale, b_zero_point)
    return quantized(product * (a_scale * b_scale / c_scale), unit_scale, c_zero_point, a.dtype)


def QLinearSigmoid(x, x_scale, x_zero_point, y_scale, y_zero_point=None):
    """``1 / (1 + exp(-x))`` of what ``x`` stands for, quantized. Source: ONNX Runtime QLinearSigmoid."""
    return quantized(activation.Sigmoid(real(x, x_scale, x_zero_point)), y_scale, y_zero_point, x.dtype)


def QLinearLeakyRelu(x, x_scale, x_zero_point, y_scale, y_zero_point=None, *, alpha=0.009999999776482582):
    """LeakyRelu of what ``x`` stands for, quantized. Source: ONNX Runtime QLinearLeakyRelu."""
    y = activation.LeakyRelu(real(x, x_scale, x_zero_point), alpha=alpha)
    return quantized(y, y_scale, y_zero_point, x.dtype)


def QLinearSoftmax(x, x_scale, x_zero_point, y_scale, y_zero_point, *, opset, axis=-1):
    """Softmax of what ``x`` stands for, quantized.

    It is taken along ``axis``, or over all axes from there on together if ``opset`` is below 13.

    Source:
        ONNX Runtime QLinearSoftmax.
    """
    values = real(x, x_scale, x_zero_point)
    if opset < 13:
        axis = axis % x.ndim
        values = values.reshape(*x.shape[:axis], int(np.prod(x.shape[axis:])))
        y = activation.Softmax(values).reshape(x.shape)
    else:
        y = activation.Softmax(values, axis=axis)
    return quantized(y, y_scale, y_zero_point, x.dtype)


def QLinearConcat(y_scale, y_zero_point, *inputs, axis):
    """Concatenate what tensors stand for, and quantize that; each tensor is followed by its scale and zero point.

    Source:
        ONNX Runtime QLinearConcat.
    """
    values = [real(*inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    return quantized(shape.Concat(*values, axis=axis), y_scale, y_zero_point, inputs[0].dtype)


def QLinearWhere(condition, x, x_scale, x_zero_point, y, y_scale, y_zero_point, z_scale, z_zero_point):
    """What ``x`` or ``y`` stands for, as the condition says, quantized. Source: ONNX Runtime QLinearWhere."""
    chosen = elementwise.Where(condition, real(x, x_scale, x_zero_point), real(y, y_scale, y_zero_point))
    return quantized(chosen, z_scale, z_zero_point, x.dtype)


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
    channels_last=0,
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    """QLinearConv of the standard, with the channels of ``x`` and of the result last if ``channels_last``.

    Source:
        ONNX Runtime QLinearConv.
    """
    check_choice("QLinearConv", "channels_last", channels_last, (0, 1))
    y = quantize.QLinearConv(
        np.moveaxis(x, -1, 1) if channels_last else x,
        x_scale,
        x_zero_point,
        w,
        w_scale,
        w_zero_point,
        y_scale,
        y_zero_point,
        b,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    return np.moveaxis(y, 1, -1) if channels_last else y
