"""Conversions between all pairs of element types, at the edges of what the narrower one holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.tensor import STRING, is_float, is_integer
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, code_of, dtypes

Generator = Callable[[Draw], GeneratedProblem]

_E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
_FLOAT8 = tuple(
    np.dtype(getattr(ml_dtypes, f"float8_{name}")) for name in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu")
)
_FINITE = tuple(np.dtype(getattr(ml_dtypes, f"float{name}")) for name in ("4_e2m1fn", "6_e2m3fn", "6_e3m2fn"))
_WORDS = ("1", "-2", "0", "3", "7", "100", "-1")
_NUMBERS = ("1.5", "-2.25", "1e-5", "1E4", "INF", "-inf", "+Inf", "NaN", "nan", "100.5", "-0.0", "3")


def _convertible(draw: Draw, shape: tuple[int, ...], dtype: np.dtype, to: np.dtype) -> np.ndarray:
    """Left open, and avoided: numbers beyond the range of integers and of formats without infinity; how a float is written.

    Strings are made of halves only. Neither zero nor what is negative becomes a power of two.
    """
    if dtype == STRING != to:
        return _picked(draw, shape, dtype, _words(to))
    if to == STRING != dtype:
        return draw.array(shape, dtype) if is_integer(dtype) else _picked(draw, shape, dtype, _halves(dtype))
    if to == _E8M0:
        return _picked(draw, shape, dtype, _positive(dtype))
    if to in _FINITE and dtype != to:
        return _picked(draw, shape, dtype, _exact(dtype) if is_float(dtype) else (0, 1))
    if is_float(dtype) and is_integer(to):
        return _picked(draw, shape, dtype, _in_range(dtype, to))
    return draw.array(shape, dtype, draw.pick(("wide", "special", None)) if is_float(dtype) and to in _FLOAT8 else None)


def _picked(draw: Draw, shape: tuple[int, ...], dtype: np.dtype, pool: Sequence[Any]) -> np.ndarray:
    array = np.empty(shape, object)
    array.reshape(-1)[:] = [draw.pick(pool) for _ in range(array.size)]
    return array.astype(dtype)


def _words(to: np.dtype) -> tuple[str, ...]:
    """Numbers that the element type holds exactly, in words."""
    if is_float(to):
        return ("1", "0.5", "2.0", "4E0") if to.itemsize == 1 else _NUMBERS
    return tuple(w for w in _WORDS if int(ml_dtypes.iinfo(to).min) <= int(w) <= int(ml_dtypes.iinfo(to).max))


def _halves(dtype: np.dtype) -> tuple[float, ...]:
    return (0.5, 0.25) if dtype == _E8M0 else (0.5, -0.5, 1.5, -1.5)


def _positive(dtype: np.dtype) -> tuple[float, ...]:
    """Powers of two, what lies between them and in the middle."""
    if not is_float(dtype):
        most = int(ml_dtypes.iinfo(dtype).max) if is_integer(dtype) else 1
        return tuple(n for n in (1, 2, 3, 5, 6, 7, 100) if n <= most)
    return (
        (1.0, 2.0, 3.0, 1.5, 6.0, 0.75)
        if dtype.itemsize == 1
        else (1.0, 2.0, 3.0, 1.5, 5.0, 6.0, 2.5, 0.7, 3.25, 1e4, np.nan)
    )


def _exact(dtype: np.dtype) -> tuple[float, ...]:
    """In the range of the formats that have no infinity; between their numbers and in the middle of them."""
    return (0.5, 1.0, 2.0) if dtype == _E8M0 else (0.0, 0.5, -1.0, 1.5, 2.25, 2.75, -3.5, 5.0, 0.1, 6.0)


def _in_range(dtype: np.dtype, to: np.dtype) -> tuple[float, ...]:
    """Halves of whole numbers that both hold, cut upwards and downwards; for less than a byte how, is left open."""
    limits = ml_dtypes.iinfo(to)
    if dtype == _E8M0:
        return tuple(2.0**k for k in range(0 if limits.bits < 8 else -2, 3) if 2**k <= int(limits.max))
    most = 1.5 if dtype.itemsize == 1 else 99.5
    low, high = max(-most, int(limits.min)), min(most, int(limits.max) + 0.5)
    values = (0.0, 0.5, 1.0, low, high, max(-0.5, low), max(-1.5, low))
    return tuple(float(int(number)) for number in values) if limits.bits < 8 else values


def _settings(draw: Draw, to: np.dtype) -> dict[str, Any]:
    if to == _E8M0:
        return {"round_mode": draw.pick((None, "up", "down", "nearest")), "saturate": draw.pick((None, 0, 1))}
    return {"saturate": draw.pick((None, 0, 1))} if to in _FLOAT8 else {}


def _pair(draw: Draw, operator: str) -> tuple[np.ndarray, np.dtype, dict[str, Any]]:
    """How a bool is written is left open, and avoided; float8, which has rules of its own, comes often."""
    types = dtypes(operator)
    dtype = draw.pick(draw.pick((types, [kind for kind in types if is_float(kind) and kind.itemsize > 1])))
    unsaid = {np.dtype(bool): STRING, STRING: np.dtype(bool)}.get(dtype)
    to = draw.pick(draw.pick((tuple(target for target in types if target != unsaid), _FLOAT8)))
    return _convertible(draw, draw.shape(0, 3), dtype, to), to, _settings(draw, to)


def Cast(draw: Draw) -> GeneratedProblem:
    """Any pair of element types."""
    x, to, settings = _pair(draw, "Cast")
    return GeneratedProblem("Cast", [x], {"to": code_of(to), **settings})


def CastLike(draw: Draw) -> GeneratedProblem:
    """Any pair of element types."""
    x, to, settings = _pair(draw, "CastLike")
    return GeneratedProblem("CastLike", [x, draw.array(draw.shape(0, 2), to)], settings)


def BitCast(draw: Draw) -> GeneratedProblem:
    """Any pair of the same width; only what is 0 or 1 becomes a bool."""
    types = dtypes("BitCast")
    dtype = draw.pick(types)
    to = draw.pick([target for target in types if _bits(target) == _bits(dtype)])
    x = draw.array(draw.shape(), dtype)
    if to == np.bool_ and dtype != to:
        x = draw.array(x.shape, bool).view(dtype)
    return GeneratedProblem("BitCast", [x], {"to": code_of(to)})


def _bits(dtype: np.dtype) -> int:
    if is_integer(dtype):
        return int(ml_dtypes.iinfo(dtype).bits)
    return int(ml_dtypes.finfo(dtype).bits) if is_float(dtype) else 8 * dtype.itemsize


GENERATORS: dict[str, Generator] = {"BitCast": BitCast, "Cast": Cast, "CastLike": CastLike}
