"""Convolution in tiles with the fewest multiplications."""

from __future__ import annotations

from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators._windows import box, padded
from deep_bench.reference.operators.algorithms.convolution._conv import by_group, conv_by
from deep_bench.reference.operators.algorithms.convolution._cook_toom import cook_toom


def correlate(x, w, at, group, *, tile):
    """A convolution by minimal filtering, ``F(tile x tile, r x r)`` for windows of ``r x r``.

    Of each tile of ``tile + r - 1`` inputs along every axis come ``tile`` outputs:
    ``Y = A^T [sum over c of (G w G^T) * (B^T x B)] A``, in two dimensions. The matrices are those of `cook_toom`. For three
    taps, two outputs take 4 products instead of 6, and four take 6 instead of 12; the larger tile has larger numbers in
    its matrices, and loses more bits. Errors are relative to the largest elements of a tile: it is knowingly less accurate.

    Raises:
        Unsupported: Strides or dilations, which tiles cannot have; or windows that are too long for the points there are.

    Source:
        Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4; Barabasz et al., Error
        Analysis and Improving the Accuracy of Winograd Convolution for Deep Neural Networks, 2020, for the errors.
    """
    _check(at, tile)
    n, m = x.shape[0], w.shape[0]
    sizes = [1 if k == 1 else tile for k in at.kernel]  # along an axis with a single tap there is nothing to save
    counts = [-(-o // size) for o, size in zip(at.outputs, sizes, strict=True)]
    missing = [c * size - o for c, size, o in zip(counts, sizes, at.outputs, strict=True)]
    x, w = by_group(padded(x, [0] * len(missing), missing, 0), w, group)
    for axis, (size, taps) in enumerate(zip(sizes, at.kernel, strict=True)):
        _, g, bt = (matrix.astype(x.dtype) for matrix in cook_toom(size, taps))
        x = _tiles(x, 3 + axis, size, size + taps - 1, counts[axis])
        x = _along(bt, x, -1)
        w = _along(g, w, 3 + axis)
    y = _products(x, w, len(sizes))
    for axis, (size, taps) in enumerate(zip(sizes, at.kernel, strict=True)):
        y = _along(cook_toom(size, taps)[0].astype(x.dtype), y, axis - len(sizes))
    pairs = [a for axis in range(len(sizes)) for a in (3 + axis, 3 + len(sizes) + axis)]
    whole = [c * size for c, size in zip(counts, sizes, strict=True)]
    y = np.transpose(y, (0, 1, 2, *pairs)).reshape(n, m, *whole)
    return np.ascontiguousarray(y[box([0] * len(sizes), at.outputs)])


def _check(at, tile):
    axes = zip(at.strides, at.dilations, at.outputs, strict=True)
    if any(s > 1 and o > 1 for s, _, o in axes):
        raise Unsupported(
            f"Conv by Winograd with strides {list(at.strides)}", "strides of 1: a tile's windows lie side by side"
        )
    if any(d > 1 and k > 1 for d, k in zip(at.dilations, at.kernel, strict=True)):
        raise Unsupported(
            f"Conv by Winograd with dilations {list(at.dilations)}", "dilations of 1: its windows have no gaps"
        )
    longest = max(at.kernel, default=1)
    if tile + longest - 1 > 8:
        raise Unsupported(f"Conv by Winograd, F({tile}, {longest})", f"windows of at most {9 - tile} elements along an axis")


def _tiles(x: Any, axis: int, step: int, length: int, count: int) -> Any:
    """Overlapping tiles along an axis: their elements become the last axis, their number takes the place of the axis."""
    starts = np.arange(count)[:, np.newaxis] * step + np.arange(length)
    return np.moveaxis(np.take(x, starts, axis=axis), axis + 1, -1)


def _along(matrix: Any, x: Any, axis: int) -> Any:
    """``matrix`` times the vectors that lie along an axis."""
    return np.moveaxis(np.matmul(np.moveaxis(x, axis, -1), matrix.T), -1, axis)


def _products(x: Any, w: Any, rank: int) -> Any:
    """The sum over channels of ``x (N, group, C, *tiles, *points)`` times ``w (group, M, C, *points)``."""
    n, group, channels = x.shape[:3]
    tiles, points = x.shape[3 : 3 + rank], x.shape[3 + rank :]
    count = int(np.prod(points))
    columns = np.moveaxis(x.reshape(n, group, channels, int(np.prod(tiles)), count), -1, 2)
    weights = np.moveaxis(w.reshape(*w.shape[:3], count), -1, 1)
    y = np.moveaxis(np.matmul(weights, columns), 2, -1)
    return y.reshape(n, group, w.shape[1], *tiles, *points)


two = conv_by(correlate, tile=2)
"""``F(2x2, 3x3)``, and its like in other dimensions."""

four = conv_by(correlate, tile=4)
"""``F(4x4, 3x3)``, and its like in other dimensions."""
