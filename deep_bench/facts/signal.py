"""Fourier transforms, at the nominal cost of a fast one, by which they are compared: their definition is no algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2, prod

import numpy as np

from deep_bench.facts.row import OperatorFacts, Shape, Unknown, Work

Values = Sequence[np.ndarray | None]


def _transforms(count: int, n: int, *, real: bool) -> Work:
    return Work(flops=round(count * n * log2(n) * (2.5 if real else 5))) if n > 1 else Work()


def _number(values: Values, index: int) -> int:
    value = values[index]
    if value is None:
        raise Unknown
    return int(np.reshape(value, ()))


def DFT(
    x: Shape,
    dft_length: Shape | None = None,
    axis: Shape | None = None,
    *,
    y: Shape,
    values: Values,
    inverse: int = 0,
    onesided: int = 0,
) -> Work:
    """``5 N log2 N`` for each transform of length N, half of it for a real signal, and a division in the inverse.

    Source:
        ONNX DFT, opset 20; Frigo and Johnson, The design and implementation of FFTW3, Proc. IEEE 93 (2005): the
        count of a radix-2 Cooley-Tukey transform.
    """
    along = -2 if axis is None else _number(values, 2)
    along %= len(x)
    if onesided and not inverse:
        n = x[along] if dft_length is None else _number(values, 1)
    else:
        n = y[along]
    real = bool(onesided) if inverse else x[-1] == 1
    count = prod(size for i, size in enumerate(x[:-1]) if i != along)
    return _transforms(count, n, real=real) + Work(flops=bool(inverse) * prod(y))


def STFT(
    signal: Shape,
    frame_step: Shape,
    window: Shape | None = None,
    frame_length: Shape | None = None,
    *,
    y: Shape,
    values: Values,
) -> Work:
    """A product with the window and a `DFT` for each frame. Source: ONNX STFT, opset 17."""
    if frame_length is not None:
        n = _number(values, 3)
    else:
        n = signal[1] if window is None else window[0]
    frames, parts = prod(y[:2]), signal[2] if len(signal) > 2 else 1
    return _transforms(frames, n, real=parts == 1) + Work(flops=(window is not None) * frames * n * parts)


OPERATORS: Mapping[str, OperatorFacts] = {
    "DFT": OperatorFacts(cost=DFT, settings=(1, 2), constants=("dft_length", "axis")),
    "STFT": OperatorFacts(cost=STFT, settings=(1, 3), constants=("frame_step", "frame_length")),
}
"""The rows, by operator."""
