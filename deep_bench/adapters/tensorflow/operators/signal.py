"""Fourier transforms, computed in double precision: what rounding leaves where the result is zero, then stays below it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.operators._site import tf_dtype

__all__ = ["DFT", "STFT"]


def _as_complex(x: Any) -> Any:
    """A tensor of real numbers, or of pairs of real and imaginary parts, as complex numbers."""
    x = tf.cast(x, tf.float64)
    return tf.cast(x[..., 0], tf.complex128) if x.shape[-1] == 1 else tf.complex(x[..., 0], x[..., 1])


def _as_pairs(x: Any, native: tf.DType) -> Any:
    return tf.cast(tf.stack([tf.math.real(x), tf.math.imag(x)], -1), native)


def _scalar(site: Site, index: int, value: Any) -> Any:
    """A number that is given as a tensor: as an ``int`` if it is known, else as a tensor without axes."""
    constant = site.constant(index)
    return int(constant.reshape(())) if constant is not None else tf.cast(tf.reshape(value, []), tf.int32)


def _fitted(x: Any, length: Any) -> Any:
    """The last axis cut or filled with zeros."""
    x = x[..., :length]
    missing = length - tf.shape(x)[-1]
    return tf.pad(x, [(0, 0)] * (x.shape.rank - 1) + [(0, missing)])


def _swapped(x: Any, axis: Any) -> Any:
    """The given axis and the last one exchanged."""
    last = x.shape.rank - 1
    if isinstance(axis, int):
        order = list(range(last + 1))
        order[axis], order[-1] = last, axis
        return x if axis == last else tf.transpose(x, order)
    places = tf.range(last + 1)
    return tf.transpose(x, tf.where(places == axis, last, tf.where(places == last, axis, places)))


def DFT(site: Site) -> Callable[..., Any]:
    """The discrete Fourier transform along an axis, its inverse, or the half of it that a real signal needs."""
    native, rank = tf_dtype(dtype_of(site)), rank_of(site)
    inverse, half = site.attribute("inverse", 0), site.attribute("onesided", 0)
    if dims_of(site)[-1] not in (1, 2):
        raise NotNative("whether the signal is complex is not known when the network is prepared")

    def run(x: Any, length: Any = None, axis: Any = None) -> Any:
        along = -2 if axis is None else _scalar(site, 2, axis)
        along = along % rank if isinstance(along, int) else tf.math.floormod(along, rank)
        requested = None if length is None else _scalar(site, 1, length)
        values = _swapped(_as_complex(x), along)
        if inverse and half:
            full = 2 * (tf.shape(values)[-1] - 1) if requested is None else requested
            signal = tf.signal.irfft(_fitted(values, full // 2 + 1), [full])
            signal.set_shape([None] * (rank - 1))
            return tf.cast(_swapped(signal, along)[..., None], native)
        values = values if requested is None else _fitted(values, requested)
        spectrum = tf.signal.ifft(values) if inverse else tf.signal.fft(values)
        if half:
            spectrum = spectrum[..., : tf.shape(spectrum)[-1] // 2 + 1]
        return _as_pairs(_swapped(spectrum, along), native)

    return run


def STFT(site: Site) -> Callable[..., Any]:
    """Fourier transforms of overlapping, windowed frames."""
    native, half = tf_dtype(dtype_of(site)), site.attribute("onesided", 1)
    if dims_of(site)[-1] not in (1, 2):
        raise NotNative("whether the signal is complex is not known when the network is prepared")

    def run(x: Any, step: Any, window: Any = None, length: Any = None) -> Any:
        values = _as_complex(x)
        if length is not None:
            size = _scalar(site, 3, length)
        else:
            size = tf.shape(values)[1] if window is None else tf.shape(window)[0]
        starts = tf.range(0, tf.maximum(tf.shape(values)[1] - size + 1, 0), _scalar(site, 1, step))
        frames = tf.gather(values, starts[:, None] + tf.range(size), axis=1)
        spectrum = tf.signal.fft(frames if window is None else frames * tf.cast(window, tf.complex128))
        return _as_pairs(spectrum[..., : size // 2 + 1] if half else spectrum, native)

    return run
