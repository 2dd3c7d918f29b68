"""Kernels that are wrong on purpose, each in its own way, with the checks that must find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from deep_bench import Operator
from tests.operators.checks.correct import (
    Conv,
    Gelu,
    Gemm,
    LayerNorm,
    OnlineSoftmax,
    ReduceMax,
    ReduceSum,
    Relu,
    SequentialGemm,
    Softmax,
)


class GemmForgetsLastTerm(Gemm):
    def product(self, a, b):
        return a[:, :-1] @ b[:-1]


class GemmForgetsBeta(Gemm):
    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        return super().forward(a, b, None, alpha=alpha)


class GemmScalesBias(Gemm):
    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        return a.dtype.type(alpha) * (self.product(a, b) + c)


class GemmOneElement(Gemm):
    def product(self, a, b):
        y = a @ b
        y[-1:, -1:] *= a.dtype.type(1.001)
        return y


def _tf32(x):
    return x if x.dtype != np.float32 else (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


class GemmTf32(Gemm):
    """Cuts its factors to eleven bits, with the range of float32."""

    def product(self, a, b):
        return _tf32(a) @ _tf32(b)


class GemmFloat16(Gemm):
    """Overflows as well."""

    def product(self, a, b):
        with np.errstate(all="ignore"):
            return a.astype(np.float16).astype(a.dtype) @ b.astype(np.float16).astype(a.dtype)


class GemmIgnoresTranspose(Gemm):
    def forward(self, a, b, c=None, *, alpha=1.0, beta=1.0, transA=0, transB=0):
        return a.reshape(a.shape[::-1]) @ b if transA else super().forward(a, b, c, alpha=alpha, beta=beta)


class GemmFixedTiles(Gemm):
    """What does not fill a tile of eight rows is left at zero."""

    def product(self, a, b):
        y = np.zeros((a.shape[0], b.shape[1]), a.dtype)
        whole = a.shape[0] // 8 * 8
        y[:whole] = a[:whole] @ b
        return y


class GemmFloat64(Gemm):
    def forward(self, *inputs, **attributes):
        return super().forward(*inputs, **attributes).astype(np.float64)


class GemmTransposedResult(Gemm):
    def forward(self, *inputs, **attributes):
        return super().forward(*inputs, **attributes).T


class GemmTakesBuffer(Gemm):
    """Reads its first input as if it were contiguous."""

    def product(self, a, b):
        flat = np.lib.stride_tricks.as_strided(a, (a.size,), (a.itemsize,)) if a.size and min(a.strides) > 0 else a.ravel()
        return flat.reshape(a.shape) @ b


class GemmEmptyFails(Gemm):
    def product(self, a, b):
        if 0 in (*a.shape, *b.shape):
            raise ValueError("nothing to multiply")
        return a @ b


class GemmWritesInput(Gemm):
    def forward(self, a, b, c=None, **attributes):
        y = super().forward(a, b, c, **attributes)
        a += 1
        return y


class GemmSkipsNan(Gemm):
    """Zeroes what is NaN."""

    def product(self, a, b):
        return np.nan_to_num(a) @ np.nan_to_num(b)


class GemmBackwardFactor(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        da, *others = super().backward(grads, inputs, outputs, **attributes)
        return da * da.dtype.type(1.01), *others


class GemmBackwardSwapped(Gemm):
    def backward(self, grads, inputs, outputs, *, alpha=1.0, **attributes):
        a, b = inputs[:2]
        g = grads[0]  # alpha is missing
        return g @ b.T, a.T @ g, g.sum(axis=0)


class GemmBackwardNone(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        da, db, _ = super().backward(grads, inputs, outputs, **attributes)
        return da, db, None


class GemmBackwardShape(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        da, db, dc = super().backward(grads, inputs, outputs, **attributes)
        return da, db, dc[None]


class GemmBackwardWritesGradient(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        found = super().backward(grads, inputs, outputs, **attributes)
        grads[0][...] = 0
        return found


class GemmBackwardCount(Gemm):
    def backward(self, grads, inputs, outputs, **attributes):
        return super().backward(grads, inputs, outputs, **attributes)[:2]


class ConvUnpadded(Conv):
    """Pads with ones instead of zeros."""

    def windows(self, x, w, pads, strides):
        top, left, bottom, right = pads
        x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=1)
        return np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]


class ConvFlipped(Conv):
    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        return super().forward(x, w[:, :, ::-1, ::-1], b, pads=pads, strides=strides)


class ConvSwappedStrides(Conv):
    def windows(self, x, w, pads, strides):
        seen = super().windows(x, w, pads, (1, 1))
        return seen[:, :, :: strides[1], :: strides[0]]


class ConvShiftedPads(Conv):
    def windows(self, x, w, pads, strides):
        return super().windows(np.roll(x, 1, axis=3), w, pads, strides)


class ConvNoBias(Conv):
    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        return super().forward(x, w, None, pads=pads, strides=strides)


class ConvBatchMean(Conv):
    """Rows of the batch leak into each other."""

    def forward(self, x, w, b=None, *, pads=(0, 0, 0, 0), strides=(1, 1)):
        leak = x.dtype.type(1e-3) * x.mean(axis=0, keepdims=True) if x.size else x
        return super().forward(x + leak, w, b, pads=pads, strides=strides)


class SoftmaxUnshifted(Softmax):
    """Overflows on large inputs."""

    def forward(self, x, *, axis=-1):
        e = np.exp(x)
        return e / e.sum(axis=axis, keepdims=True)


class SoftmaxClamped(Softmax):
    def forward(self, x, *, axis=-1):
        return super().forward(np.clip(x, -3, 3), axis=axis)


class SoftmaxOtherAxis(Softmax):
    def forward(self, x, *, axis=-1):
        return super().forward(x, axis=0)


class SoftmaxAddsEpsilon(Softmax):
    def forward(self, x, *, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
        return e / (e.sum(axis=axis, keepdims=True) + x.dtype.type(1e-3))


class SoftmaxUnrescaled(OnlineSoftmax):
    """Forgets to rescale the sum."""

    def forward(self, x, *, axis=-1):
        largest = np.maximum.accumulate(x, axis=axis)
        total = np.exp(x - largest).sum(axis=axis, keepdims=True)
        return np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf)) / total


class SoftmaxBackwardDiagonal(Softmax):
    def backward(self, grads, inputs, outputs, *, axis=-1):
        return (grads[0] * outputs[0] * (1 - outputs[0]),)


class LayerNormBesselVariance(LayerNorm):
    def moments(self, x):
        mean, variance = super().moments(x)
        return mean, variance * x.dtype.type(x.shape[-1] / max(x.shape[-1] - 1, 1))


class LayerNormWrongEpsilon(LayerNorm):
    def forward(self, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
        return super().forward(x, scale, bias, epsilon=1e-6)


class LayerNormEpsilonOutside(LayerNorm):
    def forward(self, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
        mean, variance = self.moments(x)
        return (x - mean) / (np.sqrt(variance) + x.dtype.type(epsilon)) * scale + bias


class LayerNormForgetsScale(LayerNorm):
    def forward(self, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1):
        return super().forward(x, np.ones_like(scale), bias, epsilon=epsilon)


class LayerNormBackwardNoMean(LayerNorm):
    def backward(self, grads, inputs, outputs, *, axis=-1, epsilon=1e-5, stash_type=1):
        x, scale = inputs[:2]
        _, variance = self.moments(x)
        dx = grads[0] * scale / np.sqrt(variance + x.dtype.type(epsilon))
        return dx, *super().backward(grads, inputs, outputs, epsilon=epsilon)[1:]


class GeluTanh(Gelu):
    """The approximation, where the exact one is asked for."""

    def forward(self, x, *, approximate="none"):
        wide = x.astype(np.float64)
        return (0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))).astype(x.dtype)


class GeluSigmoid(Gelu):
    def forward(self, x, *, approximate="none"):
        return (x / (1 + np.exp(-1.702 * x.astype(np.float64)))).astype(x.dtype)


class GeluCutOff(Gelu):
    """Is 0 below -3."""

    def forward(self, x, *, approximate="none"):
        return np.where(x < -3, x.dtype.type(0), super().forward(x))


class GeluBfloat16(Gelu):
    def forward(self, x, *, approximate="none"):
        kept = super().forward(x).astype(np.float32).view(np.uint32)
        return (kept & np.uint32(0xFFFF0000)).view(np.float32).astype(x.dtype)


class GeluBackwardTanh(Gelu):
    def slope(self, x):
        return 1 / (1 + np.exp(-1.702 * x)) * (1 + 1.702 * x * (1 - 1 / (1 + np.exp(-1.702 * x))))


class GeluBackwardSmallFactor(Gelu):
    def slope(self, x):
        return 1.002 * super().slope(x)


class SumSkipsFirst(ReduceSum):
    def forward(self, x, axes=None, **attributes):
        y = super().forward(x, axes, **attributes)
        return y - x[:, :1] if x.shape[1] else y


class SumDropsDimension(ReduceSum):
    def forward(self, x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
        return super().forward(x, axes, keepdims=0)


class SumUnordered(ReduceSum):
    """The order of the terms is another one at each call, in float16."""

    def __init__(self):
        self.calls = 0

    def forward(self, x, axes=None, **attributes):
        self.calls += 1
        mixed = np.random.default_rng(self.calls).permutation(x.shape[1])
        total = np.zeros((x.shape[0], 1), np.float16)
        with np.errstate(all="ignore"):
            for k in mixed:
                total = total + x[:, k : k + 1].astype(np.float16)
        return total.astype(x.dtype)


class SumBackwardMean(ReduceSum):
    def backward(self, grads, inputs, outputs, **attributes):
        (dx, _) = super().backward(grads, inputs, outputs, **attributes)
        return dx / dx.dtype.type(inputs[0].shape[1] or 1), None


class MaxOfMagnitude(ReduceMax):
    def forward(self, x, axes=None, **attributes):
        return super().forward(np.abs(x), axes, **attributes)


class MaxStartsAtZero(ReduceMax):
    """Right unless all elements are negative."""

    def forward(self, x, axes=None, **attributes):
        return np.maximum(super().forward(x, axes, **attributes), x.dtype.type(0))


class MaxBackwardAll(ReduceMax):
    def backward(self, grads, inputs, outputs, *, keepdims=1, noop_with_empty_axes=0):
        x = inputs[0]
        return np.array(np.broadcast_to(grads[0][:, None], x.shape)) / x.dtype.type(x.shape[1] or 1), None


class ReluLeaks(Relu):
    def forward(self, x):
        return np.where(x > 0, x, x.dtype.type(1e-4) * x)


class ReluBackwardAtZero(Relu):
    """Twice the gradient where the input is 0, which is no slope to either side."""

    def backward(self, grads, inputs, outputs):
        g = grads[0]
        return (np.where(inputs[0] > 0, g, np.where(inputs[0] == 0, g + g, g.dtype.type(0))),)


class ReluReturnsInput(Relu):
    def forward(self, x):
        return x if (x >= 0).all() else np.maximum(x, x.dtype.type(0), out=x)


class GemmKeepsBuffer(SequentialGemm):
    """Returns the same memory at each call, and does not say so."""

    def __init__(self):
        self.buffers = {}

    def forward(self, *inputs, **attributes):
        found = super().forward(*inputs, **attributes)
        kept = self.buffers.setdefault(found.shape, found)
        kept[...] = found
        return kept


class Wrong(NamedTuple):
    """A kernel that is wrong: the case and the check that shows it, and what is said of it."""

    operator: Operator
    case: str
    check: str
    word: str = "wrong"


WRONG: Mapping[str, Wrong] = {
    f"{w.operator.name}, {w.check}": w
    for w in (
        Wrong(GemmForgetsLastTerm(), "gemm", "forward"),
        Wrong(GemmForgetsBeta(), "gemm", "forward"),
        Wrong(GemmScalesBias(), "gemm", "forward"),
        Wrong(GemmOneElement(), "gemm", "forward"),
        Wrong(GemmTf32(), "gemm", "forward", "reduced precision"),
        Wrong(GemmFloat16(), "gemm", "forward"),
        Wrong(GemmIgnoresTranspose(), "gemm_tn", "forward"),
        Wrong(GemmFixedTiles(), "gemm", "forward"),
        Wrong(GemmFloat64(), "gemm", "contract"),
        Wrong(GemmTransposedResult(), "gemm", "forward"),
        Wrong(GemmTakesBuffer(), "gemm", "layout"),
        Wrong(GemmEmptyFails(), "gemm", "sizes", "failed"),
        Wrong(GemmWritesInput(), "gemm", "contract"),
        Wrong(GemmSkipsNan(), "gemm", "forward"),
        Wrong(GemmKeepsBuffer(), "gemm", "contract"),
        Wrong(GemmBackwardFactor(), "gemm", "backward"),
        Wrong(GemmBackwardFactor(), "gemm", "slopes"),
        Wrong(GemmBackwardSwapped(), "gemm", "slopes"),
        Wrong(GemmBackwardNone(), "gemm", "backward"),
        Wrong(GemmBackwardShape(), "gemm", "backward"),
        Wrong(GemmBackwardWritesGradient(), "gemm", "backward"),
        Wrong(GemmBackwardCount(), "gemm", "backward", "failed"),
        Wrong(ConvUnpadded(), "conv", "forward"),
        Wrong(ConvFlipped(), "conv", "forward"),
        Wrong(ConvSwappedStrides(), "conv", "forward"),
        Wrong(ConvShiftedPads(), "conv", "forward"),
        Wrong(ConvNoBias(), "conv", "forward"),
        Wrong(ConvBatchMean(), "conv", "batch"),
        Wrong(SoftmaxUnshifted(), "softmax", "forward"),
        Wrong(SoftmaxClamped(), "softmax", "forward"),
        Wrong(SoftmaxOtherAxis(), "softmax", "forward"),
        Wrong(SoftmaxAddsEpsilon(), "softmax", "forward"),
        Wrong(SoftmaxUnrescaled(), "softmax", "forward"),
        Wrong(SoftmaxBackwardDiagonal(), "softmax", "backward"),
        Wrong(LayerNormBesselVariance(), "layer_norm", "forward"),
        Wrong(LayerNormWrongEpsilon(), "layer_norm", "forward"),
        Wrong(LayerNormEpsilonOutside(), "layer_norm", "forward"),
        Wrong(LayerNormForgetsScale(), "layer_norm", "forward"),
        Wrong(LayerNormBackwardNoMean(), "layer_norm", "slopes"),
        Wrong(GeluTanh(), "gelu", "forward"),
        Wrong(GeluSigmoid(), "gelu", "forward"),
        Wrong(GeluCutOff(), "gelu", "forward"),
        Wrong(GeluBfloat16(), "gelu", "forward", "reduced precision"),
        Wrong(GeluBackwardTanh(), "gelu", "backward"),
        Wrong(GeluBackwardSmallFactor(), "gelu", "slopes"),
        Wrong(SumSkipsFirst(), "sum", "forward"),
        Wrong(SumDropsDimension(), "sum", "forward"),
        Wrong(SumUnordered(), "sum", "reruns"),
        Wrong(SumBackwardMean(), "sum", "backward"),
        Wrong(MaxOfMagnitude(), "max", "forward"),
        Wrong(MaxStartsAtZero(), "max", "sizes"),
        Wrong(MaxBackwardAll(), "max", "slopes"),
        Wrong(ReluLeaks(), "relu", "forward"),
        Wrong(ReluBackwardAtZero(), "relu", "slopes"),
        Wrong(ReluReturnsInput(), "relu", "contract"),
    )
}
