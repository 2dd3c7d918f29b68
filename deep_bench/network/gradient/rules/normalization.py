"""Normalizations: the gradient without its mean, and without its part along the normalized values."""

from __future__ import annotations

import math

import numpy as np
import onnx

from deep_bench.network.gradient.rules._arithmetic import wide

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

_EPSILON = 9.999999747378752e-06  # the float32 nearest to 1e-5, which is what the standard's default is


def _column(v, rank):
    """A vector of channels shaped to lie along axis 1 of a tensor of this rank; a scalar stays one."""
    return v if v.static_shape == () else v.reshape([-1] + [1] * max(rank - 2, 0))


def _count(at, x, axes):
    """How many elements are reduced over these axes: a number where it is known, else a scalar of the type of ``x``."""
    sizes = [x.dims[axis] for axis in axes]
    if all(isinstance(size, int) for size in sizes):
        return float(max(math.prod(sizes), 1))
    return at.op.ReduceProd(at.op.Gather(x.shape, list(axes)), keepdims=0).cast(x.dtype)


def _inverse(at, variance, epsilon):
    return at.op.Reciprocal(at.op.Sqrt(variance + epsilon))


def _centred(at, x, axes, epsilon):
    """``x`` without its mean over some axes, and ``1 / sqrt(variance + epsilon)``."""
    centred = x - x.mean(axes, keepdims=True)
    return centred, _inverse(at, (centred * centred).mean(axes, keepdims=True), epsilon)


def BatchNormalization(at, x, scale, b, mean, var, *, epsilon=_EPSILON, training_mode=0, **attributes):
    """``dx = s dy`` with ``s = scale / sqrt(var + epsilon)``; ``db = sum dy``, ``dscale = sum (dy (x - mean)) s / scale``.

    In training mode as `InstanceNormalization`, over the whole batch.

    Source:
        Ioffe and Szegedy, 2015, section 3.
    """
    if training_mode:
        return _batch_training(at, x, scale, b, mean, var, epsilon=epsilon, **attributes)
    rank, axes = x.rank, [axis for axis in range(x.rank) if axis != 1]
    dy, wide_x, factor, middle = wide(at.dy), wide(x), wide(scale), wide(mean).cast(wide(x))
    inverse = _inverse(at, wide(var), epsilon).cast(wide_x)
    factor = factor.cast(wide_x) * inverse
    summed = dy.sum(axes)
    along = (dy * (wide_x - _column(middle, rank))).sum(axes) * inverse
    return (
        (dy * _column(factor, rank)).cast(x),
        along.cast(scale),
        summed.cast(b),
        (-factor * summed).cast(mean),
        (along * factor * inverse * -0.5).cast(var),
    )


def _batch_training(at, x, scale, b, mean, var, *, epsilon, momentum=0.8999999761581421):
    """``dx = s (dy - mean of dy - x' mean of (dy x'))`` with the normalized ``x'``, and what the running statistics add."""
    axes = [axis for axis in range(x.rank) if axis != 1]
    centred, inverse = _centred(at, wide(x), axes, epsilon)
    dy, count = wide(at.dy), _count(at, wide(x), axes)
    summed, along = dy.sum(axes, keepdims=True), (dy * centred).sum(axes, keepdims=True)
    factor = _column(wide(scale).cast(centred), x.rank) * inverse
    slope, level = -factor * inverse * inverse * along / count, -factor * summed / count
    running_mean, running_var = at.gradient_or_none(1), at.gradient_or_none(2)
    if running_mean is not None:
        level = level + _column(wide(running_mean).cast(centred), x.rank) * (1 - momentum) / count
    if running_var is not None:
        slope = slope + _column(wide(running_var).cast(centred), x.rank) * (2 * (1 - momentum)) / count
    return (
        (dy * factor + centred * slope + level).cast(x),
        (along * inverse).reshape([-1]).cast(scale),
        summed.reshape([-1]).cast(b),
        None if running_mean is None else running_mean * momentum,
        None if running_var is None else running_var * momentum,
    )


def InstanceNormalization(at, x, scale, b, *, epsilon=_EPSILON):
    """``dx = scale / sqrt(var + epsilon) (dy - mean of dy - x' mean of (dy x'))`` with the normalized ``x'``."""
    axes = list(range(2, x.rank))
    centred, inverse = _centred(at, wide(x), axes, epsilon)
    dy, normalized, count = wide(at.dy), centred * inverse, _count(at, wide(x), axes)
    summed, along = dy.sum(axes, keepdims=True), (dy * normalized).sum(axes, keepdims=True)
    dx = (dy - summed / count - normalized * (along / count)) * (_column(wide(scale), x.rank) * inverse)
    return dx.cast(x), along.sum([0]).reshape([-1]).cast(scale), summed.sum([0]).reshape([-1]).cast(b)


def GroupNormalization(at, x, scale, b, *, num_groups, epsilon=_EPSILON, **attributes):
    """``dx = (g - mean of g - x' mean of (g x')) / sqrt(var + epsilon)`` with ``g = dy scale``, over each group.

    The means are those of the sums over each channel, which are the gradients of ``scale`` and ``b`` too.
    """

    def grouped(v):
        static = v.static_shape
        size = -1 if static is None else math.prod(static[1:]) // num_groups
        return v.reshape([0 if static is None else static[0], num_groups, size])

    centred, inverse = _centred(at, grouped(wide(x)), [2], epsilon)
    normalized, dy = centred * inverse, wide(at.dy)
    places, count = list(range(2, x.rank)), _count(at, normalized, [2])
    summed = dy.sum(places)
    along = (dy * normalized.reshape(x.shape)).sum(places)
    factor, falling = wide(scale), inverse / count
    level, slope = ((grouped(v * factor)).sum([2], keepdims=True) * falling for v in (summed, along))
    shared = (grouped(at.op.zeros_like(summed) + factor) * inverse).reshape(summed.shape)
    shared = shared.unsqueeze(*places) if places else shared
    dx = dy * shared - (normalized * slope + level).reshape(x.shape)
    return dx.cast(x), along.sum([0]).cast(scale), summed.sum([0]).cast(b)


def LayerNormalization(at, x, scale, b=None, *, axis=-1, epsilon=_EPSILON, stash_type=1):
    """``dx = (g - mean of g - x' mean of (g x')) / sqrt(var + epsilon)`` with ``g = dy scale`` and the normalized ``x'``.

    The further results ``mean`` and ``inverse`` have the derivatives ``1 / n`` and ``-inverse^2 x' / n``.

    Source:
        Ba et al., 2016, with equations 3 and 4 differentiated.
    """
    axes = list(range(axis % x.rank, x.rank))
    wide_x, dy = wide(x), wide(at.dy)
    if x.dtype == np.float64 or stash_type != onnx.TensorProto.FLOAT:
        centred, inverse = _centred(at, wide_x, axes, epsilon)
    else:
        centred, inverse = wide_x - at.output(1), at.output(2)
    normalized = centred * inverse
    product, factor = dy * normalized, wide(scale).cast(wide_x)
    mean, along = _weighted_mean(at, dy, factor, axes), _weighted_mean(at, product, factor, axes)
    dmean, dinverse, count = at.gradient_or_none(1), at.gradient_or_none(2), _count(at, wide_x, axes)
    if dmean is not None:
        mean = mean - wide(dmean).cast(wide_x) / (inverse * count)
    if dinverse is not None:
        along = along + wide(dinverse).cast(wide_x) * inverse / count
    dx = (dy * factor - mean - normalized * along) * inverse
    db = None if b is None else at.op.sum_to(dy, b).cast(b)
    return dx.cast(x), at.op.sum_to(product, scale).cast(scale), db


def _weighted_mean(at, v, factor, axes):
    """The mean of ``v * factor`` over the last axes; a product of matrices where it is over the last one only."""
    if len(axes) > 1 or v.rank < 2 or at.op.known_dims(factor.value) != v.dims[-1:]:
        return (v * factor).mean(axes, keepdims=True)
    return v @ (factor / _count(at, v, axes)).unsqueeze(1)


def RMSNormalization(at, x, scale, *, axis=-1, epsilon=_EPSILON, **attributes):
    """``dx = (g - x' mean of (g x')) / sqrt(mean of x^2 + epsilon)`` with ``g = dy scale`` and the normalized ``x'``."""
    axes = list(range(axis % x.rank, x.rank))
    wide_x = wide(x)
    dy, factor = wide(at.dy).cast(wide_x), wide(scale).cast(wide_x)
    inverse = _inverse(at, (wide_x * wide_x).mean(axes, keepdims=True), epsilon)
    normalized = wide_x * inverse
    product = dy * normalized
    dx = (dy * factor - normalized * _weighted_mean(at, product, factor, axes)) * inverse
    return dx.cast(x), at.op.sum_to(product, scale).cast(scale)


def MeanVarianceNormalization(at, x, *, axes=(0, 2, 3)):
    """``dx = (dy - mean of dy) / s - c mean of (dy c) / (s^2 d)``.

    Here ``c = x - mean``, ``d`` is its deviation and ``s = d + 1e-9``. Where all elements are equal, ``c`` is 0, and so is
    the second term.
    """
    over, dy, wide_x = list(axes), wide(at.dy), wide(x)
    centred = wide_x - wide_x.mean(over, keepdims=True)
    variance = (centred * centred).mean(over, keepdims=True)
    constant = variance.equals(0)
    deviation = at.op.Where(constant, 0, at.op.Sqrt(at.op.Where(constant, 1, variance)))
    shifted = deviation + 1e-9
    along = (dy * centred).mean(over, keepdims=True) / shifted / at.op.Where(constant, 1, deviation)
    return ((dy - dy.mean(over, keepdims=True) - centred * along) / shifted).cast(x)


def LpNormalization(at, x, *, axis=-1, p=2):
    """``dx = (dy - n' sum of (dy y)) / n`` with the norm ``n`` and its gradient ``n'``: ``y``, or the signs of ``x``.

    Where the norm is 0 the result is 0 too, and ``n`` counts as 1.
    """
    dy, wide_x = wide(at.dy), wide(x)
    norm = at.op.reduce("ReduceL1" if p == 1 else "ReduceL2", wide_x, [axis], keepdims=True)
    norm = at.op.Where(norm.equals(0), 1, norm)
    y = wide_x / norm
    direction = at.op.Sign(wide_x) if p == 1 else y
    return ((dy - direction * (dy * y).sum([axis], keepdims=True)) / norm).cast(x)


def LRN(at, x, *, size, alpha=9.999999747378752e-05, beta=0.75, bias=1.0):
    """``dx = dy d^-beta - 2 alpha beta / size x S'(dy y / d)``, ``d = bias + alpha / size S(x^2)``.

    ``S`` sums over the channels around each, a product with a matrix of ones and zeros, and ``S'`` is its transpose.
    """
    dy, wide_x, rank = wide(at.dy), wide(x), x.rank
    place = at.op.Range(0, at.op.Gather(x.shape, at.op.constant(1, np.int64), axis=0), at.op.constant(1, np.int64))
    apart = place.unsqueeze(0) - place.unsqueeze(1)
    band = ((apart >= -((size - 1) // 2)) & (apart <= size - 1 - (size - 1) // 2)).cast(wide_x)
    flat = [0, 0, -1]
    if x.static_shape is not None and 0 in x.static_shape:
        flat = [*x.static_shape[:2], math.prod(x.static_shape[2:])]

    def around(matrix, v):
        return (matrix @ v.reshape(flat)).reshape(x.shape) if rank != 3 else matrix @ v

    base = around(band, wide_x * wide_x) * (alpha / size) + bias
    power = base ** (-beta)
    shared = dy * wide_x * power / base
    return (dy * power - wide_x * around(band.transpose([1, 0]), shared) * (2 * alpha * beta / size)).cast(x)


def Dropout(at, x, ratio=None, training_mode=None, **attributes):
    """``dx = dy / (1 - ratio)`` where the mask let ``x`` pass, else 0, and ``dratio = sum of (dy y) / (1 - ratio)``.

    The mask counts as given, though it depends on the ratio: in steps. Outside training mode ``dx = dy``.
    """
    constant_mode = None if training_mode is None else training_mode.known
    if training_mode is None or (constant_mode is not None and not constant_mode):
        return at.dy
    dy = wide(at.dy)
    keep_rate = at.op.constant(0.5, dy.dtype) if ratio is None else 1 - ratio.cast(dy)
    if constant_mode is None:
        keep_rate = at.op.Where(training_mode, keep_rate, 1)
    dx = at.op.Where(at.output(1), dy / keep_rate, 0)
    if ratio is None or not at.wants(1):
        return dx.cast(x)
    along = (dx * wide(x)).sum() / keep_rate
    along = along if constant_mode is not None else at.op.Where(training_mode, along, 0)
    return dx.cast(x), along.reshape(ratio.shape).cast(ratio)
