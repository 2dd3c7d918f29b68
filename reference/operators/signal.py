"""Fourier transforms, by their defining sums. A complex number is a last axis of size 2; one of size 1 is real."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import in_float32, integer

__all__ = ["DFT", "STFT"]

_BLOCK = 2**22
"""Terms to hold in memory at a time: a signal of length n has n^2 of them."""


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
    blocks = np.split(k, range(0, len(k), max(_BLOCK // max(n, 1), 1))[1:])
    parts = (signal[..., 0], signal[..., 1] if parts == 2 else None)
    y = np.concatenate([_sums(*parts, n, block, inverse=inverse, onesided=onesided) for block in blocks], axis=-2)
    return np.moveaxis(y, -2, axis)


def _sums(real, imaginary, n, k, *, inverse, onesided):
    """The sums over the last axis for outputs ``k``; real and imaginary parts along a new last axis."""
    i = np.arange(real.shape[-1])
    turn = 2 * np.pi * np.arange(n) / n
    phase = (i[:, np.newaxis] * k) % n
    cosine, sine = np.cos(turn)[phase], np.sin(turn)[phase]
    if inverse and onesided:  # the other half of the spectrum is the conjugate of this one
        count = np.where((i == 0) | (2 * i == n), 1, 2)[:, np.newaxis]
        cosine, sine = (count * cosine).astype(real.dtype), (count * sine).astype(real.dtype)
        return ((np.matmul(real, cosine) - np.matmul(imaginary, sine)) / n)[..., np.newaxis]
    cosine, sine = cosine.astype(real.dtype), (sine if inverse else -sine).astype(real.dtype)
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
