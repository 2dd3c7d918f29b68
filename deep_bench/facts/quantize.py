"""Quantization, and arithmetic on what is quantized. Saturating counts two comparisons, rounding nothing."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from deep_bench.facts.convolution import Conv
from deep_bench.facts.linear import MatMul
from deep_bench.facts.row import OperatorFacts, Shape, Work, broadcast
from deep_bench.facts.rules import AUTO_PAD, codes


def QuantizeLinear(x: Shape, scale: Shape, zero_point: Shape | None = None) -> Work:
    """``saturate(round(x / scale) + zero_point)``. Source: ONNX QuantizeLinear, opset 28."""
    return Work(flops=1 + (zero_point is not None), comparisons=2) * prod(x)


def DequantizeLinear(x: Shape, scale: Shape, zero_point: Shape | None = None) -> Work:
    """``(x - zero_point) * scale``. Source: ONNX DequantizeLinear, opset 28."""
    return Work(flops=1 + (zero_point is not None)) * prod(x)


def DynamicQuantizeLinear(x: Shape) -> Work:
    """The range of ``x`` (two comparisons), a scale and a zero point of 3 operations, and a `QuantizeLinear`.

    Source:
        ONNX DynamicQuantizeLinear, opset 11.
    """
    return Work(comparisons=2) * prod(x) + Work(flops=3, comparisons=3) + QuantizeLinear(x, (), ())


def QLinearMatMul(
    a: Shape, a_scale: Shape, a_zero_point: Shape, b: Shape, b_scale: Shape, b_zero_point: Shape, y_scale: Shape, *, y: Shape
) -> Work:
    """A `MatMul` of ``a - a_zero_point`` and ``b - b_zero_point``, times a factor, plus a zero point, saturated.

    The factor ``a_scale * b_scale / y_scale`` counts 2 for each row and column that has its own.

    Source:
        ONNX QLinearMatMul, opset 21.
    """
    rows = a_scale if len(a_scale) != 1 or a_scale == (1,) else (*a_scale, 1)
    factors = Work(flops=2) * prod(broadcast(rows, b_scale))
    return MatMul(a, b, y=y) + Work(flops=prod(a) + prod(b)) + factors + Work(flops=2, comparisons=2) * prod(y)


def QLinearConv(
    x: Shape,
    x_scale: Shape,
    x_zero_point: Shape,
    w: Shape,
    w_scale: Shape,
    w_zero_point: Shape,
    y_scale: Shape,
    y_zero_point: Shape,
    b: Shape | None = None,
    *,
    y: Shape,
) -> Work:
    """A `Conv` of ``x - x_zero_point`` and ``w - w_zero_point``, times a factor for each channel, plus a zero point.

    Source:
        ONNX QLinearConv, opset 10.
    """
    shifts = Work(flops=prod(x) + prod(w) + 2 * prod(w_scale))
    return Conv(x, w, b, y=y) + shifts + Work(flops=2, comparisons=2) * prod(y)


OPERATORS: Mapping[str, OperatorFacts] = {
    "DequantizeLinear": OperatorFacts(
        cost=DequantizeLinear,
        settings=(2,),
        states_type=True,
        draws={"x_scale": "scale", **codes("x", "x_zero_point")},
        accumulates_wide=True,
    ),
    "DynamicQuantizeLinear": OperatorFacts(cost=DynamicQuantizeLinear),
    "QLinearConv": OperatorFacts(
        cost=QLinearConv,
        settings=(2, 5, 7),
        choices=AUTO_PAD,
        draws={
            "B": "between:-1000:1000",
            **dict.fromkeys(("x_scale", "w_scale", "y_scale"), "scale"),
            **codes("x", "w", "x_zero_point", "w_zero_point", "y_zero_point"),
        },
        accumulates_wide=True,
        windowed=True,
    ),
    "QLinearMatMul": OperatorFacts(
        cost=QLinearMatMul,
        settings=(2, 5, 7),
        draws={
            **dict.fromkeys(("a_scale", "b_scale", "y_scale"), "scale"),
            **codes("a", "b", "a_zero_point", "b_zero_point", "y_zero_point"),
        },
        accumulates_wide=True,
    ),
    "QuantizeLinear": OperatorFacts(
        cost=QuantizeLinear, settings=(2,), states_type=True, draws={"y_scale": "scale", **codes("y_zero_point")}
    ),
}
"""The rows, by operator."""
