"""Correct quantized operators: zero points multiplied out, fixed-point factors, reciprocals, other integers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..patches import NormWise, in_double
from ..subjects import Patch


def _by_reciprocal(f: Any, x: Any, a: Any) -> Any:
    """Multiplied by one over the scale."""
    scale, zero = (v if v.ndim == 0 else v.reshape(1, -1, 1) for v in x[1:3])
    limits = np.iinfo(x[2].dtype)
    return np.clip(np.rint(x[0] * (1 / scale)) + zero, limits.min, limits.max).astype(x[2].dtype)


def _clipped_first(f: Any, x: Any, a: Any) -> Any:
    """Brought into the range before it is rounded, and rounded with the zero point added."""
    scale, zero = (v if v.ndim == 0 else v.reshape(1, -1, 1) for v in x[1:3])
    limits = np.iinfo(x[2].dtype)
    low, high = (np.asarray(v - zero.astype(np.int64), x[0].dtype) for v in (limits.min, limits.max))
    return (np.rint(np.clip(x[0] / scale, low, high)).astype(np.int32) + zero).astype(x[2].dtype)


def _by_table(f: Any, x: Any, a: Any) -> Any:
    """All 256 results in a table."""
    limits = np.iinfo(x[0].dtype)
    numbers = np.arange(limits.min, limits.max + 1).astype(x[0].dtype)
    table = f(numbers.reshape(1, -1), *x[1:], **{**a, "axis": 0}) if x[1].ndim == 0 else None
    assert table is not None
    return table[0][x[0].astype(np.int64) - limits.min]


def _product_and_difference(f: Any, x: Any, a: Any) -> Any:
    """``x scale - zero scale`` in place of ``(x - zero) scale``, in float64."""
    scale, zero = (v if v.ndim == 0 else v.reshape(1, -1, 1) for v in x[1:3])
    return x[0].astype(np.float64) * scale - zero.astype(np.float64) * scale


def _dynamic(f: Any, x: Any, a: Any) -> Any:
    """Range, scale and zero point by hand, in float64 but for the scale."""
    high, low = max(x[0].max(), 0), min(x[0].min(), 0)
    scale = np.asarray((high - low) / x[0].dtype.type(255), x[0].dtype)
    zero = np.rint(-float(low) / float(scale))
    y = np.clip(np.rint(x[0].astype(np.float64) / float(scale)) + zero, 0, 255)
    return y.astype(np.uint8), scale, np.asarray(zero, np.uint8)


def _dynamic_by_reciprocal(f: Any, x: Any, a: Any) -> Any:
    _, scale, zero = f(x[0], **a)
    y = np.clip(np.rint(x[0] * (1 / scale)) + zero, 0, 255)
    return y.astype(np.uint8), scale, zero


def _integers(x: Any) -> Any:
    """Products and zero points in integers, the latter multiplied out."""
    left, right = x[0].astype(np.int64), x[3].astype(np.int64)
    za, zb = x[2].astype(np.int64), x[5].astype(np.int64)
    return left @ right - za * right.sum(0) - zb * left.sum(1, keepdims=True) + left.shape[1] * za * zb


def _requantized(x: Any, y: Any) -> Any:
    limits = np.iinfo(x[7].dtype)
    return np.clip(y + x[7], limits.min, limits.max).astype(x[7].dtype)


def _zeros_out(f: Any, x: Any, a: Any) -> Any:
    factor = x[1].astype(np.float32) * x[4].astype(np.float32) / x[6].astype(np.float32)
    return _requantized(x, np.rint(_integers(x) * factor))


def _factor_in_double(f: Any, x: Any, a: Any) -> Any:
    factor = x[1].astype(np.float64) * x[4] / x[6]
    return _requantized(x, np.rint(_integers(x) * factor))


def _divided(f: Any, x: Any, a: Any) -> Any:
    """Real numbers first, then divided by the scale of the result."""
    real = _integers(x).astype(np.float32) * (x[1] * x[4]).astype(np.float32)
    return _requantized(x, np.rint(real / x[6].astype(np.float32)))


def _fixed_point(f: Any, x: Any, a: Any) -> Any:
    """The factor as a 31-bit integer and a shift, as integer-only units do it."""
    factor = np.broadcast_to(x[1].astype(np.float64) * x[4] / x[6], (x[3].shape[1],))
    exponent = np.ceil(np.log2(factor)).astype(np.int64)
    multiplier = np.rint(factor * 2.0 ** (31 - exponent)).astype(np.int64)
    shift = 31 - exponent
    product = _integers(x) * multiplier
    rounded = (product + (np.int64(1) << (shift - 1))) >> shift
    return _requantized(x, rounded)


def _integer_product(f: Any, x: Any, a: Any) -> Any:
    left, right = x[0].astype(np.int32) - x[2].astype(np.int32), x[1].astype(np.int32) - x[3].astype(np.int32)
    return left @ right


def _integer_zeros_out(f: Any, x: Any, a: Any) -> Any:
    left, right = x[0].astype(np.int64), x[1].astype(np.int64)
    za, zb = int(x[2]), int(x[3])
    y = left @ right - za * right.sum(0) - zb * left.sum(1, keepdims=True) + left.shape[1] * za * zb
    return y.astype(np.int32)


def _integer_by_halves(f: Any, x: Any, a: Any) -> Any:
    """Split in two; sums of whole numbers do not round in float32 below 2^24."""
    left = x[0].astype(np.float32) - x[2]
    right = x[1].astype(np.float32) - x[3]
    half = left.shape[1] // 2
    return (left[:, :half] @ right[:half] + left[:, half:] @ right[half:]).astype(np.int32)


def _shifted_to_signed(f: Any, x: Any, a: Any) -> Any:
    """Unsigned numbers and their zero point moved by 128, to use instructions for signed ones."""
    moved = [(v.astype(np.int32) - 128).astype(np.int8) for v in (x[0], x[2])]
    return f(moved[0], x[1], moved[1], *x[3:], **a)


def _conv_padded_by_hand(f: Any, x: Any, a: Any) -> Any:
    """Padded with the zero point beforehand."""
    p = a["pads"]
    zero = x[2]
    padded = np.pad(x[0], ((0, 0), (0, 0), (p[0], p[2]), (p[1], p[3])), constant_values=int(zero))
    return f(padded, *x[1:], **{**a, "pads": (0, 0, 0, 0)})


def _conv_by_floats(f: Any, x: Any, a: Any) -> Any:
    """As `DequantizeLinear`, `Conv` and `QuantizeLinear` in float64."""
    from deep_bench.reference.operators import find

    conv = find("", "Conv")
    assert conv is not None
    real = (x[0].astype(np.float64) - x[2]) * float(x[1])
    w = (x[3].astype(np.float64) - x[5].reshape(-1, 1, 1, 1)) * x[4].astype(np.float64).reshape(-1, 1, 1, 1)
    b = x[8].astype(np.float64) * float(x[1]) * x[4].astype(np.float64)
    return _requantized(x, np.rint(conv(real, w, b, **a) / float(x[6])))


def _channels_apart(f: Any, x: Any, a: Any) -> Any:
    """One channel of the result after the other."""
    parts = [f(*x[:3], *(v[k : k + 1] for v in x[3:6]), *x[6:8], x[8][k : k + 1], **a) for k in range(x[3].shape[0])]
    return np.concatenate(parts, axis=1)


VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    **{
        (where, f"QuantizeLinear {name}"): patch
        for where in ("QuantizeLinear", "QuantizeLinear by axis")
        for name, patch in (("by reciprocal", _by_reciprocal), ("clipped first", _clipped_first), ("in float64", in_double))
    },
    ("DequantizeLinear", "DequantizeLinear by a table"): _by_table,
    **{
        (where, f"DequantizeLinear {name}"): patch
        for where in ("DequantizeLinear", "DequantizeLinear by axis")
        for name, patch in (("as a difference", _product_and_difference), ("in float64", in_double))
    },
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear by hand"): _dynamic,
    ("DynamicQuantizeLinear", "DynamicQuantizeLinear by reciprocal"): _dynamic_by_reciprocal,
    **{
        (where, f"QLinearMatMul {name}"): patch
        for where in ("QLinearMatMul", "QLinearMatMul by column")
        for name, patch in (
            ("with zero points multiplied out", _zeros_out),
            ("with a factor in float64", _factor_in_double),
            ("divided at the end", _divided),
            ("in fixed point", _fixed_point),
        )
    },
    ("QLinearMatMul", "QLinearMatMul of signed numbers"): _shifted_to_signed,
    ("QLinearConv", "QLinearConv padded by hand"): _conv_padded_by_hand,
    ("QLinearConv", "QLinearConv by floats"): _conv_by_floats,
    ("QLinearConv", "QLinearConv channel by channel"): _channels_apart,
    ("QLinearConv", "QLinearConv of signed numbers"): _shifted_to_signed,
    ("MatMulInteger", "MatMulInteger in integers"): _integer_product,
    ("MatMulInteger", "MatMulInteger with zero points multiplied out"): _integer_zeros_out,
    ("MatMulInteger", "MatMulInteger by halves in float32"): _integer_by_halves,
    ("MatMulInteger", "MatMulInteger of signed numbers"): _shifted_to_signed,
    ("ConvInteger", "ConvInteger padded by hand"): _conv_padded_by_hand,
    ("ConvInteger", "ConvInteger of signed numbers"): _shifted_to_signed,
    ("quantized layer", "QuantizeLinear by reciprocal"): _by_reciprocal,
    ("quantized layer", "QuantizeLinear clipped first"): _clipped_first,
    ("quantized layer", "MatMul in reverse"): lambda f, x, a: f(x[0][:, ::-1].copy(), x[1][::-1].copy(), **a),
    ("quantized layer", "DequantizeLinear as a difference"): _product_and_difference,
}
