"""Reductions along axes, running sums and products, and the search for extremes."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import in_float32, reduced_axes
from deep_bench.tensor import is_float, is_integer

__all__ = [
    "ArgMax",
    "ArgMin",
    "CumProd",
    "CumSum",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "TopK",
]


def _sum(x, axes, keepdims):
    return np.sum(x, axis=axes, keepdims=bool(keepdims), dtype=x.dtype)


@in_float32
def ReduceSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``sum of x``. Source: ONNX ReduceSum, opset 13."""
    return _sum(x, reduced_axes(x, axes, noop_with_empty_axes), keepdims)


@in_float32
def ReduceMean(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``sum of x / n``; integers are truncated. Source: ONNX ReduceMean, opset 18."""
    mean = np.mean(x, axis=reduced_axes(x, axes, noop_with_empty_axes), keepdims=bool(keepdims))
    return mean.astype(x.dtype, copy=False)


@in_float32
def ReduceProd(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``product of x``. Source: ONNX ReduceProd, opset 18."""
    return np.prod(x, axis=reduced_axes(x, axes, noop_with_empty_axes), keepdims=bool(keepdims), dtype=x.dtype)


@in_float32
def ReduceL1(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``sum of |x|``. Source: ONNX ReduceL1, opset 18."""
    return _sum(np.absolute(x), reduced_axes(x, axes, noop_with_empty_axes), keepdims)


@in_float32
def ReduceL2(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``sqrt(sum of x^2)``. Source: ONNX ReduceL2, opset 18."""
    return np.sqrt(_sum(np.square(x), reduced_axes(x, axes, noop_with_empty_axes), keepdims)).astype(x.dtype, copy=False)


@in_float32
def ReduceSumSquare(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``sum of x^2``. Source: ONNX ReduceSumSquare, opset 18."""
    return _sum(np.square(x), reduced_axes(x, axes, noop_with_empty_axes), keepdims)


@in_float32
def ReduceLogSum(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``log(sum of x)``. Source: ONNX ReduceLogSum, opset 28."""
    return np.log(_sum(x, reduced_axes(x, axes, noop_with_empty_axes), keepdims)).astype(x.dtype, copy=False)


@in_float32
def ReduceLogSumExp(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """``log(sum of exp(x))``, shifted by the maximum so that nothing overflows. Source: ONNX ReduceLogSumExp, opset 28."""
    over = reduced_axes(x, axes, noop_with_empty_axes)
    largest = np.max(x, axis=over, keepdims=True, initial=-np.inf) if is_float(x.dtype) else np.zeros((1,) * x.ndim)
    shift = np.where(np.isfinite(largest), largest, 0)
    y = np.log(np.sum(np.exp(x - shift), axis=over, keepdims=True)) + shift
    return (y if keepdims else np.squeeze(y, axis=over)).astype(x.dtype, copy=False)


def ReduceMax(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """The largest element; of none, the lowest value there is. Source: ONNX ReduceMax, opset 20."""
    over = reduced_axes(x, axes, noop_with_empty_axes)
    return np.max(x, axis=over, keepdims=bool(keepdims), initial=_extremes(x.dtype)[0])


def ReduceMin(x, axes=None, *, keepdims=1, noop_with_empty_axes=0):
    """The smallest element; of none, the highest value there is. Source: ONNX ReduceMin, opset 20."""
    over = reduced_axes(x, axes, noop_with_empty_axes)
    return np.min(x, axis=over, keepdims=bool(keepdims), initial=_extremes(x.dtype)[1])


def _extremes(dtype):
    if is_float(dtype):
        return -np.inf, np.inf
    if is_integer(dtype):
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    return False, True


def ArgMax(x, *, axis=0, keepdims=1, select_last_index=0):
    """The index of the largest element; of equal ones, the first or the last. Source: ONNX ArgMax, opset 13."""
    return _index_of_extreme(np.argmax, x, axis, keepdims, select_last_index)


def ArgMin(x, *, axis=0, keepdims=1, select_last_index=0):
    """The index of the smallest element; of equal ones, the first or the last. Source: ONNX ArgMin, opset 13."""
    return _index_of_extreme(np.argmin, x, axis, keepdims, select_last_index)


def _index_of_extreme(search, x, axis, keepdims, last):
    if last:
        return x.shape[axis] - 1 - search(np.flip(x, axis), axis=axis, keepdims=bool(keepdims))
    return search(x, axis=axis, keepdims=bool(keepdims))


def TopK(x, k, *, axis=-1, largest=1, sorted=1):  # noqa: A002
    """The ``k`` largest (or smallest) elements along ``axis``, in order, and their indices; ties go to the lower index.

    Source:
        ONNX TopK, opset 24.
    """
    count = int(k.reshape(-1)[0])
    if largest:
        # Reversed twice: equal elements stay in the order of their indices.
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
    else:
        order = np.argsort(x, axis=axis, stable=True)
    indices = np.take(order, np.arange(count), axis=axis)
    return np.take_along_axis(x, indices, axis=axis), indices


@in_float32
def CumSum(x, axis, *, exclusive=0, reverse=0):
    """``y[i] = x[0] + … + x[i]``; without ``x[i]`` if exclusive, from the end if reverse. Source: ONNX CumSum, opset 14."""
    return _running(np.cumsum, 0, x, axis, exclusive, reverse)


@in_float32
def CumProd(x, axis, *, exclusive=0, reverse=0):
    """``y[i] = x[0] * … * x[i]``; without ``x[i]`` if exclusive, from the end if reverse. Source: ONNX CumProd, opset 26."""
    return _running(np.cumprod, 1, x, axis, exclusive, reverse)


def _running(accumulate, neutral, x, axis, exclusive, reverse):
    axis = int(axis.reshape(()))
    y = np.flip(x, axis) if reverse else x
    if exclusive and y.shape[axis]:
        first = np.full_like(y, neutral, shape=[1 if a == axis % y.ndim else n for a, n in enumerate(y.shape)])
        y = np.concatenate((first, np.take(y, np.arange(y.shape[axis] - 1), axis=axis)), axis=axis)
    y = accumulate(y, axis=axis, dtype=x.dtype)
    return np.flip(y, axis) if reverse else y
