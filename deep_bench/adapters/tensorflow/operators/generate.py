"""What makes tensors out of little: constants, ranges, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, output_dtype
from deep_bench.adapters.tensorflow.operators._site import computes, tf_dtype

__all__ = [
    "Bernoulli",
    "ConstantOfShape",
    "EyeLike",
    "MelWeightMatrix",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Range",
]


_LOG10 = float(np.log(10))


def _probe_broadcast(x: Any) -> Any:
    return tf.broadcast_to(x, [2])


def ConstantOfShape(site: Site) -> Callable[..., Any]:
    """One value in a given shape."""
    value = site.attribute("value")
    fill = np.zeros(1, np.float32) if value is None else np.asarray(value)
    native, constant = tf_dtype(fill.dtype), site.constant(0)
    if not computes(_probe_broadcast, native, 1):
        raise NotNative(f"TensorFlow does not repeat numbers of {fill.dtype}")
    if constant is not None:
        dims = [int(d) for d in constant]
        return lambda _: tf.broadcast_to(tf.constant(fill.reshape(()), native), dims)
    return lambda shape: tf.broadcast_to(tf.constant(fill.reshape(()), native), shape)


def Range(site: Site) -> Callable[..., Any]:
    """Numbers from ``start`` by ``delta`` up to ``limit``, which is left out: ``start + i * delta``."""
    dtype = dtype_of(site)
    if dtype.kind in "iu":
        return _whole_range
    if not computes(_probe_range, tf_dtype(dtype), 1):
        raise NotNative(f"TensorFlow has no range of {dtype}")

    def run(start: Any, limit: Any, delta: Any) -> Any:
        start, limit, delta = (tf.reshape(t, []) for t in (start, limit, delta))
        count = tf.maximum(tf.cast(tf.math.ceil((limit - start) / delta), tf.int64), 0)
        return start + tf.cast(tf.range(count), start.dtype) * delta

    return run


def _whole_range(*scalars: Any) -> Any:
    """A range of integers; TensorFlow's own refuses a limit on the other side of the start."""
    start, limit, delta = (tf.cast(tf.reshape(t, []), tf.int64) for t in scalars)
    count = tf.maximum(-((start - limit) // delta), 0)
    return tf.cast(start + tf.range(count) * delta, scalars[0].dtype)


def _probe_range(x: Any) -> Any:
    return tf.range(x[0])


def EyeLike(site: Site) -> Callable[..., Any]:
    """Ones on a diagonal, in the shape of the input."""
    k, native = site.attribute("k", 0), tf_dtype(output_dtype(site))

    def run(x: Any) -> Any:
        rows, columns = tf.range(tf.shape(x)[0]), tf.range(tf.shape(x)[1])
        return tf.cast(tf.equal(columns[None, :] - rows[:, None], k), native)

    return run


def _seed(site: Site) -> int | None:
    seed = site.attribute("seed")
    return None if seed is None else int(np.float32(seed).view(np.int32))


def _random_dtype(site: Site) -> tf.DType:
    code = site.attribute("dtype")
    dtype = output_dtype(site) if code is None else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code))
    return tf_dtype(dtype)


def _random(
    make: Callable[..., Any], low: tuple[str, float], high: tuple[str, float], *, like: bool
) -> Callable[[Site], Callable[..., Any]]:
    def build(site: Site) -> Callable[..., Any]:
        native, seed = _random_dtype(site), _seed(site)
        a, b = site.attribute(*low), site.attribute(*high)
        if like:
            return lambda x: make(tf.shape(x), a, b, native, seed)
        return lambda: make(list(site.attributes["shape"]), a, b, native, seed)

    return build


RandomUniform = _random(tf.random.uniform, ("low", 0.0), ("high", 1.0), like=False)
RandomUniformLike = _random(tf.random.uniform, ("low", 0.0), ("high", 1.0), like=True)
RandomNormal = _random(tf.random.normal, ("mean", 0.0), ("scale", 1.0), like=False)
RandomNormalLike = _random(tf.random.normal, ("mean", 0.0), ("scale", 1.0), like=True)


def Bernoulli(site: Site) -> Callable[..., Any]:
    """1 with the probability that the input gives, else 0."""
    native, seed = _random_dtype(site), _seed(site)
    return lambda x: tf.cast(tf.random.uniform(tf.shape(x), dtype=x.dtype, seed=seed) < x, native)


def Multinomial(site: Site) -> Callable[..., Any]:
    """Classes drawn with the given log-probabilities."""
    count, seed = site.attribute("sample_size", 1), _seed(site)
    native = tf_dtype(output_dtype(site))
    return lambda x: tf.random.categorical(x, count, native, seed)


def MelWeightMatrix(site: Site) -> Callable[..., Any]:
    """Triangles over the bins of a spectrum, equally spaced on the mel scale."""
    native = tf_dtype(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(site.attribute("output_datatype", 1))))

    def run(*numbers: Any) -> Any:
        bands, length = (tf.cast(tf.reshape(t, []), tf.int32) for t in numbers[:2])
        rate, *edges = (tf.cast(tf.reshape(t, []), tf.float64) for t in numbers[2:])
        low, high = (2595 / _LOG10 * tf.math.log(1 + f / 700) for f in edges)
        count = tf.cast(bands + 2, tf.float64)
        mel = low + tf.cast(tf.range(bands + 2), tf.float64) * (high - low) / count
        corner = tf.floor((tf.cast(length, tf.float64) + 1) * 700 * (tf.exp(mel / 2595 * _LOG10) - 1) / rate)
        left_edge, centre, right = corner[:-2], corner[1:-1], corner[2:]
        bins = tf.cast(tf.range(length // 2 + 1), tf.float64)[:, None]
        rising = (bins - left_edge) / tf.where(centre > left_edge, centre - left_edge, tf.ones_like(left_edge))
        falling = (right - bins) / tf.where(right > centre, right - centre, tf.ones_like(left_edge))
        inside = (bins >= left_edge) & (bins < right)
        weights = tf.where(inside, tf.where(bins <= centre, rising, falling), tf.zeros_like(rising))
        return tf.cast(tf.where(bins == centre, tf.ones_like(weights), weights), native)

    return run
