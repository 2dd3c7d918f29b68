"""Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.operators._common import constant, dims_of, in_dtype, rank_of

__all__ = ["DFT", "STFT"]

_COMPLEX = {np.dtype("float32"): tf.complex64, np.dtype("float64"): tf.complex128}


def _complex(site: Site) -> tf.DType:
    if in_dtype(site) not in _COMPLEX:
        raise NotNative(f"TensorFlow has no Fourier transform of {in_dtype(site)}")
    return _COMPLEX[in_dtype(site)]


def _as_complex(x: Any, native: tf.DType) -> Any:
    """A tensor of real numbers, or of pairs of real and imaginary parts, as complex numbers."""
    return tf.cast(x[..., 0], native) if x.shape[-1] == 1 else tf.complex(x[..., 0], x[..., 1])


def _as_pairs(x: Any) -> Any:
    return tf.stack([tf.math.real(x), tf.math.imag(x)], -1)


def _fitted(x: Any, length: int) -> Any:
    """The last axis cut or filled with zeros."""
    have = x.shape[-1]
    if have is None:
        raise NotNative("the length of the signal is not known when the network is prepared")
    x = x[..., :length]
    return x if have >= length else tf.pad(x, [(0, 0)] * (x.shape.rank - 1) + [(0, length - have)])


def _swapped(x: Any, axis: int) -> Any:
    """The given axis and the last one exchanged."""
    order = list(range(x.shape.rank))
    order[axis], order[-1] = order[-1], order[axis]
    return x if axis == len(order) - 1 else tf.transpose(x, order)


def DFT(site: Site) -> Callable[..., Any]:
    """The discrete Fourier transform along an axis, its inverse, or the half of it that a real signal needs."""
    native, rank = _complex(site), rank_of(site)
    inverse, half = site.attribute("inverse", 0), site.attribute("onesided", 0)
    places = constant(site, 2, "the axis")
    axis = (-2 if places is None else int(places.reshape(()))) % rank
    wanted, channels = constant(site, 1, "the length"), dims_of(site)[-1]
    if channels is None or (inverse and half and wanted is None and dims_of(site)[axis] is None):
        raise NotNative("the shape of the signal is not known when the network is prepared")
    length = None if wanted is None else int(wanted.reshape(()))

    def run(x: Any, *_: Any) -> Any:
        values = _swapped(_as_complex(x, native), axis)
        if inverse and half:
            full = 2 * (values.shape[-1] - 1) if length is None else length
            values = _fitted(values, full // 2 + 1)
            signal = tf.signal.irfft(values, [full])
            return _swapped(signal, axis)[..., None]
        values = values if length is None else _fitted(values, length)
        spectrum = tf.signal.ifft(values) if inverse else tf.signal.fft(values)
        if half:
            spectrum = spectrum[..., : tf.shape(spectrum)[-1] // 2 + 1]
        return _as_pairs(_swapped(spectrum, axis))

    return run


def STFT(site: Site) -> Callable[..., Any]:
    """Fourier transforms of overlapping, windowed frames."""
    native = _complex(site)
    step, frame = constant(site, 1, "the step"), constant(site, 3, "the length of a frame")
    window_shape = dims_of(site, 2) if site.has(2) else (None,)
    length = int(frame.reshape(())) if frame is not None else window_shape[0]
    if step is None or length is None or dims_of(site)[-1] is None:
        raise NotNative("the length of a frame is not known when the network is prepared")
    half, stride = site.attribute("onesided", 1), int(step.reshape(()))

    def run(x: Any, _step: Any, window: Any = None, _length: Any = None) -> Any:
        frames = tf.signal.frame(_as_complex(x, native), length, stride, axis=1)
        spectrum = tf.signal.fft(frames if window is None else frames * tf.cast(window, native))
        return _as_pairs(spectrum[..., : length // 2 + 1] if half else spectrum)

    return run
