"""Kernels that are right, each by another algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf

import numpy as np

import deep_bench as db
from deep_bench import Case

_ERF = np.vectorize(erf, otypes=[np.float64])


class Gemm(db.Operator):
    """NumPy's own product."""

    computes = "Gemm"

    def product(self, a, b):
        return a @ b

    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        a, b = a.T if transA else a, b.T if transB else b
        y = a.dtype.type(alpha) * self.product(a, b)
        return y if c is None else y + c.dtype.type(beta) * c

    def backward(self, grads, inputs, outputs, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        a, b = inputs[:2]
        g = grads[0]
        scaled = g * g.dtype.type(alpha)
        da = (b @ scaled.T if not transB else b.T @ scaled.T) if transA else (scaled @ b.T if not transB else scaled @ b)
        db_ = (scaled.T @ a if not transA else scaled.T @ a.T) if transB else (a.T @ scaled if not transA else a @ scaled)
        dc = [] if len(inputs) < 3 or inputs[2] is None else [g.dtype.type(beta) * _summed_to(g, inputs[2].shape)]
        return (da, db_, *dc)


def _summed_to(g, shape):
    for _ in range(g.ndim - len(shape)):
        g = g.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1 and g.shape[axis] != 1:
            g = g.sum(axis=axis, keepdims=True)
    return g


class SequentialGemm(Gemm):
    """Term by term, in float32."""

    def product(self, a, b):
        y = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for k in range(a.shape[1]):
            y += a[:, k : k + 1] * b[k]
        return y


class TiledGemm(Gemm):
    """Tiles of rows, columns and terms."""

    def product(self, a, b):
        y = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        for i in range(0, a.shape[0], 8):
            for j in range(0, b.shape[1], 8):
                for k in range(0, a.shape[1], 4):
                    y[i : i + 8, j : j + 8] += a[i : i + 8, k : k + 4] @ b[k : k + 4, j : j + 8]
        return y


class SplitGemm(Gemm):
    """Halves of the terms, added at the end."""

    def product(self, a, b):
        half = a.shape[1] // 2
        return a[:, :half] @ b[:half] + a[:, half:] @ b[half:]


class CompensatedGemm(Gemm):
    """What fused multiply-adds and compensation would give: products and sums in float64, rounded once."""

    def product(self, a, b):
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)


class Conv(db.Operator):
    """By unfolded windows."""

    computes = "Conv"

    def windows(self, x, w, pads, strides):
        top, left, bottom, right = pads
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
        return np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]

    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        y = np.einsum("nchwij,ocij->nohw", self.windows(x, w, pads, strides), w, optimize=True)
        y = np.ascontiguousarray(y.astype(x.dtype))
        return y if b is None else y + b[:, None, None]


class DirectConv(Conv):
    """Tap by tap."""

    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        seen = self.windows(x, w, pads, strides)
        y = np.zeros((x.shape[0], w.shape[0], *seen.shape[2:4]), x.dtype)
        for c in range(w.shape[1]):
            for i in range(w.shape[2]):
                for j in range(w.shape[3]):
                    y += w[:, c, i, j][:, None, None] * seen[:, c, None, :, :, i, j]
        return y if b is None else y + b[:, None, None]


class Softmax(db.Operator):
    computes = "Softmax"

    def forward(self, x, *, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
        return e / e.sum(axis=axis, keepdims=True)

    def backward(self, grads, inputs, outputs, *, axis=-1):
        g, y = grads[0], outputs[0]
        return (y * (g - (g * y).sum(axis=axis, keepdims=True)),)


class OnlineSoftmax(Softmax):
    """One pass over the elements, the sum rescaled whenever the maximum grows."""

    def forward(self, x, *, axis=-1):
        x = np.moveaxis(x, axis, -1)
        largest = np.full(x.shape[:-1], -np.inf, x.dtype)
        total = np.zeros(x.shape[:-1], x.dtype)
        for k in range(x.shape[-1]):
            grown = np.maximum(largest, x[..., k])
            total = total * np.exp(largest - grown) + np.exp(x[..., k] - grown)
            largest = grown
        return np.ascontiguousarray(np.moveaxis(np.exp(x - largest[..., None]) / total[..., None], -1, axis))


class LayerNorm(db.Operator):
    computes = "LayerNormalization"

    def moments(self, x):
        mean = x.sum(-1, keepdims=True) / x.dtype.type(x.shape[-1])
        return mean, np.square(x - mean).sum(-1, keepdims=True) / x.dtype.type(x.shape[-1])

    def forward(self, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
        mean, variance = self.moments(x)
        y = (x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * scale
        return y if bias is None else y + bias

    def backward(self, grads, inputs, outputs, *, axis=-1, epsilon=1e-5, stash_type=1):
        x, scale = inputs[:2]
        g = grads[0]
        mean, variance = self.moments(x)
        r = 1 / np.sqrt(variance + x.dtype.type(epsilon))
        h = (x - mean) * r
        gs = g * scale
        dx = r * (gs - gs.mean(-1, keepdims=True) - h * (gs * h).mean(-1, keepdims=True))
        others = tuple(range(x.ndim - 1))
        return (dx, (g * h).sum(others), g.sum(others))[: len(inputs)]


class WelfordLayerNorm(LayerNorm):
    """Mean and variance in one pass, element by element."""

    def moments(self, x):
        mean = np.zeros(x.shape[:-1], x.dtype)
        m2 = np.zeros(x.shape[:-1], x.dtype)
        for k in range(x.shape[-1]):
            step = x[..., k] - mean
            mean += step / x.dtype.type(k + 1)
            m2 += step * (x[..., k] - mean)
        return mean[..., None], (m2 / x.dtype.type(x.shape[-1] or 1))[..., None]


class Gelu(db.Operator):
    """In float64, rounded once."""

    computes = "Gelu"

    def forward(self, x, *, approximate="none"):
        wide = x.astype(np.float64)
        return (0.5 * wide * (1 + self.erf(wide))).astype(x.dtype)

    def erf(self, x):
        return _ERF(x / np.sqrt(2)) if x.size else x

    def slope(self, x):
        return 0.5 * (1 + self.erf(x)) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)

    def backward(self, grads, inputs, outputs, *, approximate="none"):
        wide = inputs[0].astype(np.float64)
        return ((grads[0] * self.slope(wide)).astype(inputs[0].dtype),)


class ReduceSum(db.Operator):
    computes = "ReduceSum"

    def forward(self, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        return x.sum(axis=tuple(int(a) for a in axes), keepdims=bool(keepdims), dtype=x.dtype)

    def backward(self, grads, inputs, outputs, *, keepdims=1, noop_with_empty_axes=0):
        x, axes = inputs
        g = grads[0] if keepdims else np.expand_dims(grads[0], tuple(int(a) for a in axes))
        return np.array(np.broadcast_to(g, x.shape)), None


class SequentialSum(ReduceSum):
    """Term by term along one axis."""

    def forward(self, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        (axis,) = (int(a) for a in axes)
        moved = np.moveaxis(x, axis, 0)
        total = np.zeros(moved.shape[1:], x.dtype)
        for part in moved:
            total = total + part
        return np.expand_dims(total, axis) if keepdims else total


class ReduceMax(db.Operator):
    computes = "ReduceMax"

    def forward(self, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        axis = tuple(int(a) for a in axes)
        return x.max(axis=axis, keepdims=bool(keepdims), initial=-np.inf if x.dtype.kind == "f" else None)

    def backward(self, grads, inputs, outputs, *, keepdims=1, noop_with_empty_axes=0):
        x, axes = inputs
        axis = tuple(int(a) for a in axes)
        largest = x == x.max(axis=axis, keepdims=True)
        g = grads[0] if keepdims else np.expand_dims(grads[0], axis)
        return (largest * g / largest.sum(axis=axis, keepdims=True)).astype(x.dtype), None


class Relu(db.Operator):
    computes = "Relu"

    def forward(self, x):
        return np.maximum(x, x.dtype.type(0))

    def backward(self, grads, inputs, outputs):
        return (np.where(inputs[0] > 0, grads[0], grads[0].dtype.type(0)),)


CASES: Mapping[str, Case] = {
    "gemm": Case.of("Gemm", (9, 17), (17, 24), (24,), alpha=0.5),
    "gemm_tn": Case.of("Gemm", (17, 9), (17, 24), transA=1),
    "conv": Case.of("Conv", (2, 3, 7, 8), (4, 3, 3, 3), (4,), pads=[1, 1, 1, 1], strides=[2, 1]),
    "softmax": Case.of("Softmax", (5, 37)),
    "layer_norm": Case.of("LayerNormalization", (4, 6, 32), (32,), (32,)),
    "gelu": Case.of("Gelu", (11, 20)),
    "sum": Case.of("ReduceSum", (6, 40), [1]),
    "max": Case.of("ReduceMax", (6, 40), [1], keepdims=0),
    "relu": Case.of("Relu", (7, 30)),
}

CORRECT: Mapping[str, tuple[db.Operator, str]] = {
    "Gemm": (Gemm(), "gemm"),
    "Gemm, transposed": (Gemm(), "gemm_tn"),
    "SequentialGemm": (SequentialGemm(), "gemm"),
    "TiledGemm": (TiledGemm(), "gemm"),
    "SplitGemm": (SplitGemm(), "gemm"),
    "CompensatedGemm": (CompensatedGemm(), "gemm"),
    "Conv": (Conv(), "conv"),
    "DirectConv": (DirectConv(), "conv"),
    "Softmax": (Softmax(), "softmax"),
    "OnlineSoftmax": (OnlineSoftmax(), "softmax"),
    "LayerNorm": (LayerNorm(), "layer_norm"),
    "WelfordLayerNorm": (WelfordLayerNorm(), "layer_norm"),
    "Gelu": (Gelu(), "gelu"),
    "ReduceSum": (ReduceSum(), "sum"),
    "SequentialSum": (SequentialSum(), "sum"),
    "ReduceMax": (ReduceMax(), "max"),
    "Relu": (Relu(), "relu"),
}
"""Name to a kernel that is right, and its case."""
