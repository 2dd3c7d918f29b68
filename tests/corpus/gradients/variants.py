"""Correct backward passes, written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import special

from . import products, recurrent, rows
from .problem import Kernel

_PADS: Mapping[str, Any] = {"pads": (1, 0, 1, 2), "strides": (2, 1)}


def _pairwise_rows(g: Any) -> Any:
    """The sum over all rows by halves."""
    g = g.reshape(-1, g.shape[-1])
    while len(g) > 1:
        half = len(g) // 2
        g = np.concatenate((g[:half] + g[half : 2 * half], g[2 * half :]))
    return g[0]


def _rows_one_by_one(g: Any) -> Any:
    return np.add.accumulate(g.reshape(-1, g.shape[-1]), axis=0)[-1]


def _wide(kernel: Kernel) -> Kernel:
    """All of it in float64."""
    return lambda v: kernel({n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in v.items()})


def _layer_in_one(v: Mapping[str, Any]) -> Mapping[str, Any]:
    """``dx = a dy s + b x + c`` with two sums for each row, as compiled kernels write it."""
    x, s, dy = v["x"], v["s"], v["dy0"]
    one = x.dtype.type
    n = one(x.shape[-1])
    mean = x.mean(-1, keepdims=True)
    root = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + one(1e-3))
    g = dy * s
    centred = x - mean
    along, level = (g * centred).sum(-1, keepdims=True), g.sum(-1, keepdims=True)
    dx = root * g - centred * (along * root**3 / n) - level * root / n
    return {"x": dx, "s": (dy * (centred * root)).sum((0, 1)), "b": dy.sum((0, 1))}


def _gelu(v: Mapping[str, Any]) -> Mapping[str, Any]:
    x, one = v["x"], v["x"].dtype.type
    cdf = one(0.5) * (1 + special.erf(x * one(np.sqrt(0.5))))
    return {"x": v["dy0"] * (cdf + x * (np.exp(one(-0.5) * x * x) * one(1 / np.sqrt(2 * np.pi))))}


def _sigmoid(v: Mapping[str, Any]) -> Mapping[str, Any]:
    y = special.expit(v["x"])
    return {"x": v["dy0"] * (y * (1 - y))}


def _cumulated(v: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"x": np.cumsum(v["dy0"][:, ::-1], axis=1)[:, ::-1]}


def _gemm(multiply: Any) -> Kernel:
    return products.gemm(multiply, alpha=0.5, beta=2.0, trans_b=True)


_BY_PRODUCT: Mapping[str, Any] = {
    "MatMul": products.matmul,
    "MatMul long": products.matmul,
    "MatMul positive": products.matmul,
    "MatMul batched": products.matmul,
    "MatMul uneven": products.matmul,
    "Gemm": _gemm,
    "Gemm transposed": lambda multiply: products.gemm(multiply, trans_a=True),
    "Gemm square": products.gemm,
    "Conv": lambda multiply: products.conv(multiply, **_PADS),
    "Conv deep": lambda multiply: products.conv(multiply, pads=(1, 1, 1, 1)),
    "Conv pointwise": products.pointwise,
    "Attention": rows.attention,
    "LSTM": recurrent.lstm,
}

VARIANTS: Mapping[tuple[str, str], Kernel] = {
    **{(where, name): make(order) for where, make in _BY_PRODUCT.items() for name, order in products.ORDERS.items()},
    ("MatMul float16", "term by term"): products.matmul(products.sequential),
    ("MatMul float16", "plainly"): products.matmul(),
    ("Conv large", "tap by tap"): products.conv(pads=(1, 1, 1, 1)),
    ("Add", "plainly"): products.add,
    ("Add", "in float64"): _wide(products.add),
    ("Softmax", "plainly"): rows.softmax(1),
    ("Softmax", "multiplied first"): rows.softmax_late(1),
    ("Softmax", "in float64"): _wide(rows.softmax(1)),
    ("Softmax long", "plainly"): rows.softmax(-1),
    ("Softmax long", "multiplied first"): rows.softmax_late(-1),
    ("Softmax wide", "plainly"): rows.softmax(-1),
    ("Softmax masked", "plainly"): rows.softmax(-1),
    ("LogSoftmax", "plainly"): rows.log_softmax(1),
    ("LogSoftmax", "in float64"): _wide(rows.log_softmax(1)),
    ("SoftmaxCrossEntropyLoss", "plainly"): rows.cross_entropy(),
    ("SoftmaxCrossEntropyLoss", "in float64"): _wide(rows.cross_entropy()),
    ("LayerNormalization", "plainly"): rows.layer_norm(),
    ("LayerNormalization", "in one expression"): _layer_in_one,
    ("LayerNormalization", "with sums by halves"): rows.layer_norm(total=_pairwise_rows),
    ("LayerNormalization", "with sums row by row"): rows.layer_norm(total=_rows_one_by_one),
    ("LayerNormalization", "in float64"): _wide(rows.layer_norm()),
    ("LayerNormalization shifted", "plainly"): rows.layer_norm(),
    ("LayerNormalization shifted", "in float64"): _wide(rows.layer_norm()),
    ("RMSNormalization", "plainly"): rows.rms_norm(),
    ("BatchNormalization", "plainly"): rows.batch_norm(),
    ("BatchNormalization", "in float64"): _wide(rows.batch_norm()),
    ("Attention", "by its output, in tiles"): rows.attention_by_output,
    ("Attention long", "plainly"): rows.attention(scale=32**-0.5),
    ("Attention long", "by its output, in tiles"): rows.attention_by_output,
    ("Attention causal", "plainly"): rows.attention(scale=8**-0.5, causal=True),
    ("Attention shared", "plainly"): rows.attention(shared=3),
    ("ReduceMean", "plainly"): rows.reduced(lambda x: np.full_like(x, 1 / 2145)),
    ("ReduceSum", "plainly"): rows.reduced(np.ones_like),
    ("ReduceSumSquare", "plainly"): rows.reduced(lambda x: x + x),
    ("ReduceL1", "plainly"): rows.reduced(np.sign),
    ("ReduceL2", "plainly"): rows.reduced(lambda x: x / np.sqrt((x * x).sum(1, keepdims=True))),
    ("ReduceLogSumExp", "plainly"): rows.reduced(rows.softmax_of),
    ("ReduceMax", "plainly"): rows.reduced(lambda x: (x == x.max(1, keepdims=True)).astype(x.dtype)),
    ("GlobalAveragePool", "plainly"): rows.reduced(lambda x: np.full_like(x, 1 / 3136)),
    ("CumSum", "plainly"): _cumulated,
    ("Gelu", "plainly"): _gelu,
    ("Sigmoid", "plainly"): _sigmoid,
    ("Tanh", "plainly"): lambda v: {"x": v["dy0"] * (1 - np.tanh(v["x"]) ** 2)},
    ("RNN", "plainly"): recurrent.rnn(),
    ("RNN", "in float64"): _wide(recurrent.rnn()),
    ("LSTM", "plainly"): recurrent.lstm(),
    ("GRU", "plainly"): recurrent.gru(),
    ("GRU", "in float64"): _wide(recurrent.gru()),
}
"""(problem, way) to the backward pass."""
