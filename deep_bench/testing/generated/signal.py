"""Fourier transforms: any axis, cut and filled signals, one side and both, real and complex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

Generator = Callable[[Draw], GeneratedProblem]


def DFT(draw: Draw) -> GeneratedProblem:
    """A half spectrum has a real first and, if even, last value, and is neither cut nor filled: all else is left open."""
    inverse, onesided = draw.pick((None, 0, 1)), draw.pick((None, 0, 1))
    real = not inverse if onesided else draw.boolean()
    dtype = draw.pick(dtypes("DFT"))
    shape = [draw.integer(1, 7) for _ in range(draw.integer(1, 3))]
    axis = draw.pick((None, draw.integer(-len(shape) - 1, -2), draw.integer(0, len(shape) - 1)))
    place = len(shape) - 1 if axis is None else axis + len(shape) + 1 if axis < 0 else axis
    length = draw.maybe(draw.integer(1, 12))
    if onesided and inverse:
        shape[place] = max(shape[place], 2)
        length = draw.pick((None, 2 * shape[place] - 2, 2 * shape[place] - 1))
    x = draw.array((*shape, 1 if real else 2), dtype, draw.pick(("normal", "ties"))).copy()
    if onesided and inverse:
        # without imaginary parts at 0 and at half the sampling rate
        spectrum = np.moveaxis(x, place, 0)
        n = length or 2 * (shape[place] - 1)
        spectrum[0, ..., 1] = 0
        if n % 2 == 0 and n // 2 < len(spectrum):
            spectrum[n // 2, ..., 1] = 0
    kind: Any = draw.pick((np.int64, np.int32))
    inputs = [x, None if length is None else np.array(length, kind), None if axis is None else np.array(axis, np.int64)]
    return GeneratedProblem("DFT", inputs, {"inverse": inverse, "onesided": onesided})


def STFT(draw: Draw) -> GeneratedProblem:
    """Frames that reach the end and that do not; with a window, a frame length, both or neither."""
    dtype = draw.pick(dtypes("STFT"))
    size, length, step = draw.integer(8, 24), draw.integer(1, 8), draw.integer(1, 5)
    form = draw.pick(("both", "window", "length", "neither"))
    onesided = draw.pick((None, 0, 1))
    parts = 1 if onesided != 0 else draw.integer(1, 2)
    signal = draw.array((draw.integer(1, 3), size, parts), dtype, draw.pick(("normal", "ties")))
    kind: Any = draw.pick((np.int64, np.int32))
    window = draw.array((length,), dtype, "normal") if form in ("both", "window") else None
    frame = np.array(length, kind) if form in ("both", "length") else None
    return GeneratedProblem("STFT", [signal, np.array(step, kind), window, frame], {"onesided": onesided})


GENERATORS: dict[str, Generator] = {"DFT": DFT, "STFT": STFT}
