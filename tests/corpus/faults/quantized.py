"""Faults of quantized operators: scales, zero points, rounding, saturation, overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import after, attributes, bfloat16, float16, on_input, rounded_inputs, scaled, times, without
from ..subjects import Patch


def _zeroed(position: int) -> Patch:
    """A zero point that is taken for 0."""
    return on_input(position, np.zeros_like)


def _stepped(position: int, step: int = 1) -> Patch:
    """A zero point off by a step."""
    return on_input(position, lambda z: (z + z.dtype.type(step)).astype(z.dtype))


def _quantized(*, rounding: Any = np.rint, wraps: bool = False, low: int = 0, high: int = 255) -> Patch:
    """`QuantizeLinear` by hand, with another rounding or without saturation."""

    def patch(f: Any, x: Any, a: Any) -> Any:
        y = rounding(x[0] / x[1]).astype(np.float64) + x[2]
        return (y.astype(np.int64) if wraps else np.clip(y, low, high)).astype(x[2].dtype)

    return patch


def _half_up(x: Any) -> Any:
    return np.floor(x + x.dtype.type(0.5))


def _half_away(x: Any) -> Any:
    return np.trunc(x + np.copysign(x.dtype.type(0.5), x))


def _first_scale(position: int) -> Patch:
    """The first scale for all channels."""
    return on_input(position, lambda s: np.broadcast_to(s[:1], s.shape).copy())


def _other_axis(f: Any, x: Any, a: Any) -> Any:
    """The scales lie along the axis after."""
    return np.swapaxes(f(np.swapaxes(x[0][:, :, :6], 1, 2), *x[1:], **a), 1, 2).repeat(4, 2)[:, :, :20]


def _symmetric(f: Any, x: Any, a: Any) -> Any:
    """A range that is symmetric around zero."""
    scale = np.float32(2 * np.max(np.abs(x[0])) / 255)
    zero = np.array(128, np.uint8)
    return np.clip(np.rint(x[0] / scale) + 128, 0, 255).astype(np.uint8), np.array(scale), zero


def _range_without_zero(f: Any, x: Any, a: Any) -> Any:
    y, _, zero = f(x[0], **a)
    return y, np.array((x[0].max() - x[0].min()) / np.float32(256), np.float32), zero


def _zero_truncated(f: Any, x: Any, a: Any) -> Any:
    y, scale, _ = f(x[0], **a)
    zero = np.trunc(-x[0].min() / scale).astype(np.uint8)
    y = np.clip(np.rint(x[0] / scale) + zero, 0, 255).astype(np.uint8)
    return y, scale, np.array(np.uint8(zero + (zero == f(x[0], **a)[2])))


def _sums_in_int16(f: Any, x: Any, a: Any) -> Any:
    """Pairs of products saturate in 16 bits, as VPMADDUBSW does."""
    left, right = x[0].astype(np.int64) - x[2], x[1].astype(np.int64) - x[3]
    pairs = left[:, :, None] * right[None]
    pairs = np.clip(pairs[:, ::2] + pairs[:, 1::2], -(2**15), 2**15 - 1)
    return pairs.sum(1).astype(np.int32)


def _cross_term_lost(f: Any, x: Any, a: Any) -> Any:
    """Zero points multiplied out, without ``k za zb``."""
    left, right = x[0].astype(np.int64), x[1].astype(np.int64)
    y = left @ right - int(x[2]) * right.sum(0) - int(x[3]) * left.sum(1, keepdims=True)
    return y.astype(np.int32)


def _sign_lost(f: Any, x: Any, a: Any) -> Any:
    """Unsigned factors read as signed."""
    return f(x[0].view(np.int8), *x[1:2], x[2].view(np.int8), *x[3:], **a)


def _truncated(f: Any, x: Any, a: Any) -> Any:
    """The requantized product is cut off in place of rounded."""
    y_scale, zero = x[6], x[7]
    exact = (x[0].astype(np.float64) - x[2]) @ (x[3].astype(np.float64) - x[5]) * x[1] * x[4] / y_scale
    limits = np.iinfo(zero.dtype)
    return np.clip(np.trunc(exact) + zero, limits.min, limits.max).astype(zero.dtype)


def _wrapped(f: Any, x: Any, a: Any) -> Any:
    """The requantized product wraps around in place of saturating."""
    exact = (x[0].astype(np.float64) - x[2]) @ (x[3].astype(np.float64) - x[5]) * x[1] * x[4] / x[6]
    return (np.rint(exact) + x[7]).astype(np.int64).astype(x[7].dtype)


def _padded_with_zero(f: Any, x: Any, a: Any) -> Any:
    """The border is filled with the number 0, and not with the zero point."""
    padded = np.pad(x[0], ((0, 0), (0, 0), (1, 1), (1, 1)))
    return f(padded, *x[1:], **{**a, "pads": (0, 0, 0, 0)})


FAULTS: Mapping[tuple[str, str], Patch] = {
    ("QuantizeLinear", "QuantizeLinear with halves up"): _quantized(rounding=_half_up),
    ("QuantizeLinear", "QuantizeLinear with halves away from zero"): _quantized(rounding=_half_away),
    ("QuantizeLinear", "QuantizeLinear that cuts off"): _quantized(rounding=np.trunc),
    ("QuantizeLinear", "QuantizeLinear that wraps around"): _quantized(wraps=True),
    ("QuantizeLinear", "QuantizeLinear with a zero point off by one"): _stepped(2),
    ("QuantizeLinear", "QuantizeLinear without its zero point"): _zeroed(2),
    ("QuantizeLinear", "QuantizeLinear with another scale"): scaled(1, 1.01),
    ("QuantizeLinear", "QuantizeLinear to 254"): _quantized(high=254),
    ("QuantizeLinear by axis", "QuantizeLinear with the first scale for all"): _first_scale(1),
    ("QuantizeLinear by axis", "QuantizeLinear with the first zero point for all"): _first_scale(2),
    ("QuantizeLinear by axis", "QuantizeLinear along another axis"): _other_axis,
    ("QuantizeLinear by axis", "QuantizeLinear of bfloat16"): rounded_inputs(bfloat16),
    ("DequantizeLinear", "DequantizeLinear with a zero point off by one"): _stepped(2),
    ("DequantizeLinear", "DequantizeLinear without its zero point"): _zeroed(2),
    ("DequantizeLinear", "DequantizeLinear with a scale in bfloat16"): on_input(1, bfloat16),
    ("DequantizeLinear", "DequantizeLinear to float16"): after(float16),
    ("DequantizeLinear", "DequantizeLinear scaled by 1.0001"): after(times(1.0001)),
    ("DequantizeLinear by axis", "DequantizeLinear with the first scale for all"): _first_scale(1),
    ("DequantizeLinear by axis", "DequantizeLinear without zero points"): without(2),
    ("DequantizeLinear by axis", "DequantizeLinear along another axis"): _other_axis,
    ("DequantizeLinear by axis", "DequantizeLinear as unsigned"): lambda f, x, a: f(
        x[0].view(np.uint8), x[1], x[2].view(np.uint8), **a
    ),
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear over a symmetric range"): _symmetric,
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear in 256 steps"): _range_without_zero,
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear with another zero point"): _zero_truncated,
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear with a scale in bfloat16"): after(bfloat16, 1),
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear of float16"): rounded_inputs(float16),
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear that cuts off"): lambda f, x, a: (
        np.clip(np.trunc(x[0] / f(x[0])[1]) + f(x[0])[2], 0, 255).astype(np.uint8),
        *f(x[0])[1:],
    ),
    ("QLinearMatMul", "QLinearMatMul with a zero point off by one"): _stepped(2),
    ("QLinearMatMul", "QLinearMatMul without its second zero point"): _zeroed(5),
    ("QLinearMatMul", "QLinearMatMul without the zero point of its result"): _zeroed(7),
    ("QLinearMatMul", "QLinearMatMul with another scale"): scaled(6, 1.02),
    ("QLinearMatMul", "QLinearMatMul that cuts off"): _truncated,
    ("QLinearMatMul", "QLinearMatMul that wraps around"): _wrapped,
    ("QLinearMatMul", "QLinearMatMul without its last term"): lambda f, x, a: f(
        x[0][:, :-1], *x[1:3], x[3][:-1], *x[4:], **a
    ),
    ("QLinearMatMul", "QLinearMatMul one step too high"): after(
        lambda y: np.clip(y.astype(int) + 1, 0, 255).astype(y.dtype)
    ),
    ("QLinearMatMul by column", "QLinearMatMul with the first scale for all"): _first_scale(4),
    ("QLinearMatMul by column", "QLinearMatMul without zero points of its columns"): _zeroed(5),
    ("QLinearMatMul by column", "QLinearMatMul that cuts off"): _truncated,
    ("QLinearMatMul by column", "QLinearMatMul with a scale in bfloat16"): on_input(4, bfloat16),
    ("QLinearConv", "QLinearConv padded with zeros"): _padded_with_zero,
    ("QLinearConv", "QLinearConv without bias"): without(8),
    ("QLinearConv", "QLinearConv with the first scale for all"): _first_scale(4),
    ("QLinearConv", "QLinearConv with a zero point off by one"): _stepped(2),
    ("QLinearConv", "QLinearConv without the zero point of its result"): _zeroed(7),
    ("QLinearConv", "QLinearConv with shifted padding"): attributes(pads=(0, 1, 2, 1)),
    ("QLinearConv", "QLinearConv with a bias in units of the result"): on_input(8, lambda b: (b // 30).astype(b.dtype)),
    ("MatMulInteger", "MatMulInteger with pairs in 16 bits"): _sums_in_int16,
    ("MatMulInteger", "MatMulInteger without the product of zero points"): _cross_term_lost,
    ("MatMulInteger", "MatMulInteger with signs"): _sign_lost,
    ("MatMulInteger", "MatMulInteger without its second zero point"): without(3),
    ("MatMulInteger", "MatMulInteger through float16"): lambda f, x, a: f(*x, **a).astype(np.float16).astype(np.int32),
    ("ConvInteger", "ConvInteger padded with zeros"): _padded_with_zero,
    ("ConvInteger", "ConvInteger without its second zero point"): without(3),
    ("ConvInteger", "ConvInteger with a zero point off by one"): _stepped(2),
    ("quantized layer", "QuantizeLinear with a zero point off by one"): _stepped(2),
    ("quantized layer", "QuantizeLinear that cuts off"): _quantized(rounding=np.trunc),
    ("quantized layer", "DequantizeLinear without its zero point"): _zeroed(2),
    ("quantized layer", "MatMul of bfloat16"): rounded_inputs(bfloat16),
}
