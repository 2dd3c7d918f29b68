"""Conversions between element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators._arguments import check_choice, dtype_of
from deep_bench.tensor import STRING, is_float

__all__ = ["BitCast", "Cast", "CastLike"]

_FLOAT8 = (
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz,
)


def Cast(x, *, to, round_mode="up", saturate=1):
    """``x`` in the element type ``to``.

    Floating point becomes integer by truncation, and anything becomes a bool by ``x != 0``. Conversion to float8 keeps
    values beyond its range at the largest one if ``saturate``; ``round_mode`` is for float8e8m0, which has powers of 2 only.

    Source:
        ONNX Cast, opset 28.
    """
    return converted(x, dtype_of(to), round_mode=round_mode, saturate=bool(saturate))


def CastLike(x, like, *, round_mode="up", saturate=1):
    """``x`` in the element type of ``like``, as `Cast` does it. Source: ONNX CastLike, opset 25."""
    return converted(x, like.dtype, round_mode=round_mode, saturate=bool(saturate))


def BitCast(x, *, to):
    """The bits of ``x``, read as another element type of the same width. Source: ONNX BitCast, opset 26."""
    return x.view(dtype_of(to))


def converted(x, dtype, *, round_mode="up", saturate=True):
    """``x`` as ``dtype``; see `Cast`."""
    if x.dtype == dtype:
        return x
    if dtype == STRING or dtype.kind in "UT":
        if is_float(x.dtype):
            x = x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype != np.float16 else x
            special = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
            words = [special.get(word, word) for word in (str(v) for v in x.reshape(-1))]
        else:
            words = [str(v) for v in x.reshape(-1).tolist()]
        y = np.empty(len(words), dtype=object)
        y[:] = words
        return y.reshape(x.shape)
    if x.dtype.kind in "OUT":
        words = [v.decode() if isinstance(v, bytes) else str(v) for v in x.reshape(-1).tolist()]
        try:
            if np.issubdtype(dtype, np.integer):
                numbers = np.array([int(w) if w.lstrip("+-").isdigit() else int(float(w)) for w in words], dtype=dtype)
            else:
                numbers = np.array([float(w) for w in words], dtype=np.float64).astype(dtype)
        except ValueError as error:
            raise Unsupported(
                f"Cast of a string to {dtype}: {error}", "numbers such as '3.14', '1e-5', 'INF' or 'NaN'"
            ) from None
        return numbers.reshape(x.shape)
    if dtype.type is ml_dtypes.float8_e8m0fnu:
        return _to_powers_of_two(x.astype(np.float64), round_mode, saturate)
    if dtype.type in _FLOAT8 and saturate:
        limit = float(ml_dtypes.finfo(dtype).max)
        return np.clip(_in_float32(x), -limit, limit).astype(dtype)
    if is_float(dtype) and not issubclass(dtype.type, np.floating):
        return _in_float32(x).astype(dtype)
    if not issubclass(dtype.type, np.number | np.bool_) and not issubclass(x.dtype.type, np.number | np.bool_):
        x = x.astype(np.float32 if is_float(x.dtype) else np.int8)  # narrow formats do not know each other
    return x.astype(dtype)


def _in_float32(x):
    """``x`` in float32. Wider numbers are rounded to odd, so that a second rounding gives what a single one would.

    Source: Boldo and Melquiond, *Emulation of FMA and correctly rounded sums*, 2008.
    """
    y = x.astype(np.float32)
    if type(x) is not np.ndarray or x.dtype.kind not in "iuf" or x.dtype.itemsize < 4 or x.dtype == np.float32:
        return y
    exact, bits = x.astype(np.longdouble), y.view(np.uint32)
    towards_zero = np.where(np.absolute(y) > np.absolute(exact), bits - np.uint32(1), bits)
    return np.where((y == exact) | np.isnan(y), bits, towards_zero | np.uint32(1)).view(np.float32)


def _to_powers_of_two(x, round_mode, saturate):
    check_choice("Cast", "round_mode", round_mode, ("up", "down", "nearest"))
    fraction, exponent = np.frexp(np.absolute(x))  # |x| = fraction * 2 ** exponent, 1/2 <= fraction < 1
    limit = {"up": 0.5, "down": 1.0, "nearest": 0.75}[round_mode]
    above = fraction > limit if round_mode == "up" else fraction >= limit
    exponent = np.where(above, exponent, exponent - 1)
    in_range = (x != 0) & (exponent >= -127) & (exponent <= 127) & np.isfinite(x)
    highest = np.isinf(x) | (exponent > 127)
    outside = np.where(highest, 127, -127) if saturate else np.full(x.shape, 128)
    bits = 127 + np.where(np.isnan(x), 128, np.where(in_range, exponent, outside))
    return bits.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
