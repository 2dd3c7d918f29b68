"""Kernels that are wrong on purpose, each in its own way, with the checks that must find it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from deep_bench import Operator
from tests.operators.checks.correct import Gelu, LayerNorm, OnlineSoftmax, ReduceMax, ReduceSum, Relu, Softmax
from tests.operators.checks.wrong_products import (
    ConvBatchMean,
    ConvFlipped,
    ConvNoBias,
    ConvShiftedPads,
    ConvSwappedStrides,
    ConvUnpadded,
    GemmBackwardCount,
    GemmBackwardFactor,
    GemmBackwardNone,
    GemmBackwardShape,
    GemmBackwardSwapped,
    GemmBackwardWritesGradient,
    GemmEmptyFails,
    GemmFixedTiles,
    GemmFloat16,
    GemmFloat64,
    GemmForgetsBeta,
    GemmForgetsLastTerm,
    GemmIgnoresTranspose,
    GemmKeepsBuffer,
    GemmOneElement,
    GemmScalesBias,
    GemmSkipsNan,
    GemmTakesBuffer,
    GemmTf32,
    GemmTransposedResult,
    GemmWritesInput,
)


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
