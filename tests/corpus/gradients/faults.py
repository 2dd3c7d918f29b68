"""Faults of backward passes, written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special

from ..patches import bfloat16, float16, tf32
from . import products, recurrent, rows
from .problem import Kernel


def changed(kernel: Kernel, **changes: Callable[[Any], Any]) -> Kernel:
    """A backward pass some of whose gradients are changed."""

    def wrong(v: Mapping[str, Any]) -> Mapping[str, Any]:
        found = kernel(v)
        return {name: changes[name](g) if name in changes else g for name, g in found.items()}

    return wrong


def times(factor: float) -> Callable[[Any], Any]:
    """A gradient off by a factor."""
    return lambda g: g * g.dtype.type(factor)


def _last_lost(g: Any) -> Any:
    """The last row of a gradient is left zero."""
    g = np.array(g)
    g[-1] = 0
    return g


def _one_lost(g: Any) -> Any:
    g = np.array(g)
    g.reshape(-1)[g.size // 2 + 1] = 0
    return g


def _gemm(multiply: Any = np.matmul, **options: Any) -> Kernel:
    return products.gemm(multiply, **{"alpha": 0.5, "beta": 2.0, "trans_b": True, **options})


_PADS = {"pads": (1, 0, 1, 2), "strides": (2, 1)}
_CONV, _LARGE = products.conv(**_PADS), products.conv(pads=(1, 1, 1, 1))
_MATMUL, _LAYER, _ATTENTION = products.matmul(), rows.layer_norm(), rows.attention()


def _one_sample(v: Mapping[str, Any]) -> Mapping[str, Any]:
    """The gradient of the weights is that of the first sample: the sum over the batch is missing."""
    first = {**v, "x": v["x"][:1], "dy0": v["dy0"][:1]}
    return {**_CONV(v), "w": _CONV(first)["w"]}


def _bias_over_images(v: Mapping[str, Any]) -> Mapping[str, Any]:
    """The bias' gradient as a mean over the images."""
    return {**_CONV(v), "b": v["dy0"].sum((2, 3)).mean(0)}


def _flipped_twice(v: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**_CONV(v), "x": _CONV({**v, "w": v["w"][..., ::-1, ::-1]})["x"]}


def _gelu(*, density: bool = True) -> Kernel:
    """``dy (Phi(x) + x phi(x))``."""

    def kernel(v: Mapping[str, Any]) -> Mapping[str, Any]:
        x = v["x"]
        phi = np.exp(-x * x / 2) * x.dtype.type(1 / np.sqrt(2 * np.pi))
        return {"x": v["dy0"] * (special.ndtr(x) + (x * phi if density else 0))}

    return kernel


PRODUCTS: Mapping[tuple[str, str], Kernel] = {
    ("MatMul", "data gradient times 1.01"): changed(_MATMUL, x=times(1.01)),
    ("MatMul", "weight gradient times 1.01"): changed(_MATMUL, w=times(1.01)),
    ("MatMul", "weight gradient times 1.0005"): changed(_MATMUL, w=times(1.0005)),
    ("MatMul", "weight gradient with the wrong sign"): changed(_MATMUL, w=np.negative),
    ("MatMul", "weight gradient as a mean"): changed(_MATMUL, w=times(1 / 48)),
    ("MatMul", "last row of the weight gradient lost"): changed(_MATMUL, w=_last_lost),
    ("MatMul", "one element of the data gradient lost"): changed(_MATMUL, x=_one_lost),
    ("MatMul", "products with TF32"): products.matmul(products.rounded(tf32)),
    ("MatMul", "products with bfloat16"): products.matmul(products.rounded(bfloat16)),
    ("MatMul", "products with float16"): products.matmul(products.rounded(float16)),
    ("MatMul", "products stored in bfloat16"): products.matmul(products.stored(bfloat16)),
    ("MatMul", "last term of the sums lost"): products.matmul(products.last_term_lost),
    ("MatMul", "last tile of the sums lost"): products.matmul(products.tile_lost),
    ("MatMul long", "products with TF32"): products.matmul(products.rounded(tf32)),
    ("MatMul long", "last term of the sums lost"): products.matmul(products.last_term_lost),
    ("MatMul batched", "sum over the batch missing"): lambda v: {
        **products.matmul()(v),
        "w": np.matmul(products.swapped(v["x"][0]), v["dy0"][0]),
    },
    ("MatMul batched", "products with TF32"): products.matmul(products.rounded(tf32)),
    ("MatMul uneven", "data gradient times 1.01 in its first row"): changed(
        _MATMUL, x=lambda g: np.concatenate((g[:1] * g.dtype.type(1.01), g[1:]))
    ),
    ("MatMul float16", "last tile of the sums lost"): products.matmul(products.tile_lost),
    ("Gemm", "alpha forgotten in the weight gradient"): changed(_gemm(), w=times(2.0)),
    ("Gemm", "alpha forgotten in both"): _gemm(alpha=1.0),
    ("Gemm", "beta forgotten"): _gemm(beta=1.0),
    ("Gemm", "bias gradient as a mean"): changed(_gemm(), b=times(1 / 24)),
    ("Gemm", "bias gradient of the first row"): lambda v: {**_gemm()(v), "b": v["dy0"][0] * v["dy0"].dtype.type(2)},
    ("Gemm", "weight gradient with TF32"): _gemm(products.rounded(tf32)),
    ("Gemm square", "weight gradient transposed"): changed(products.gemm(), w=np.transpose),
    ("Gemm square", "data gradient transposed"): changed(products.gemm(), x=np.transpose),
    ("Gemm square", "weights not transposed"): lambda v: {**products.gemm()(v), "x": v["dy0"] @ v["w"]},
    ("Gemm square", "inputs not transposed"): lambda v: {**products.gemm()(v), "w": v["x"] @ v["dy0"]},
    ("Gemm square", "bias gradient over the other axis"): lambda v: {**products.gemm()(v), "b": v["dy0"].sum(1)},
    ("Gemm transposed", "bias gradient over the other axis"): lambda v: {
        **products.gemm(trans_a=True)(v),
        "b": v["dy0"].sum(0)[:40, None],
    },
    ("Add", "sum over one axis missing"): changed(products.add, w=lambda g: g / g.dtype.type(32)),
    ("Add", "mean in place of a sum"): changed(products.add, x=times(1 / 24)),
    ("Add", "last slice of the sum lost"): lambda v: {**products.add(v), "x": v["dy0"][:, :-1].sum(1, keepdims=True)},
    ("Conv", "wrong padding of the data gradient"): products.conv(**_PADS, data_pads=(0, 0, 1, 2)),
    ("Conv", "padding of the other side"): products.conv(**_PADS, data_pads=(1, 2, 1, 0)),
    ("Conv", "kernel flipped in the data gradient"): _flipped_twice,
    ("Conv", "weight gradient of one sample"): _one_sample,
    ("Conv", "bias gradient as a mean over images"): _bias_over_images,
    ("Conv", "weight gradient flipped"): changed(_CONV, w=lambda g: g[..., ::-1, ::-1]),
    ("Conv", "weight gradient transposed"): changed(_CONV, w=products.swapped),
    ("Conv", "weight gradient times 1.01"): changed(_CONV, w=times(1.01)),
    ("Conv", "bias gradient times 0.99"): changed(_CONV, b=times(0.99)),
    ("Conv", "products with TF32"): products.conv(products.rounded(tf32), **_PADS),
    ("Conv", "products with bfloat16"): products.conv(products.rounded(bfloat16), **_PADS),
    ("Conv", "last term of the sums lost"): products.conv(products.last_term_lost, **_PADS),
    ("Conv", "last row of the data gradient lost"): changed(
        _CONV, x=lambda g: _last_lost(np.moveaxis(g, 2, 0)).transpose(1, 2, 0, 3)
    ),
    ("Conv large", "one element of the data gradient lost"): changed(_LARGE, x=_one_lost),
    ("Conv large", "products with TF32"): products.conv(products.rounded(tf32), pads=(1, 1, 1, 1)),
    ("Conv large", "bias gradient over one axis less"): changed(_LARGE, b=times(1 / 96)),
    ("Conv deep", "last tile of the sums lost"): products.conv(products.tile_lost, pads=(1, 1, 1, 1)),
    ("Conv deep", "one tap of the weight gradient lost"): changed(
        products.conv(pads=(1, 1, 1, 1)), w=lambda g: np.where(np.arange(3) == 2, 0, g).astype(g.dtype)
    ),
    ("Conv pointwise", "weight gradient with bfloat16"): products.pointwise(products.rounded(bfloat16)),
    ("Conv pointwise", "bias gradient of one image"): lambda v: {
        **products.pointwise()(v),
        "b": v["dy0"][:1].sum((0, 2, 3)),
    },
}

ROWS: Mapping[tuple[str, str], Kernel] = {
    ("Softmax", "mean term missing"): rows.softmax(1, centred=False),
    ("Softmax", "sum along another axis"): lambda v: {
        "x": (y := rows.softmax_of(v["x"], 1)) * (v["dy0"] - (y * v["dy0"]).sum(2, keepdims=True))
    },
    ("Softmax", "weights in bfloat16"): rows.softmax(1, to=bfloat16),
    ("Softmax", "weights in float16"): rows.softmax(1, to=float16),
    ("Softmax", "gradient times 1.01"): changed(rows.softmax(1), x=times(1.01)),
    ("Softmax long", "mean term missing"): rows.softmax(-1, centred=False),
    ("Softmax long", "weights in bfloat16"): rows.softmax(-1, to=bfloat16),
    ("Softmax masked", "mean over all keys"): lambda v: {
        "x": (y := rows.softmax_of(v["x"])) * (v["dy0"] - (y * v["dy0"]).mean(-1, keepdims=True))
    },
    ("LogSoftmax", "mean in place of weights"): rows.log_softmax(1, weights=False),
    ("LogSoftmax", "gradient times 1.001"): changed(rows.log_softmax(1), x=times(1.001)),
    ("SoftmaxCrossEntropyLoss", "one over N missing"): rows.cross_entropy(mean=False),
    ("SoftmaxCrossEntropyLoss", "target not taken off"): rows.cross_entropy(target=0),
    ("SoftmaxCrossEntropyLoss", "softmax in bfloat16"): rows.cross_entropy(to=bfloat16),
    ("SoftmaxCrossEntropyLoss", "over N - 1"): changed(rows.cross_entropy(), x=times(24 / 23)),
    ("LayerNormalization", "mean term missing"): rows.layer_norm(mean_term=False),
    ("LayerNormalization", "slope term missing"): rows.layer_norm(slope_term=False),
    ("LayerNormalization", "both terms missing"): rows.layer_norm(mean_term=False, slope_term=False),
    ("LayerNormalization", "another epsilon"): rows.layer_norm(epsilon=1e-5),
    ("LayerNormalization", "means over n - 1"): rows.layer_norm(over=1),
    ("LayerNormalization", "statistics in bfloat16"): rows.layer_norm(to=bfloat16),
    ("LayerNormalization", "statistics in float16"): rows.layer_norm(to=float16),
    ("LayerNormalization", "scale gradient times 1.01"): changed(_LAYER, s=times(1.01)),
    ("LayerNormalization", "scale gradient of one part"): rows.layer_norm(total=lambda g: g[:-1].sum((0, 1))),
    ("LayerNormalization", "bias gradient as a mean"): changed(_LAYER, b=times(1 / 96)),
    ("LayerNormalization", "scale and bias exchanged"): lambda v: {**(g := _LAYER(v)), "s": g["b"], "b": g["s"]},
    ("LayerNormalization shifted", "slope term missing"): rows.layer_norm(slope_term=False),
    ("LayerNormalization shifted", "statistics in float16"): rows.layer_norm(to=float16),
    ("RMSNormalization", "slope term missing"): rows.rms_norm(slope_term=False),
    ("RMSNormalization", "another epsilon"): rows.rms_norm(epsilon=1e-5),
    ("BatchNormalization", "another epsilon"): rows.batch_norm(epsilon=1e-5),
    ("BatchNormalization", "scale gradient not centred"): rows.batch_norm(centred=False),
    ("BatchNormalization", "bias gradient times 1.01"): changed(rows.batch_norm(), o=times(1.01)),
    ("BatchNormalization", "scale gradient as a mean"): changed(rows.batch_norm(), s=times(1 / 392)),
    ("Attention", "row sums missing"): rows.attention(delta_term=False),
    ("Attention", "scale of the keys' gradient missing"): rows.attention(scale_keys=False),
    ("Attention", "another scale"): rows.attention(scale=0.26),
    ("Attention", "weights in bfloat16"): rows.attention(to=bfloat16),
    ("Attention", "products with TF32"): rows.attention(products.rounded(tf32)),
    ("Attention", "products with bfloat16"): rows.attention(products.rounded(bfloat16)),
    ("Attention", "gradient of the values times 1.01"): changed(_ATTENTION, v=times(1.01)),
    ("Attention", "gradients of keys and values exchanged"): lambda v: {**(g := _ATTENTION(v)), "k": g["v"], "v": g["k"]},
    ("Attention", "gradient of the last key lost"): changed(
        _ATTENTION, k=lambda g: np.where(np.arange(14)[:, None] == 13, 0, g).astype(g.dtype)
    ),
    ("Attention causal", "no mask"): rows.attention(scale=8**-0.5),
    ("Attention causal", "diagonal off by one"): rows.attention(scale=8**-0.5, causal=True, mask_offset=1),
    ("Attention causal", "row sums missing"): rows.attention(scale=8**-0.5, causal=True, delta_term=False),
    ("Attention shared", "sum over shared heads missing"): rows.attention(shared=3, group_sum=False),
    ("Attention shared", "sum over shared heads as a mean"): changed(
        rows.attention(shared=3), k=times(1 / 3), v=times(1 / 3)
    ),
    ("Attention long", "weights in bfloat16"): rows.attention(scale=32**-0.5, to=bfloat16),
    ("Attention long", "row sums missing"): rows.attention(scale=32**-0.5, delta_term=False),
    ("ReduceMean", "one over n missing"): rows.reduced(np.ones_like),
    ("ReduceMean", "one over n - 1"): rows.reduced(lambda x: np.full_like(x, 1 / 2144)),
    ("ReduceSum", "mean in place of a sum"): rows.reduced(lambda x: np.full_like(x, 1 / 1024)),
    ("ReduceSum", "last element left out"): rows.reduced(lambda x: (np.arange(1024) < 1023).astype(x.dtype)),
    ("ReduceSumSquare", "factor 2 missing"): rows.reduced(lambda x: x),
    ("ReduceL2", "norm not divided"): rows.reduced(lambda x: x),
    ("ReduceL2", "an epsilon in the norm"): rows.reduced(
        lambda x: x / np.sqrt((x * x).sum(1, keepdims=True) + x.dtype.type(0.1))
    ),
    ("ReduceL1", "slope without sign"): rows.reduced(np.ones_like),
    ("ReduceLogSumExp", "weights in bfloat16"): rows.reduced(lambda x: bfloat16(rows.softmax_of(x))),
    ("ReduceLogSumExp", "only the largest"): rows.reduced(lambda x: (x == x.max(1, keepdims=True)).astype(x.dtype)),
    ("ReduceMax", "to all elements"): rows.reduced(np.ones_like),
    ("GlobalAveragePool", "one over n missing"): rows.reduced(np.ones_like),
    ("GlobalAveragePool", "over one axis only"): rows.reduced(lambda x: np.full_like(x, 1 / 56)),
    ("CumSum", "forwards"): lambda v: {"x": np.cumsum(v["dy0"], axis=1)},
    ("CumSum", "exclusive"): lambda v: {"x": np.cumsum(v["dy0"][:, ::-1], axis=1)[:, ::-1] - v["dy0"]},
    ("Gelu", "density missing"): _gelu(density=False),
    ("Gelu", "by another formula"): lambda v: {
        "x": v["dy0"] * (s := special.expit(v["x"] * np.float32(1.702))) * (1 + np.float32(1.702) * v["x"] * (1 - s))
    },
    ("Sigmoid", "slope of the input"): lambda v: {"x": v["dy0"] * v["x"] * (1 - v["x"])},
    ("Tanh", "square missing"): lambda v: {"x": v["dy0"] * (1 - np.abs(np.tanh(v["x"])))},
}

RECURRENT: Mapping[tuple[str, str], Kernel] = {
    ("RNN", "gradient not carried"): recurrent.rnn(carried=False),
    ("RNN", "slope missing"): recurrent.rnn(slope=False),
    ("RNN", "carried gradient in bfloat16"): recurrent.rnn(to=bfloat16),
    ("RNN", "weight gradient times 1.01"): changed(recurrent.rnn(), w=times(1.01)),
    ("RNN", "half of the bias without gradient"): changed(recurrent.rnn(), b=lambda g: g * (np.arange(g.shape[1]) < 12)),
    ("LSTM", "forget gate missing"): recurrent.lstm(forgotten=False),
    ("LSTM", "last cell's gradient lost"): recurrent.lstm(last_cell=False),
    ("LSTM", "recurrence sees the next state"): recurrent.lstm(previous=1),
    ("LSTM", "half of the bias without gradient"): recurrent.lstm(first_bias_only=True),
    ("LSTM", "gates in another order"): recurrent.lstm(order=(0, 2, 1, 3)),
    ("LSTM", "carried gradients in bfloat16"): recurrent.lstm(to=bfloat16),
    ("LSTM", "carried gradients in float16"): recurrent.lstm(to=float16),
    ("LSTM", "products with TF32"): recurrent.lstm(products.rounded(tf32)),
    ("LSTM", "products with bfloat16"): recurrent.lstm(products.rounded(bfloat16)),
    ("LSTM", "weight gradient times 1.01"): changed(recurrent.lstm(), w=times(1.01)),
    ("LSTM", "data gradient in reverse"): changed(recurrent.lstm(), x=lambda g: g[::-1]),
    ("LSTM", "data gradient of the last step lost"): changed(recurrent.lstm(), x=_last_lost),
    ("GRU", "update gate missing"): recurrent.gru(through_gate=False),
    ("GRU", "reset gate missing"): recurrent.gru(through_reset=False),
    ("GRU", "carried gradient in bfloat16"): recurrent.gru(to=bfloat16),
    ("GRU", "recurrence's gradient times 1.001"): changed(recurrent.gru(), r=times(1.001)),
    ("GRU", "bias gradient as a mean"): changed(recurrent.gru(), b=times(1 / 15)),
}

FAULTS = {**PRODUCTS, **ROWS, **RECURRENT}
"""(problem, fault) to the backward pass."""
