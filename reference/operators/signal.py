"""Fourier transforms, by their defining sums. A complex number is a last axis of size 2; one of size 1 is real."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._dtypes import in_float32
from deep_bench.reference.operators._integers import integer

__all__ = ["DFT", "STFT"]


@in_float32
def DFT(x, dft_length=None, axis=None, *, inverse=0, onesided=0):
    """``y[k] = Σ_n x[n] exp(-2 π j k n / N)``; ``inverse``: ``x[n] = 1/N Σ_k y[k] exp(2 π j k n / N)``.

    The axis is cut or filled with zeros to ``N = dft_length``. With ``onesided`` the transform of a real signal has only the
    frequencies up to ``N / 2``, of which the inverse makes a real signal again.

    Source: ONNX DFT, opset 20.
    """
    axis = -2 if axis is None else integer(axis)
    signal = np.moveaxis(x, axis, -2)
    size, parts = signal.shape[-2:]
    if onesided and parts != (2 if inverse else 1):
        raise InvalidInput(
            f"DFT with onesided=1, inverse={inverse} of a {'real' if parts == 1 else 'complex'} signal",
            "a real signal, or with inverse=1 its complex half spectrum",
        )
    if dft_length is not None:
        n = integer(dft_length)
    else:
        n = 2 * (size - 1) if onesided and inverse else size
    half = n // 2 + 1
    signal = signal[..., : half if onesided and inverse else n, :]
    k = np.arange(half if onesided and not inverse else n)
    y = _transform(signal[..., 0], signal[..., 1] if parts == 2 else None, n, k, inverse=inverse, onesided=onesided)
    return np.moveaxis(y, -2, axis)


def _transform(real, imaginary, n, outputs, *, inverse, onesided):
    """The sums over the last axis, for each of ``outputs``; real and imaginary parts along a new last axis."""
    inputs = np.arange(real.shape[-1])
    angle = 2 * np.pi * ((inputs[:, np.newaxis] * outputs) % n) / n  # the remainder loses nothing, a large angle would
    if inverse and onesided:  # the other half of the spectrum is the conjugate of this one
        count = np.where((inputs == 0) | (2 * inputs == n), 1, 2)[:, np.newaxis]
        cosine, sine = ((count * f).astype(real.dtype) for f in (np.cos(angle), np.sin(angle)))
        return ((np.matmul(real, cosine) - np.matmul(imaginary, sine)) / n)[..., np.newaxis]
    cosine = np.cos(angle).astype(real.dtype)
    sine = (np.sin(angle) if inverse else -np.sin(angle)).astype(real.dtype)
    y_real, y_imaginary = np.matmul(real, cosine), np.matmul(real, sine)
    if imaginary is not None:
        y_real = y_real - np.matmul(imaginary, sine)
        y_imaginary = y_imaginary + np.matmul(imaginary, cosine)
    y = np.stack([y_real, y_imaginary], axis=-1)
    return y / n if inverse else y


@in_float32
def STFT(signal, frame_step, window=None, frame_length=None, *, onesided=1):
    """The `DFT` of ``window * signal[i * frame_step : i * frame_step + frame_length]`` for every frame ``i`` that fits.

    Source: ONNX STFT, opset 17.
    """
    step = integer(frame_step)
    if frame_length is not None:
        length = integer(frame_length)
    else:
        length = signal.shape[1] if window is None else window.shape[0]
    starts = np.arange(0, signal.shape[1] - length + 1, step)
    frames = signal[:, starts[:, np.newaxis] + np.arange(length)]
    if window is not None:
        frames = frames * window[:, np.newaxis]
    return DFT(frames, onesided=onesided)
