"""Convolutions joined with a sum and an activation, or with padding known late."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators import convolution, pooling
from deep_bench.reference.operators._arguments import in_float32
from deep_bench.reference.operators.contrib.activation import after_conv
from deep_bench.reference.operators.contrib.quantize import quantized, real

__all__ = ["ConvTransposeWithDynamicPads", "FusedConv", "NhwcMaxPool", "QLinearAveragePool", "QLinearGlobalAveragePool"]


@in_float32
def FusedConv(
    x,
    w,
    b=None,
    z=None,
    *,
    activation=None,
    activation_params=None,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    pads=None,
    strides=None,
):
    """``activation(conv(x, w, b) + z)``.

    ``activation_params`` are alpha (LeakyRelu), alpha and beta (HardSigmoid), or the bounds (Clip).

    Source:
        ONNX Runtime FusedConv.
    """
    function = after_conv(activation, activation_params)
    y = convolution.Conv(x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    return function(y if z is None else y + z)


def ConvTransposeWithDynamicPads(
    x,
    w,
    pads=None,
    b=None,
    *,
    auto_pad="NOTSET",
    dilations=None,
    group=1,
    kernel_shape=None,
    output_padding=None,
    strides=None,
):
    """ConvTranspose, whose ``pads`` are an input. Source: ONNX Runtime ConvTransposeWithDynamicPads."""
    return convolution.ConvTranspose(
        x,
        w,
        b,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        output_padding=output_padding,
        pads=None if pads is None else tuple(pads.reshape(-1).tolist()),
        strides=strides,
    )


def NhwcMaxPool(x, *, kernel_shape, auto_pad="NOTSET", ceil_mode=0, dilations=None, pads=None, strides=None):
    """MaxPool of integers whose channels are the last axis. Source: ONNX Runtime NhwcMaxPool."""
    y = pooling.MaxPool(
        np.moveaxis(x, -1, 1),
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        strides=strides,
    )
    return np.moveaxis(y, 1, -1)


def QLinearAveragePool(
    x,
    x_scale,
    x_zero_point,
    y_scale,
    y_zero_point=None,
    *,
    kernel_shape,
    auto_pad="NOTSET",
    ceil_mode=0,
    channels_last=0,
    count_include_pad=0,
    pads=None,
    strides=None,
):
    """AveragePool of what ``x`` stands for, quantized; the channels are the last axis if ``channels_last``.

    Source:
        ONNX Runtime QLinearAveragePool.
    """
    values = real(x, x_scale, x_zero_point)
    y = pooling.AveragePool(
        np.moveaxis(values, -1, 1) if channels_last else values,
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
        pads=pads,
        strides=strides,
    )
    y = quantized(y, y_scale, y_zero_point, x.dtype)
    return np.moveaxis(y, 1, -1) if channels_last else y


def QLinearGlobalAveragePool(x, x_scale, x_zero_point, y_scale, y_zero_point, *, channels_last=0):
    """The mean of each channel of what ``x`` stands for, quantized; the channels are the last axis if ``channels_last``.

    Source:
        ONNX Runtime QLinearGlobalAveragePool.
    """
    over = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    y = np.mean(real(x, x_scale, x_zero_point), axis=over, keepdims=True)
    return quantized(y, y_scale, y_zero_point, x.dtype)
