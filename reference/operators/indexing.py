"""Operators that read or write elements at computed positions."""

from __future__ import annotations

import numpy as np

from deep_bench.reference.operators._arguments import check_choice, integer, ints64

__all__ = [
    "Compress",
    "Gather",
    "GatherElements",
    "GatherND",
    "NonZero",
    "OneHot",
    "ReverseSequence",
    "ScatterElements",
    "ScatterND",
    "TensorScatter",
    "Trilu",
    "Unique",
]

_REDUCTIONS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def Gather(x, indices, *, axis=0):
    """``y[…, i, …] = x[…, indices[i], …]`` on ``axis``. Source: ONNX Gather, opset 13."""
    axis %= x.ndim
    y = np.take(x, np.ravel(indices), axis)  # a scalar index would give a string, no array of one
    return np.reshape(y, (*x.shape[:axis], *np.shape(indices), *x.shape[axis + 1 :]))


def GatherElements(x, indices, *, axis=0):
    """``y[i, j, k] = x[i, indices[i, j, k], k]`` (for ``axis`` 1). Source: ONNX GatherElements, opset 13."""
    return x[_along(indices, axis)]


def GatherND(x, indices, *, batch_dims=0):
    """``y[b, i] = x[b, *indices[b, i]]``, with ``batch_dims`` axes ``b``. Source: ONNX GatherND, opset 13."""
    batch = np.indices(indices.shape[:-1], sparse=True)[:batch_dims]
    return np.asanyarray(x[(*batch, *np.moveaxis(indices, -1, 0))], dtype=x.dtype)


def ScatterElements(x, indices, updates, *, axis=0, reduction="none"):
    """``y = x``; then ``y[i, indices[i, j, k], k] = updates[i, j, k]`` (for ``axis`` 1), or ``+=`` and so on.

    Source: ONNX ScatterElements, opset 18.
    """
    return _scattered(x, _along(indices, axis), updates, reduction)


def ScatterND(x, indices, updates, *, reduction="none"):
    """``y = x``; then ``y[*indices[i]] = updates[i]``, or ``+=`` and so on. Source: ONNX ScatterND, opset 18."""
    return _scattered(x, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


def _along(indices, axis):
    """The index ``[i, indices[i, j, k], k]`` (for ``axis`` 1)."""
    index = list(np.indices(indices.shape, sparse=True))
    index[axis] = indices
    return tuple(index)


def _scattered(x, index, updates, reduction):
    check_choice("Scatter", "reduction", reduction, ("none", *_REDUCTIONS))
    y = x.copy()
    if reduction == "none":
        y[index] = updates
    else:
        _REDUCTIONS[reduction].at(y, index, updates)
    return y


def TensorScatter(past, update, write_indices=None, *, axis=-2, mode="linear"):
    """The cache ``past`` with ``update`` written along ``axis``, from ``write_indices[b]`` on in sample ``b``.

    ``circular`` goes on at the beginning after the end.

    Source: ONNX TensorScatter, opset 24.
    """
    check_choice("TensorScatter", "mode", mode, ("linear", "circular"))
    index = list(np.indices(update.shape, sparse=True))
    if write_indices is not None:
        index[axis] = index[axis] + np.reshape(write_indices, (-1,) + (1,) * (past.ndim - 1))
    if mode == "circular":
        index[axis] = index[axis] % past.shape[axis]
    return _scattered(past, tuple(index), update, "none")


def NonZero(x):
    """The positions of the elements that are not zero, one a column. Source: ONNX NonZero, opset 13."""
    return ints64(np.argwhere(x).T)


def OneHot(indices, depth, values, *, axis=-1):
    """``values[1]`` where an element's class is its position on the new ``axis``, else ``values[0]``.

    Negative classes count from ``depth`` down; one outside ``[-depth, depth)`` is found nowhere.

    Source: ONNX OneHot, opset 28.
    """
    depth = integer(depth)
    classes = np.expand_dims(indices.astype(np.int64), axis)
    shape = [1] * classes.ndim
    shape[axis] = depth
    position = np.reshape(np.arange(depth), shape)
    return np.take(values, (classes == position) | (classes == position - depth))


def Compress(x, condition, *, axis=None):
    """The slices of ``x`` along ``axis``, or its elements, where ``condition``. Source: ONNX Compress, opset 28."""
    return np.take(x, np.flatnonzero(condition), axis)


def Unique(x, *, axis=None, sorted=1):  # noqa: A002 (ONNX's name)
    """The distinct elements, or slices along ``axis``, with where each is first, which each element is, and their counts.

    Source: ONNX Unique, opset 28.
    """
    # Slices are compared by their elements' ranks: integers, whatever the elements are.
    ranks = np.reshape(np.unique(x, return_inverse=True)[1], x.shape)
    _, first, inverse, counts = np.unique(ranks, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    order = np.arange(first.size) if sorted else np.argsort(first)
    first, counts, inverse = first[order], counts[order], np.argsort(order)[np.ravel(inverse)]
    return np.take(x, first, axis), ints64(first), ints64(inverse), ints64(counts)


def Trilu(x, k=None, *, upper=1):
    """The upper triangle of each matrix, where ``column - row >= k``, or the lower, where ``<= k``; elsewhere 0.

    Source: ONNX Trilu, opset 14.
    """
    rows, columns = x.shape[-2:]
    diagonal = np.arange(columns) - np.arange(rows)[:, np.newaxis]
    k = 0 if k is None else integer(k)
    return np.where(diagonal >= k if upper else diagonal <= k, x, np.zeros_like(x))


def ReverseSequence(x, sequence_lens, *, batch_axis=1, time_axis=0):
    """``x`` with the first ``sequence_lens[b]`` elements of sample ``b`` in reverse.

    Source: ONNX ReverseSequence, opset 28.
    """
    check_choice("ReverseSequence", "time_axis and batch_axis", (time_axis, batch_axis), ((0, 1), (1, 0)))
    time = np.arange(x.shape[time_axis])[:, np.newaxis]
    source = np.where(time < sequence_lens, sequence_lens - 1 - time, time)
    sample = np.arange(x.shape[batch_axis])
    return x[source, sample] if time_axis == 0 else x[sample[:, np.newaxis], source.T]
