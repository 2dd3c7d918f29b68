"""Activation functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.plan import dtype_of, rank_of
from deep_bench.adapters.tensorflow.graph import differentiating, with_gradient
from deep_bench.adapters.tensorflow.layout import either, elementwise
from deep_bench.adapters.tensorflow.operators._site import in_float, pointwise, scalar, widened

__all__ = [  # noqa: RUF022 (grouped by kind)
    "Relu", "LeakyRelu", "PRelu", "ThresholdedRelu", "Elu", "Celu", "Selu", "Gelu", "Mish", "Swish", "Sigmoid",
    "HardSigmoid", "HardSwish", "Softplus", "Softsign", "Shrink", "Softmax", "LogSoftmax", "Hardmax",
]  # fmt: skip

Relu = pointwise(tf.nn.relu, 1)
Sigmoid = pointwise(tf.sigmoid, 1)
Softplus = pointwise(tf.math.softplus, 1)
Softsign = pointwise(tf.math.softsign, 1)


def LeakyRelu(site: Site) -> Callable[..., Any]:
    """``x`` where positive, else ``alpha * x``."""
    alpha = site.attribute("alpha", 0.01)
    return elementwise(lambda x: tf.where(x < 0, x * scalar(alpha, x), x) if alpha > 1 or alpha < 0 else _leaky(x, alpha))


def _leaky(x: Any, alpha: float) -> Any:
    return tf.nn.leaky_relu(x, alpha) if x.dtype != tf.float64 else tf.maximum(x, x * scalar(alpha, x))


def PRelu(site: Site) -> Callable[..., Any]:
    """``x`` where positive, else ``slope * x``, the slope broadcast to ``x``."""
    dtype_of(site)
    return elementwise(lambda x, slope: tf.where(x < 0, x * slope, x))


def ThresholdedRelu(site: Site) -> Callable[..., Any]:
    """``x`` where above ``alpha``, else 0."""
    alpha = site.attribute("alpha", 1.0)
    return elementwise(lambda x: tf.where(x > scalar(alpha, x), x, tf.zeros_like(x)))


def Elu(site: Site) -> Callable[..., Any]:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    alpha = site.attribute("alpha", 1.0)
    return elementwise(lambda x: tf.where(x < 0, _expm1(x) * scalar(alpha, x), x))


def _expm1(x: Any) -> Any:
    """``exp(x) - 1`` where ``x`` is negative; elsewhere, where nobody wants it, its slope must not overflow."""
    return tf.math.expm1(tf.minimum(x, scalar(0, x)) if differentiating() else x)


def Celu(site: Site) -> Callable[..., Any]:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    alpha = site.attribute("alpha", 1.0)
    return elementwise(lambda x: tf.where(x < 0, _expm1(x / scalar(alpha, x)) * scalar(alpha, x), x))


def Selu(site: Site) -> Callable[..., Any]:
    """``gamma * x`` where positive, else ``gamma * alpha * (exp(x) - 1)``."""
    alpha = site.attribute("alpha", 1.6732631921768188)
    gamma = site.attribute("gamma", 1.0507010221481323)
    return elementwise(lambda x: scalar(gamma, x) * tf.where(x <= 0, _expm1(x) * scalar(alpha, x), x))


def Gelu(site: Site) -> Callable[..., Any]:
    """``x`` times the normal distribution function, or its approximation by tanh."""
    approximate = site.attribute("approximate", "none") == "tanh"

    def run(x: Any) -> Any:
        if approximate:
            inner = scalar(math.sqrt(2 / math.pi), x) * (x + scalar(0.044715, x) * x * x * x)
            return scalar(0.5, x) * x * (scalar(1, x) + tf.tanh(inner))
        return scalar(0.5, x) * x * (scalar(1, x) + tf.math.erf(x / scalar(math.sqrt(2), x)))

    return elementwise(in_float(run, dtype_of(site)))


def Mish(site: Site) -> Callable[..., Any]:
    """``x * tanh(log(1 + exp(x)))``."""
    return elementwise(in_float(lambda x: x * tf.tanh(tf.math.softplus(x)), dtype_of(site)))


def Swish(site: Site) -> Callable[..., Any]:
    """``x * sigmoid(alpha * x)``."""
    alpha = site.attribute("alpha", 1.0)
    return elementwise(in_float(lambda x: x * tf.sigmoid(scalar(alpha, x) * x), dtype_of(site)))


def HardSigmoid(site: Site) -> Callable[..., Any]:
    """``max(0, min(1, alpha * x + beta))``."""
    alpha, beta = site.attribute("alpha", 0.2), site.attribute("beta", 0.5)
    return elementwise(lambda x: _unit(x * scalar(alpha, x) + scalar(beta, x)))


def _unit(x: Any) -> Any:
    return tf.minimum(tf.maximum(x, scalar(0, x)), scalar(1, x))


def HardSwish(site: Site) -> Callable[..., Any]:
    """``x * max(0, min(1, x / 6 + 1 / 2))``."""
    dtype_of(site)
    return elementwise(lambda x: x * _unit(x * scalar(1 / 6, x) + scalar(0.5, x)))


def Shrink(site: Site) -> Callable[..., Any]:
    """``x + bias`` below ``-lambd``, ``x - bias`` above ``lambd``, else 0."""
    bias, limit = site.attribute("bias", 0.0), site.attribute("lambd", 0.5)
    signed = dtype_of(site).kind != "u"

    def run(x: Any) -> Any:
        low = x < tf.cast(-limit, x.dtype) if signed else tf.zeros_like(x, tf.bool)
        high = x > tf.cast(limit, x.dtype)
        return tf.where(low, x + tf.cast(bias, x.dtype), tf.where(high, x - tf.cast(bias, x.dtype), tf.zeros_like(x)))

    return elementwise(widened(run, dtype_of(site), 1))


def _along(site: Site, function: Callable[..., Any]) -> Callable[..., Any]:
    axis, dtype = site.attribute("axis", -1), dtype_of(site)
    rank_of(site)
    return either(lambda at: in_float(lambda x: function(x, at(axis)), dtype))


def Softmax(site: Site) -> Callable[..., Any]:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return _along(site, _softmax)


def LogSoftmax(site: Site) -> Callable[..., Any]:
    """``log(softmax(x))`` along an axis."""
    return _along(site, _log_softmax)


def _softmax(x: Any, axis: int) -> Any:
    """TensorFlow's own moves the axis to the end and back, which costs more than the parts."""
    if axis in (-1, x.shape.rank - 1):
        return with_gradient(tf.nn.softmax, lambda dy, y, _: _softmax_gradient(dy, y, -1))(x)
    return with_gradient(lambda t: _spread(t, axis), lambda dy, y, _: _softmax_gradient(dy, y, axis))(x)


def _spread(x: Any, axis: int) -> Any:
    grown = tf.exp(x - tf.reduce_max(x, axis, keepdims=True))
    return grown / tf.reduce_sum(grown, axis, keepdims=True)


def _softmax_gradient(dy: Any, y: Any, axis: int) -> Any:
    """``y * (dy - sum(dy * y))``, and 0 for rows of which nobody wants the result.

    Of a row that is masked altogether the softmax is no number, in place of which networks then put a 0.
    """
    total = tf.reduce_sum(dy * y, axis, keepdims=True)
    at = axis % y.shape.rank
    unwanted = tf.math.is_nan(y[(*[slice(None)] * at, slice(0, 1))])
    return tf.math.multiply_no_nan(y, dy - tf.where(unwanted, tf.zeros_like(total), total))


def _log_softmax(x: Any, axis: int) -> Any:
    if axis in (-1, x.shape.rank - 1):
        return tf.nn.log_softmax(x)
    shifted = x - tf.reduce_max(x, axis, keepdims=True)
    return shifted - tf.math.log(tf.reduce_sum(tf.exp(shifted), axis, keepdims=True))


def Hardmax(site: Site) -> Callable[..., Any]:
    """1 at the first maximum along an axis, else 0."""
    axis = site.attribute("axis", -1) % rank_of(site)

    def run(x: Any) -> Any:
        if x.shape[axis] == 0:
            return x
        return tf.one_hot(tf.argmax(x, axis), tf.shape(x)[axis], axis=axis, dtype=x.dtype)

    return run
