"""Quantized operators, with ties, results that saturate and zero points that are not zero."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..problem import Problem, chain, normal, single


def _integers(*shape: int, low: int = 0, high: int = 256, dtype: type = np.uint8, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def _scalar(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def _to_quantize() -> np.ndarray:
    """Numbers with ties, and some beyond the range."""
    x = normal(40, 30, scale=3)
    x[0] = np.arange(30) * 0.25 + 0.125
    x[1, :4] = (60, -60, 33, -31)
    return x


_SIGNED = {"dtype": np.int8, "low": -128, "high": 128}

_Q_MATMUL = {
    "as": _scalar(0.02),
    "az": _scalar(113, np.uint8),
    "b": _integers(64, 24),
    "bs": _scalar(0.03),
    "bz": _scalar(97, np.uint8),
    "ys": _scalar(0.25),
    "yz": _scalar(118, np.uint8),
}
_Q_COLUMNS = {
    "as": _scalar(0.02),
    "az": _scalar(-7, np.int8),
    "b": _integers(48, 20, **_SIGNED),
    "bs": (np.arange(20) * 0.002 + 0.01).astype(np.float32),
    "bz": _integers(20, low=-5, high=6, dtype=np.int8),
    "ys": _scalar(0.3),
    "yz": _scalar(5, np.int8),
}
_Q_CONV = {
    "xs": _scalar(0.02),
    "xz": _scalar(120, np.uint8),
    "w": _integers(6, 5, 3, 3, low=-100, high=101, dtype=np.int8),
    "ws": (np.arange(6) * 0.005 + 0.01).astype(np.float32),
    "wz": np.zeros(6, np.int8),
    "ys": _scalar(0.6),
    "yz": _scalar(125, np.uint8),
    "b": _integers(6, low=-9000, high=9001, dtype=np.int32),
}
_ZEROS = {"az": _scalar(113, np.uint8), "bz": _scalar(97, np.uint8)}


def _perceptron() -> Problem:
    """A layer between quantizations, as exporters write it."""
    weights = {
        "s": _scalar(0.05),
        "z": _scalar(128, np.uint8),
        "w": normal(48, 32, scale=0.2),
        "s2": _scalar(0.04),
        "z2": _scalar(3, np.uint8),
    }
    nodes = [
        ("QuantizeLinear", ["s", "z"], 1, {}),
        ("DequantizeLinear", ["s", "z"], 1, {}),
        ("MatMul", ["w"], 1, {}),
        ("Relu", [], 1, {}),
        ("QuantizeLinear", ["s2", "z2"], 1, {}),
    ]
    return chain("quantized layer", {"x": normal(16, 48, scale=2)}, nodes, weights)


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "QuantizeLinear": single("QuantizeLinear", {"x": _to_quantize()}, {"s": _scalar(0.25), "z": _scalar(128, np.uint8)}),
    "QuantizeLinear by axis": single(
        "QuantizeLinear",
        {"x": normal(12, 6, 20, scale=3)},
        {"s": (np.arange(6) * 0.01 + 0.02).astype(np.float32), "z": _integers(6, low=-9, high=10, dtype=np.int8)},
        axis=1,
    ),
    "DequantizeLinear": single(
        "DequantizeLinear", {"x": _integers(30, 40)}, {"s": _scalar(0.173), "z": _scalar(119, np.uint8)}
    ),
    "DequantizeLinear by axis": single(
        "DequantizeLinear",
        {"x": _integers(12, 6, 20, **_SIGNED)},
        {"s": (np.arange(6) * 0.013 + 0.02).astype(np.float32), "z": _integers(6, low=-9, high=10, dtype=np.int8)},
        axis=1,
    ),
    "DynamicQuantizeLinear": single("DynamicQuantizeLinear", {"x": normal(40, 30, scale=2, shift=0.7)}, outputs=3),
    "QLinearMatMul": single("QLinearMatMul", {"a": _integers(20, 64)}, _Q_MATMUL),
    "QLinearMatMul by column": single("QLinearMatMul", {"a": _integers(16, 48, **_SIGNED)}, _Q_COLUMNS),
    "QLinearConv": single("QLinearConv", {"x": _integers(2, 5, 9, 9)}, _Q_CONV, pads=[1, 1, 1, 1], strides=[2, 1]),
    "MatMulInteger": single("MatMulInteger", {"a": _integers(20, 64), "b": _integers(64, 24, seed=1)}, _ZEROS),
    "ConvInteger": single(
        "ConvInteger",
        {"x": _integers(2, 5, 9, 9)},
        {"w": _integers(6, 5, 3, 3), "az": _scalar(113, np.uint8), "bz": _scalar(97, np.uint8)},
        pads=[1, 1, 1, 1],
    ),
    "quantized layer": _perceptron,
}
