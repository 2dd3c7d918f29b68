"""Normalization of activations, and dropout."""

from __future__ import annotations

import functools

import numpy as np

from deep_bench.reference.operators._arguments import column, dtype_of, in_float32, widened

__all__ = [
    "LRN",
    "BatchNormalization",
    "Dropout",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
]

EPSILON = 9.999999747378752e-06  # the float32 nearest to 1e-5, which is what the standard's default is


def BatchNormalization(x, scale, b, mean, var, *, epsilon=EPSILON, momentum=0.8999999761581421, training_mode=0):
    """``(x - mean) / sqrt(var + epsilon) * scale + b``, per channel, in the dtype of ``x``.

    In training mode the mean and (biased) variance are those of the batch, and two more results are the running ones,
    ``momentum * running + (1 - momentum) * batch``, in the dtypes of ``mean`` and ``var``.

    Source:
        ONNX BatchNormalization, opset 15; Ioffe and Szegedy, 2015, algorithm 1.
    """
    types = (x.dtype, mean.dtype, var.dtype)
    x, scale, b, mean, var = map(widened, (x, scale, b, mean, var))
    channel = functools.partial(column, rank=x.ndim)
    if not training_mode:
        y = (x - channel(mean)) * channel(scale / np.sqrt(var + epsilon)) + channel(b)
        return y.astype(types[0], copy=False)
    over = tuple(axis for axis in range(x.ndim) if axis != 1)
    batch_mean, batch_var = np.mean(x, axis=over), np.var(x, axis=over)
    y = (x - channel(batch_mean)) * channel(scale / np.sqrt(batch_var + epsilon)) + channel(b)
    results = y, momentum * mean + (1 - momentum) * batch_mean, momentum * var + (1 - momentum) * batch_var
    return tuple(result.astype(dtype, copy=False) for result, dtype in zip(results, types, strict=True))


@in_float32
def InstanceNormalization(x, scale, b, *, epsilon=EPSILON):
    """``(x - mean) / sqrt(var + epsilon) * scale + b``, over each channel of each instance.

    Source:
        ONNX InstanceNormalization, opset 22.
    """
    y = _standardized(x, tuple(range(2, x.ndim)), epsilon)
    return y * column(scale, x.ndim) + column(b, x.ndim)


def _standardized(x, axes, epsilon):
    centred = x - np.mean(x, axis=axes, keepdims=True)
    variance = np.mean(np.square(centred), axis=axes, keepdims=True)
    return centred / np.sqrt(variance + epsilon)


def LayerNormalization(x, scale, b=None, *, axis=-1, epsilon=EPSILON, stash_type=1, n_outputs=1):
    """``(x - mean) / sqrt(var + epsilon) * scale + b`` over the axes from ``axis`` on.

    The second and third result are the mean and ``1 / sqrt(var + epsilon)``, in the dtype that ``stash_type`` names.

    Source:
        ONNX LayerNormalization, opset 17; Ba et al., 2016.
    """
    wide, over = widened(x), tuple(range(axis % x.ndim, x.ndim))
    mean = np.mean(wide, axis=over, keepdims=True)
    centred = wide - mean
    inverse = 1 / np.sqrt(np.mean(np.square(centred), axis=over, keepdims=True) + epsilon)
    y = centred * inverse * widened(scale)
    y = (y if b is None else y + widened(b)).astype(x.dtype, copy=False)
    return y if n_outputs == 1 else (y, *(v.astype(dtype_of(stash_type), copy=False) for v in (mean, inverse)))


def RMSNormalization(x, scale, *, axis=-1, epsilon=EPSILON, stash_type=1):
    """``x / sqrt(mean of x^2 + epsilon) * scale`` over the axes from ``axis`` on, in the dtype of ``scale``.

    Source:
        ONNX RMSNormalization, opset 23; Zhang and Sennrich, 2019.
    """
    wide, over = widened(x), tuple(range(axis % x.ndim, x.ndim))
    normalized = wide / np.sqrt(np.mean(np.square(wide), axis=over, keepdims=True) + epsilon)
    return (normalized * widened(scale)).astype(scale.dtype, copy=False)


@in_float32
def GroupNormalization(x, scale, b, *, num_groups, epsilon=EPSILON, stash_type=1):
    """``(x - mean) / sqrt(var + epsilon)`` over each group of channels, then ``* scale + b`` per channel.

    Source:
        ONNX GroupNormalization, opset 21; Wu and He, 2018.
    """
    n, c, *spatial = x.shape
    grouped = x.reshape(n, num_groups, c // num_groups, *spatial)
    y = _standardized(grouped, tuple(range(2, grouped.ndim)), epsilon).reshape(x.shape)
    return y * column(scale, x.ndim) + column(b, x.ndim)


@in_float32
def MeanVarianceNormalization(x, *, axes=(0, 2, 3)):
    """``(x - mean) / (sqrt(var) + 1e-9)`` over ``axes``. Source: ONNX MeanVarianceNormalization, opset 13."""
    axes = tuple(axes)
    centred = x - np.mean(x, axis=axes, keepdims=True)
    return centred / (np.sqrt(np.mean(np.square(centred), axis=axes, keepdims=True)) + 1e-9)


@in_float32
def LpNormalization(x, *, axis=-1, p=2):
    """``x / sum of |x|`` or ``x / sqrt(sum of x^2)``, 0 where that is 0. Source: ONNX LpNormalization, opset 22."""
    if p == 1:
        norm = np.sum(np.absolute(x), axis=axis, keepdims=True)
    else:
        norm = np.sqrt(np.sum(np.square(x), axis=axis, keepdims=True))
    return x / np.where(norm == 0, 1, norm)


@in_float32
def LRN(x, *, size, alpha=9.999999747378752e-05, beta=0.75, bias=1.0):
    """``x / (bias + alpha / size * sum of x^2) ** beta``, summed over ``size`` channels around each.

    Source:
        ONNX LRN, opset 13; Krizhevsky et al., 2012, section 3.3.
    """
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = np.square(x)
    zeros = [np.zeros_like(x, shape=(x.shape[0], k, *x.shape[2:])) for k in (before, after)]
    around = np.concatenate((zeros[0], squares, zeros[1]), axis=1)
    total = functools.reduce(np.add, (around[:, i : i + x.shape[1]] for i in range(size)))
    return x / np.power(bias + alpha / size * total, beta)


def Dropout(x, ratio=None, training_mode=None, *, seed=None, n_outputs=1):
    """``x``, or in training mode ``mask * x / (1 - ratio)`` with a random mask; the mask is a second output.

    Source:
        ONNX Dropout, opset 22; Srivastava et al., 2014.
    """
    dropped = 0.5 if ratio is None else float(ratio)
    if training_mode is None or not training_mode or dropped == 0:
        mask = np.ones(x.shape, dtype=np.bool_)
        return x if n_outputs == 1 else (x, mask)
    # The generator with which the standard's own test cases were made.
    draws = np.random.RandomState(None if seed is None else int(seed)).uniform(size=x.shape)
    mask = draws >= dropped
    y = np.where(mask, x / (1 - dropped), 0).astype(x.dtype, copy=False)
    return y if n_outputs == 1 else (y, mask)
