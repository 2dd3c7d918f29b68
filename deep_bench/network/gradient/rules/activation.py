"""Activations and the softmax family."""

from __future__ import annotations

import math

from deep_bench.network.gradient.rules._arithmetic import in_float32, mask, where

__all__ = [
    "Celu",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "LogSoftmax",
    "Mish",
    "PRelu",
    "Relu",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "SwiGLU",
    "Swish",
    "ThresholdedRelu",
]


def Relu(at, x):
    """``dx = dy`` where ``x > 0``, else 0."""
    return where(at.y > 0, at.dy)


@in_float32
def LeakyRelu(at, x, *, alpha=0.009999999776482582):
    """``dx = dy`` where ``x > 0``, else ``alpha * dy``."""
    above = mask(x > 0, x)
    return at.dy * (at.op.Max(above, alpha) if 0 <= alpha <= 1 else above * (1 - alpha) + alpha)


@in_float32
def PRelu(at, x, slope):
    """``dx = dy`` where ``x > 0``, else ``slope * dy``; ``d slope = dy * min(x, 0)``."""
    dx = at.dy * (mask(x > 0, x) * (1 - slope) + slope)
    return dx, at.op.sum_to(at.dy * at.op.Min(x, 0), slope) if at.wants(1) else None


def ThresholdedRelu(at, x, *, alpha=1.0):
    """``dx = dy`` where ``x > alpha``, else 0."""
    return where(x > alpha, at.dy)


def Shrink(at, x, *, bias=0.0, lambd=0.5):
    """``dx = dy`` where ``|x| > lambd``, else 0."""
    return where(at.op.Abs(x) > lambd, at.dy)


@in_float32
def Sigmoid(at, x):
    """``dx = dy * y * (1 - y)``."""
    return at.dy * at.y * (1 - at.y)


@in_float32
def HardSigmoid(at, x, *, alpha=0.20000000298023224, beta=0.5):
    """``dx = alpha * dy`` where ``0 < y < 1``, else 0."""
    return where((at.y > 0) & (at.y < 1), at.dy * alpha)


@in_float32
def HardSwish(at, x):
    """``dx = dy * (h + x / 6)`` with ``h = min(max(x / 6 + 1 / 2, 0), 1)``; the second term only where ``|x| <= 3``."""
    sixth = x * (1 / 6)
    slope = at.op.Clip(sixth + 0.5, 0, 1) + where(at.op.Abs(x) <= 3, sixth)
    return at.dy * slope


@in_float32
def Elu(at, x, *, alpha=1.0):
    """``dx = dy`` where ``x > 0``, else ``alpha * exp(x) * dy``."""
    return at.dy * _exponential(at, x, alpha, 1.0)


@in_float32
def Selu(at, x, *, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875):
    """``dx = gamma * dy`` where ``x > 0``, else ``gamma * alpha * exp(x) * dy``."""
    return at.dy * _exponential(at, x, gamma * alpha, gamma)


@in_float32
def Celu(at, x, *, alpha=1.0):
    """``dx = exp(min(x, 0) / alpha) * dy``."""
    below = at.op.Min(x, 0)
    return at.dy * at.op.Exp(below if alpha == 1 else below / alpha)


def _exponential(at, x, below, above):
    """``below * exp(x)`` where ``x`` is not positive, and ``above`` elsewhere."""
    slope = at.op.Exp(at.op.Min(x, 0))
    return slope if below == above == 1 else slope * below + mask(x > 0, x) * (above - below)


def Softplus(at, x):
    """``dx = dy * sigmoid(x)``."""
    return at.dy * at.op.Sigmoid(x)


@in_float32
def Softsign(at, x):
    """``dx = dy / (1 + |x|) ** 2``."""
    divisor = at.op.Abs(x) + 1
    return at.dy / divisor / divisor


@in_float32
def Mish(at, x):
    """``dx = dy * (t + x * sigmoid(x) * (1 - t ** 2))`` with ``t = tanh(softplus(x))``.

    With ``u = exp(x)`` and ``n = u * (u + 2)``, ``t = n / (n + 2)`` and ``1 - t ** 2 = 4 * (u + 1) ** 2 / (n + 2) ** 2``.
    Beyond 20 the slope is 1 in float64 too.
    """
    x = at.op.Min(x, 20)
    u = at.op.Exp(x)
    n = u * (u + 2)
    d = n + 2
    return at.dy * ((n * d + x * u * (u + 1) * 4) / (d * d))


@in_float32
def Swish(at, x, *, alpha=1.0):
    """``dx = dy * (s + alpha * y * (1 - s))`` with ``s = sigmoid(alpha * x)``."""
    return at.dy * _swish(at, x, alpha)[1]


@in_float32
def SwiGLU(at, a, b, *, alpha=1.0):
    """``da = dy * b * swish'(a)``, ``db = dy * swish(a)``."""
    s, slope = _swish(at, a, alpha)
    return at.op.sum_to(at.dy * b * slope, a), at.op.sum_to(at.dy * (a * s), b)


def _swish(at, x, alpha):
    """``sigmoid(alpha * x)``, and the slope of ``x`` times it."""
    scaled = x if alpha == 1 else x * alpha
    s = at.op.Sigmoid(scaled)
    return s, s + scaled * s * (1 - s)


@in_float32
def Gelu(at, x, *, approximate="none"):
    """``dx = dy * (P(x) + x * p(x))`` with the normal distribution ``P`` and its density ``p``; or the approximation's."""
    if approximate == "tanh":
        return at.dy * _tanh_gelu_slope(at, x)
    distribution = at.op.Erf(x * math.sqrt(0.5)) * 0.5 + 0.5
    return at.dy * (distribution + x * at.op.Exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)))


def _tanh_gelu_slope(at, x):
    x = at.op.Clip(x, -100, 100)  # the slope is 0 or 1 long before, and a cube overflows
    square = x * x
    scale = math.sqrt(2 / math.pi)
    t = at.op.Tanh(x * (square * (0.044715 * scale) + scale))
    return (t + 1) * 0.5 + x * (1 - t * t) * (square * (1.5 * 0.044715 * scale) + 0.5 * scale)


@in_float32
def Softmax(at, x, *, axis=-1):
    """``dx = y * (dy - sum(y * dy))``."""
    return at.y * (at.dy - (at.y * at.dy).sum([axis], keepdims=True))


@in_float32
def LogSoftmax(at, x, *, axis=-1):
    """``dx = dy - exp(y) * sum(dy)``."""
    return at.dy - at.op.Exp(at.y) * at.dy.sum([axis], keepdims=True)
