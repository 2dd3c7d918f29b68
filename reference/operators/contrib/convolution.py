"""Convolutions joined with a sum and an activation, or with padding known late."""

from __future__ import annotations

from deep_bench.reference.operators import convolution
from deep_bench.reference.operators._arguments import in_float32
from deep_bench.reference.operators.contrib.activation import after_conv

__all__ = ["ConvTransposeWithDynamicPads", "FusedConv"]


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
