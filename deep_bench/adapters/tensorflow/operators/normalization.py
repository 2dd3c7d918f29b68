"""Normalisations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, output_dtype, rank_of
from deep_bench.adapters.tensorflow.layout import either, elementwise, is_last, on_values, wrapped
from deep_bench.adapters.tensorflow.operators._site import HALF, computes, in_float, root, scalar, tf_dtype

__all__ = [
    "LRN",
    "BatchNormalization",
    "Dropout",
    "InstanceNormalization",
    "LayerNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
]


def BatchNormalization(site: Site) -> Callable[..., Any]:
    """Each channel shifted and scaled by given statistics, or by those of the batch in training mode."""
    epsilon = site.attribute("epsilon", 1e-5)
    rank = rank_of(site)
    if site.attribute("training_mode", 0):
        return _training_norm(site, epsilon, rank)

    # TensorFlow's fused kernel is slower on a CPU than these few operations, which Keras uses too.
    @on_values
    def run(x: Any, *statistics: Any) -> Any:
        scale, shift, mean, variance = (v.first for v in statistics)
        inner = tf.float32 if dtype_of(site) in HALF else x.tensor.dtype
        scale, shift, mean, variance = (tf.cast(t, inner) for t in (scale, shift, mean, variance))
        factor = tf.math.rsqrt(variance + scalar(epsilon, variance)) * scale
        offset = shift - mean * factor
        if not is_last(x) and rank > 2:
            factor, offset = (tf.reshape(t, [-1] + [1] * (rank - 2)) for t in (factor, offset))
        y = tf.cast(x.tensor, inner) * factor + offset
        return wrapped(tf.cast(y, x.tensor.dtype), last=is_last(x))

    return run


def _training_norm(site: Site, epsilon: float, rank: int) -> Callable[..., Any]:
    momentum = site.attribute("momentum", 0.9)
    axes, shape = [0, *range(2, rank)], [-1] + [1] * (rank - 2)

    def run(x: Any, scale: Any, shift: Any, mean: Any, variance: Any) -> tuple[Any, Any, Any]:
        tensors = (x, scale, shift, mean, variance)
        inner = tf.float64 if any(t.dtype == tf.float64 for t in tensors) else tf.float32
        wide, scale, shift, old_mean, old_variance = (tf.cast(t, inner) for t in tensors)
        center, spread = tf.nn.moments(wide, axes)
        factor = scale * tf.math.rsqrt(spread + scalar(epsilon, spread))
        y = (wide - tf.reshape(center, shape)) * tf.reshape(factor, shape) + tf.reshape(shift, shape)
        running = (old_mean * momentum + center * (1 - momentum), old_variance * momentum + spread * (1 - momentum))
        return tf.cast(y, x.dtype), *(tf.cast(t, mean.dtype) for t in running)

    return run


def InstanceNormalization(site: Site) -> Callable[..., Any]:
    """Each channel of each sample with its own mean and variance."""
    rank = rank_of(site)
    epsilon = site.attribute("epsilon", 1e-5)
    dtype = dtype_of(site)

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        axes = [at(a) for a in range(2, rank)]
        shape = [-1 if at(1) == i else 1 for i in range(1, rank)]

        def run(x: Any, scale: Any, shift: Any) -> Any:
            centred = x - tf.reduce_mean(x, axes, keepdims=True)
            variance = tf.reduce_mean(tf.square(centred), axes, keepdims=True)
            y = centred * tf.math.rsqrt(variance + scalar(epsilon, variance))
            return y * tf.reshape(tf.cast(scale, x.dtype), shape) + tf.reshape(tf.cast(shift, x.dtype), shape)

        return in_float(run, dtype)

    return either(make)


def LayerNormalization(site: Site) -> Callable[..., Any]:
    """All elements from an axis on with their own mean and variance."""
    rank = rank_of(site)
    axes = list(range(site.attribute("axis", -1) % rank, rank))
    epsilon, native = site.attribute("epsilon", 1e-5), tf_dtype(output_dtype(site))
    stash = tf.as_dtype(onnx.helper.tensor_dtype_to_np_dtype(site.attribute("stash_type", 1)))
    inner = tf.float32 if dtype_of(site) in HALF and site.attribute("stash_type", 1) == 1 else native

    def run(x: Any, scale: Any, shift: Any = None) -> Any:
        x = tf.cast(x, inner)
        mean = tf.reduce_mean(x, axes, keepdims=True)
        centred = x - mean
        variance = tf.reduce_mean(tf.square(centred), axes, keepdims=True)
        inverse = tf.math.rsqrt(variance + scalar(epsilon, variance))
        y = tf.cast(centred * inverse, native) * scale
        y = y if shift is None else y + shift
        stashed = (tf.cast(t, stash) for t in (mean, inverse))
        return (y, *stashed)[: len(site.outputs)] if len(site.outputs) > 1 else y

    return run


def RMSNormalization(site: Site) -> Callable[..., Any]:
    """All elements from an axis on divided by their root mean square."""
    rank = rank_of(site)
    axes = list(range(site.attribute("axis", -1) % rank, rank))
    epsilon, native = site.attribute("epsilon", 1e-5), tf_dtype(output_dtype(site))
    inner = tf.float32 if dtype_of(site) in HALF and site.attribute("stash_type", 1) == 1 else tf_dtype(dtype_of(site))

    def run(x: Any, scale: Any) -> Any:
        x = tf.cast(x, inner)
        square = tf.reduce_mean(tf.square(x), axes, keepdims=True)
        return tf.cast(x * tf.math.rsqrt(square + scalar(epsilon, square)), native) * tf.cast(scale, native)

    return run


def MeanVarianceNormalization(site: Site) -> Callable[..., Any]:
    """Zero mean and unit variance over the given axes."""
    rank = rank_of(site)
    axes = [a % rank for a in site.attribute("axes") or (0, 2, 3)]

    def run(x: Any) -> Any:
        mean = tf.reduce_mean(x, axes, keepdims=True)
        deviation = root(tf.reduce_mean(tf.square(x), axes, keepdims=True) - tf.square(mean))
        return (x - mean) / (deviation + scalar(1e-9, x))

    return in_float(run, dtype_of(site))


def LpNormalization(site: Site) -> Callable[..., Any]:
    """Elements divided by their p-norm along an axis; zero where that is zero."""
    axis, p = site.attribute("axis", -1), site.attribute("p", 2)

    def run(x: Any) -> Any:
        total = tf.reduce_sum(tf.abs(x) if p == 1 else tf.square(x), axis, keepdims=True)
        return tf.math.divide_no_nan(x, total if p == 1 else root(total))

    return in_float(run, dtype_of(site))


def LRN(site: Site) -> Callable[..., Any]:
    """Each element divided by a power of the squares around it along the channels."""
    rank, size = rank_of(site), site.attributes["size"]
    alpha, beta, bias = site.attribute("alpha", 1e-4), site.attribute("beta", 0.75), site.attribute("bias", 1.0)
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        axis = at(1)

        def run(x: Any) -> Any:
            padded = tf.pad(tf.square(x), [(before, after) if a == axis else (0, 0) for a in range(rank)])
            count = tf.shape(x)[axis]
            total = tf.add_n([tf.gather(padded, tf.range(i, i + count), axis=axis) for i in range(size)])
            return x / tf.pow(scalar(bias, x) + scalar(alpha / size, x) * total, scalar(beta, x))

        return in_float(run, dtype_of(site))

    return either(make)


def Dropout(site: Site) -> Callable[..., Any]:
    """The input itself, or in training mode with elements dropped at random; those that a seed drops are the reference's."""
    training = site.constant(2)
    if site.has(2) and (training is None or bool(np.any(training))):
        ratio = site.constant(1)
        if not (site.has(1) and ratio is not None and float(ratio.reshape(())) == 0.0):
            if site.attribute("seed") is not None:
                raise NotNative("which elements a seed drops is the reference's choice")
            if not computes(tf.multiply, tf_dtype(dtype_of(site)), 2):
                raise NotNative(f"TensorFlow does not multiply numbers of {dtype_of(site)}")
            if site.has(1) and not computes(lambda t: tf.cast(t, tf.float32), tf_dtype(dtype_of(site, 1)), 1):
                raise NotNative(f"TensorFlow does not read a ratio of {dtype_of(site, 1)}")
            return _dropped if site.wants(1) else lambda *inputs: _dropped(*inputs)[0]
    if not site.wants(1):
        return elementwise(lambda x, *_: x)
    return lambda x, *_: (x, tf.ones_like(x, tf.bool))


def _dropped(x: Any, ratio: Any, training: Any) -> Any:
    share = tf.constant(0.5) if ratio is None else tf.cast(tf.reshape(ratio, []), tf.float32)
    trains = tf.reshape(training, [])
    mask = tf.logical_or(tf.random.uniform(tf.shape(x)) >= share, tf.logical_not(trains))
    factor = tf.where(trains, tf.math.divide_no_nan(tf.constant(1.0), 1 - share), 1.0)
    return tf.where(mask, x * tf.cast(factor, x.dtype), tf.zeros_like(x)), mask
