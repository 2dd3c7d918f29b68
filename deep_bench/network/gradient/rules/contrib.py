"""Operators of ONNX Runtime's own, differentiated through the standard's operators that they join: ``com.microsoft``."""

from __future__ import annotations

from deep_bench.network.gradient.rules._arithmetic import wide

__all__ = [
    "BiasGelu",
    "FastGelu",
    "FusedMatMul",
    "Gelu",
    "QuickGelu",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
]

_EPSILON = 9.999999960041972e-13  # the float32 nearest to 1e-12


def Gelu(at, x):
    """Through the standard's ``Gelu``."""
    return at.through(lambda x: at.op.Gelu(x), x)


def BiasGelu(at, a, b):
    """Through ``Gelu`` of the sum."""
    return at.through(lambda a, b: at.op.Gelu(a + b), a, b)


def FastGelu(at, x, bias=None):
    """Through ``Gelu`` of the sum, by its approximation."""
    return at.through(lambda x, b: at.op.Gelu(x if b is None else x + b, approximate="tanh"), x, bias)


def QuickGelu(at, x, *, alpha=1.7020000219345093):
    """``dx = dy s (1 + alpha x (1 - s))`` with ``s = sigmoid(alpha x)``."""
    wide_x = wide(x)
    s = at.op.Sigmoid(wide_x * alpha)
    return (wide(at.dy) * s * (wide_x * (1 - s) * alpha + 1)).cast(x)


def FusedMatMul(at, a, b, *, alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0):
    """Through ``MatMul`` of the matrices as they are after their transposition."""
    if transBatchA or transBatchB:
        raise at.refusal("its first axis is moved (transBatchA or transBatchB)")

    def turned(x, turn):
        return x.transpose([*range(x.rank - 2), x.rank - 1, x.rank - 2]) if turn and x.rank > 1 else x

    return at.through(lambda a, b: (turned(a, transA) @ turned(b, transB)) * alpha, a, b)


def SkipLayerNormalization(at, x, skip, gamma, beta=None, bias=None, *, epsilon=_EPSILON):
    """Through ``LayerNormalization`` of the sum, which is the last output itself."""

    def function(x, skip, gamma, beta, bias):
        total = _total(x, skip, bias)
        return *at.op.LayerNormalization(total, gamma, beta, axis=-1, epsilon=epsilon, outputs=3), total

    return at.through(function, x, skip, gamma, beta, bias)


def SkipSimplifiedLayerNormalization(at, x, skip, gamma, bias=None, *, epsilon=_EPSILON):
    """Through ``s / sqrt(mean of s^2 + epsilon) * gamma`` of the sum ``s``, which is the last output itself."""

    def function(x, skip, gamma, bias):
        total = _total(x, skip, bias)
        squares = (wide(total) * wide(total)).mean([-1], keepdims=True)
        inverse = at.op.Reciprocal(at.op.Sqrt(squares + epsilon))
        return (wide(total) * inverse * wide(gamma)).cast(x), at.op.zeros_like(inverse), inverse, total

    return at.through(function, x, skip, gamma, bias)


def _total(x, skip, bias):
    return x + skip if bias is None else x + skip + bias
