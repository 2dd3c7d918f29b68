"""Products of matrices: long and short sums, terms of one sign, batches, rows of different size, scaled float8."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import ml_dtypes
import numpy as np
from onnx import helper

from ..problem import Problem, chain, network, normal, positive, single

_MATRIX = {"x": normal(48, 256), "w": normal(256, 32)}


def _mlp(dtype: type = np.float32) -> Problem:
    weights = {"w1": normal(64, 96, scale=0.2), "w2": normal(96, 96, scale=0.2), "w3": normal(96, 10, scale=0.2)}
    weights = {n: w.astype(dtype) for n, w in weights.items()}
    steps = [("MatMul", ["w1"], 1, {}), ("Relu", [], 1, {}), ("MatMul", ["w2"], 1, {}), ("Tanh", [], 1, {})]
    nodes = [*steps, ("MatMul", ["w3"], 1, {}), ("Softmax", [], 1, {"axis": -1})]
    return chain(f"mlp {np.dtype(dtype)}", {"x": normal(16, 64).astype(dtype)}, nodes, weights)


def _uneven() -> dict[str, np.ndarray]:
    """Rows of very different size: an error in a small one must not hide behind the large ones."""
    x = normal(40, 96)
    return {"x": x * (10.0 ** np.linspace(-4, 4, 40)).astype(np.float32)[:, None], "w": normal(96, 24)}


X_SCALE, W_SCALE = np.float32(0.0625), np.float32(0.01)


def _float8() -> Problem:
    """Both factors in float8 with a scale each, as `QuantizeLinear` makes them; some elements saturate."""
    zero = np.zeros((), ml_dtypes.float8_e4m3fn)
    x, w = normal(32, 96, scale=8), normal(96, 24)
    x[0, :4] = (60, -70, 29, 31)
    weights = {"sx": np.array(X_SCALE), "sw": np.array(W_SCALE), "zero": zero}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "sx", "zero"], ["xq"], name="quantize_x"),
        helper.make_node("QuantizeLinear", ["w", "sw", "zero"], ["wq"], name="quantize_w"),
        helper.make_node("DequantizeLinear", ["xq", "sx", "zero"], ["xd"], name="dequantize_x"),
        helper.make_node("DequantizeLinear", ["wq", "sw", "zero"], ["wd"], name="dequantize_w"),
        helper.make_node("MatMul", ["xd", "wd"], ["y"], name="product"),
    ]
    feeds = {"x": x, "w": w}
    return Problem("MatMul float8", network("MatMul float8", nodes, feeds, ["y"], weights), feeds)


PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "MatMul": single("MatMul", _MATRIX),
    "MatMul positive": single("MatMul", {"x": positive(32, 512), "w": positive(512, 16)}),
    "MatMul long": single("MatMul", {"x": normal(8, 2048), "w": normal(2048, 24)}),
    "MatMul short": single("MatMul", {"x": normal(24, 16), "w": normal(16, 24)}),
    "MatMul batched": single("MatMul", {"x": normal(3, 2, 20, 70), "w": normal(2, 70, 17)}),
    "MatMul uneven": single("MatMul", _uneven()),
    "MatMul float16": single("MatMul", {n: v.astype(np.float16) for n, v in _MATRIX.items()}),
    "MatMul bfloat16": single("MatMul", {n: v.astype(ml_dtypes.bfloat16) for n, v in _MATRIX.items()}),
    "MatMul float8": _float8,
    "Gemm": single("Gemm", {"x": normal(24, 64)}, {"w": normal(20, 64), "b": normal(20)}, alpha=0.5, beta=2.0, transB=1),
    "Gemm transposed": single("Gemm", {"x": normal(64, 40)}, {"w": normal(64, 48), "b": normal(40, 1)}, transA=1),
    "Gemm square": single("Gemm", {"x": normal(96, 96)}, {"w": normal(96, 96, seed=1), "b": normal(96)}),
    "mlp": _mlp,
    "mlp float16": lambda: _mlp(np.float16),
}
