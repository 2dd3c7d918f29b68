"""Quantization: for all, per axis and in blocks, to every narrow type; halves, and numbers beyond the range.

Not drawn, since the standard leaves it open: a scale in int32 (how is then divided?), one in float8e8m0 without a
precision for the division, and what is no number in formats that have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.tensor import is_float, is_integer
from deep_bench.testing.generated.convolution import grouped, layout
from deep_bench.testing.generated.linear import operands, per_column, per_row
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, code_of, dtypes

_EXPONENTS = np.dtype(ml_dtypes.float8_e8m0fnu)
_WITH_NAN = tuple(
    np.dtype(t)
    for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz)
)


def granularity(draw: Draw) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """The shapes of a tensor and of its scale, and the attributes that say how the two belong together."""
    way = draw.pick(("tensor", "axis", "block"))
    if way == "tensor":
        return draw.shape(), (), {}
    shape = draw.full_shape(2)
    axis = draw.maybe(draw.axis(len(shape)))
    at = (1 if axis is None else axis) % len(shape)
    if way == "axis":
        return shape, shape[at : at + 1], {"axis": axis}
    block = draw.integer(1, shape[at])
    return shape, (*shape[:at], -(-shape[at] // block), *shape[at + 1 :]), {"axis": axis, "block_size": block}


def scales(draw: Draw, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Positive ones, some of them powers of two, so that quotients lie halfway between integers."""
    if dtype == _EXPONENTS or draw.boolean():
        return np.exp2(draw.array(shape, np.int64, "small") % 4 - 2).astype(dtype)
    return np.abs(draw.array(shape, dtype, "normal")) + np.asarray(0.125, dtype)


def _zero_point(draw: Draw, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return draw.array(shape, dtype) if is_integer(dtype) else np.zeros(shape, dtype)


def QuantizeLinear(draw: Draw) -> GeneratedProblem:
    """The result's type is that of the zero point, or of ``output_dtype``, or uint8."""
    shape, per, attributes = granularity(draw)
    source, target = draw.pick(dtypes("QuantizeLinear")), draw.pick(dtypes("QuantizeLinear", 2))
    scale_type = draw.pick([d for d in dtypes("QuantizeLinear", 1) if d != np.int32])
    form = draw.pick(("zero_point", "both", "output_dtype", "neither"))
    target = np.dtype(np.uint8) if form == "neither" else target
    styles = ("normal", "ties", "wide") + (("special",) if target in _WITH_NAN else ())
    style = draw.pick(styles) if is_float(source) else None
    x = draw.array(shape, source, style)
    x = x * np.asarray(draw.pick((1, 8, 64)), source) if style in ("normal", "ties") else x
    precision = draw.pick((1, 1, 10, 16)) if scale_type == _EXPONENTS or not draw.integer(0, 3) else None
    attributes |= {
        "output_dtype": code_of(target) if form in ("both", "output_dtype") else None,
        "precision": precision,
        "saturate": draw.maybe(draw.boolean()) if target in _WITH_NAN else None,
    }
    zero_point = _zero_point(draw, per, target) if form in ("zero_point", "both") else None
    return GeneratedProblem("QuantizeLinear", [x, scales(draw, per, scale_type), zero_point], attributes)


def DequantizeLinear(draw: Draw) -> GeneratedProblem:
    """int32 has no zero point."""
    shape, per, attributes = granularity(draw)
    source, scale_type = draw.pick(dtypes("DequantizeLinear")), draw.pick(dtypes("DequantizeLinear", 1))
    zero_point = None if source == np.int32 else draw.maybe(_zero_point(draw, per, source))
    x = draw.array(shape, source, None if is_integer(source) else "normal")
    result = draw.pick((1, 10, 16)) if scale_type == _EXPONENTS else draw.pick((None, None, 1, 10, 16))
    return GeneratedProblem(
        "DequantizeLinear", [x, scales(draw, per, scale_type), zero_point], {**attributes, "output_dtype": result}
    )


def DynamicQuantizeLinear(draw: Draw) -> GeneratedProblem:
    """No zeros alone, whose range is empty; no ties, which the rounding of the scale decides."""
    x = draw.array(draw.full_shape(), np.float32, "normal") * np.float32(draw.pick((1, 100, 0.01)))
    x.reshape(-1)[0] += np.float32(draw.pick((1.3, -1.3)))
    return GeneratedProblem("DynamicQuantizeLinear", [x], outputs=3)


def QLinearConv(draw: Draw) -> GeneratedProblem:
    """Scales and zero points of the weights for all or per output channel."""
    at, kinds = layout(draw), dtypes("QLinearConv")
    group, x_shape, w_shape = grouped(draw, at)
    x_type, w_type, y_type = (draw.pick(kinds) for _ in "xwy")
    per = draw.pick(((), w_shape[:1]))
    inputs: list[Any] = [draw.array(x_shape, x_type), scales(draw, (), np.dtype(np.float32)), draw.array((), x_type)]
    inputs += [draw.array(w_shape, w_type), scales(draw, per, np.dtype(np.float32)), draw.array(per, w_type)]
    inputs += [scales(draw, (), np.dtype(np.float32)) * np.float32(draw.pick((1, 64))), draw.array((), y_type)]
    bias = draw.maybe(draw.array(w_shape[:1], np.int32, "small") * np.int32(100))
    attributes = {**at.attributes, "group": group, "kernel_shape": draw.maybe(at.kernel)}
    return GeneratedProblem("QLinearConv", [*inputs, bias], attributes)


def QLinearMatMul(draw: Draw) -> GeneratedProblem:
    """Scales and zero points for all, per row or per column; integers, or all in float8."""
    a_shape, b_shape = operands(draw)
    whole = draw.pick((True, True, False))
    kinds = [d for d in dtypes("QLinearMatMul") if is_integer(d) == whole]
    a_type, b_type, y_type = (draw.pick(kinds) for _ in "aby")
    scale_type = draw.pick(dtypes("QLinearMatMul", 1))
    a, b = (draw.array(s, t, None if is_integer(t) else "normal") for s, t in ((a_shape, a_type), (b_shape, b_type)))
    a_per, b_per = per_row(draw, a).shape, per_column(draw, b).shape
    inputs: list[Any] = [a, scales(draw, a_per, scale_type), _zero_point(draw, a_per, a_type)]
    inputs += [b, scales(draw, b_per, scale_type), _zero_point(draw, b_per, b_type)]
    y_scale = scales(draw, (), scale_type) * np.asarray(draw.pick((1, 64)), scale_type)
    return GeneratedProblem("QLinearMatMul", [*inputs, y_scale, _zero_point(draw, (), y_type)])


GENERATORS: dict[str, Callable[[Draw], GeneratedProblem]] = {
    "DequantizeLinear": DequantizeLinear,
    "DynamicQuantizeLinear": DynamicQuantizeLinear,
    "QLinearConv": QLinearConv,
    "QLinearMatMul": QLinearMatMul,
    "QuantizeLinear": QuantizeLinear,
}
