"""Operators that make a tensor from little: constants, ranges, random numbers, windows."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators._arguments import dtype_of, integer, integers, is_narrow
from deep_bench.tensor import is_float

__all__ = [
    "Bernoulli",
    "BlackmanWindow",
    "Constant",
    "ConstantOfShape",
    "EyeLike",
    "HammingWindow",
    "HannWindow",
    "MelWeightMatrix",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Range",
]

_CONSTANTS = {
    "value": None,
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": object,
    "value_strings": object,
}


def Constant(**value):
    """The tensor in ``value``, or the numbers or strings in ``value_float``, ``value_ints`` and so on.

    Source: ONNX Constant, opset 25.
    """
    if len(value) != 1:
        raise InvalidInput(f"Constant with {sorted(value) or 'no value'}", f"one of {', '.join(_CONSTANTS)}")
    ((kind, content),) = value.items()
    if kind not in _CONSTANTS:
        raise Unsupported(f"Constant with {kind}", f"one of {', '.join(_CONSTANTS)}", "store the tensor densely")
    return np.asanyarray(content, dtype=_CONSTANTS[kind])


def ConstantOfShape(shape, *, value=None):
    """``value``'s only element everywhere, 0 in float32 by default. Source: ONNX ConstantOfShape, opset 25."""
    value = np.zeros(1, np.float32) if value is None else np.asanyarray(value)
    return np.full_like(value, np.reshape(value, ()), shape=integers(shape))


def Range(start, limit, delta, *, stash_type=1):
    """``start + i * delta`` for ``i`` from 0 to before ``ceil((limit - start) / delta)``.

    That quotient is rounded to float32 unless it is of integers. Formats narrower than float32 are computed in
    ``stash_type``.

    Source: ONNX Range, opset 27.
    """
    start, limit, delta = (np.reshape(x, ()) for x in (start, limit, delta))
    dtype = start.dtype
    if is_narrow(start):
        start, limit, delta = (x.astype(dtype_of(stash_type)) for x in (start, limit, delta))
    if is_float(dtype):
        count = int(np.ceil(np.float32((float(limit) - float(start)) / float(delta))))  # as in the standard's function body
    else:
        count = -((int(start) - int(limit)) // int(delta))
    return (start + np.arange(max(count, 0)).astype(start.dtype) * delta).astype(dtype)


def EyeLike(x, *, dtype=None, k=0):
    """1 where ``column - row == k``, else 0, in ``x``'s shape. Source: ONNX EyeLike, opset 22."""
    rows, columns = x.shape
    diagonal = np.arange(columns) - np.arange(rows)[:, np.newaxis]
    return (diagonal == k).astype(x.dtype if dtype is None else dtype_of(dtype))


def _generator(seed: float | None) -> np.random.Generator:
    """Random numbers that depend on every bit of the seed; on nothing that can be repeated without one."""
    return np.random.default_rng(None if seed is None else int(np.float64(seed).view(np.uint64)))


def RandomNormal(*, shape, dtype=1, mean=0.0, scale=1.0, seed=None):
    """Samples of the normal distribution. Source: ONNX RandomNormal, opset 22."""
    return _generator(seed).normal(mean, scale, shape).astype(dtype_of(dtype))


def RandomNormalLike(x, *, dtype=None, mean=0.0, scale=1.0, seed=None):
    """Samples of the normal distribution, in ``x``'s shape. Source: ONNX RandomNormalLike, opset 22."""
    return _generator(seed).normal(mean, scale, x.shape).astype(x.dtype if dtype is None else dtype_of(dtype))


def RandomUniform(*, shape, dtype=1, low=0.0, high=1.0, seed=None):
    """Samples of the uniform distribution in ``[low, high)``. Source: ONNX RandomUniform, opset 22."""
    return _generator(seed).uniform(low, high, shape).astype(dtype_of(dtype))


def RandomUniformLike(x, *, dtype=None, low=0.0, high=1.0, seed=None):
    """Samples of the uniform distribution in ``[low, high)``, in ``x``'s shape. Source: ONNX RandomUniformLike, opset 22."""
    return _generator(seed).uniform(low, high, x.shape).astype(x.dtype if dtype is None else dtype_of(dtype))


def Bernoulli(x, *, dtype=None, seed=None):
    """1 with probability ``x``, else 0. Source: ONNX Bernoulli, opset 22."""
    return (_generator(seed).random(x.shape) < x).astype(x.dtype if dtype is None else dtype_of(dtype))


def Multinomial(x, *, dtype=6, sample_size=1, seed=None):
    """``sample_size`` classes for each row of unnormalised log-probabilities.

    The largest of ``x`` plus Gumbel noise is distributed as ``softmax(x)`` (Maddison et al., *A\\* Sampling*, 2014).

    Source: ONNX Multinomial, opset 22.
    """
    batch, classes = x.shape
    noise = _generator(seed).gumbel(size=(batch, sample_size, classes))
    return np.argmax(x[:, np.newaxis, :] + noise, axis=-1).astype(dtype_of(dtype))


def _cosines(size, periodic, coefficients, code):
    """``Σ_j coefficients[j] * cos(2 π j i / n)`` with ``n = size``, or ``size - 1`` if the window is symmetric."""
    size = integer(size)
    angle = 2 * np.pi * np.arange(size) / max(size if periodic else size - 1, 1)
    return sum(c * np.cos(j * angle) for j, c in enumerate(coefficients)).astype(dtype_of(code))


def HannWindow(size, *, output_datatype=1, periodic=1):
    """``0.5 - 0.5 cos(2 π i / n)``. Source: ONNX HannWindow, opset 17."""
    return _cosines(size, periodic, (0.5, -0.5), output_datatype)


def HammingWindow(size, *, output_datatype=1, periodic=1):
    """``25/46 - 21/46 cos(2 π i / n)``. Source: ONNX HammingWindow, opset 17."""
    return _cosines(size, periodic, (25 / 46, -21 / 46), output_datatype)


def BlackmanWindow(size, *, output_datatype=1, periodic=1):
    """``0.42 - 0.5 cos(2 π i / n) + 0.08 cos(4 π i / n)``. Source: ONNX BlackmanWindow, opset 17."""
    return _cosines(size, periodic, (0.42, -0.5, 0.08), output_datatype)


def MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz, *, output_datatype=1):
    """Triangles of height 1 over the bins of a spectrum, equally spaced in ``mel(f) = 2595 log10(1 + f / 700)``.

    Corners are rounded down to bins. The standard divides the mel range by the number of corners, ``num_mel_bins + 2``.

    Source: ONNX MelWeightMatrix, opset 17.
    """
    bands, length = integer(num_mel_bins), integer(dft_length)
    low, high = (
        2595 * np.log10(1 + np.float64(np.asanyarray(f).item()) / 700) for f in (lower_edge_hertz, upper_edge_hertz)
    )
    mel = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    corner = np.floor((length + 1) * 700 * (10 ** (mel / 2595) - 1) / integer(sample_rate))
    left_edge, centre, right = corner[:-2], corner[1:-1], corner[2:]
    bins = np.arange(length // 2 + 1)[:, np.newaxis]
    rising = (bins - left_edge) / np.where(centre > left_edge, centre - left_edge, 1)
    falling = (right - bins) / np.where(right > centre, right - centre, 1)
    inside = (bins >= left_edge) & (bins < right)
    triangle = np.where(bins <= centre, rising, falling)
    weights = np.where(bins == centre, 1.0, np.where(inside, triangle, 0.0))
    return weights.astype(dtype_of(output_datatype))
