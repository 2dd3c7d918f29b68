"""Samples of a tensor between its elements: weighted sums of the elements around positions, and their gradients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from deep_bench.network.gradient.rules._windows import dim, product, shaped, size, zeros
from deep_bench.network.gradient.symbol import Symbol

CUBIC = -0.75
"""The coefficient of cubic convolution that ``GridSample`` has."""


@dataclass(frozen=True, eq=False, slots=True)
class Taps:
    """Along one axis, the elements around each of ``(B, Q)`` positions, along a new last axis.

    Args:
        index: Which ones.
        weights: Their weights.
        slopes: The derivatives of the weights by the position; ``None`` where they are 0.
    """

    index: Symbol
    weights: Symbol
    slopes: Symbol | None


def taps_around(op, position, extent, mode, padding, align_corners):
    """The elements around positions along an axis of ``extent`` elements, as ``GridSample`` takes them.

    Source:
        ONNX GridSample, opset 22; Keys, *Cubic convolution interpolation for digital image processing*, 1981, equation 4.
    """
    wide = extent.cast(position.dtype)
    if mode == "nearest":
        inner = _reflected(op, position, wide, align_corners) if padding == "reflection" else position
        indices = op.Round(inner).unsqueeze(-1)
        weights, slopes = op.constant(1, position.dtype).expand(indices.shape), None
    else:
        low = op.Floor(position).unsqueeze(-1)
        part = position.unsqueeze(-1) - low
        offsets = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        indices = low + np.array(offsets, position.dtype)
        pairs = _linear(op, part) if mode == "linear" else _cubic(part)
        weights, slopes = (op.Concat(*side, axis=-1) for side in zip(*pairs, strict=True))
    if padding == "reflection":
        indices = op.Round(_reflected(op, indices, wide, align_corners))
    inside = op.Max(op.Min(indices, wide - 1), 0)
    if padding == "zeros":
        valid = indices.equals(inside)
        weights = op.Where(valid, weights, 0)
        slopes = None if slopes is None else op.Where(valid, slopes, 0)
    return Taps(inside.cast(np.int64), weights, slopes)


def _linear(op, part):
    unit = op.constant(1, part.dtype).expand(part.shape)
    return (1 - part, -unit), (part, unit)


def _cubic(part):
    a = CUBIC

    def near(t):
        return ((a + 2) * t - (a + 3)) * t * t + 1, (3 * (a + 2) * t - 2 * (a + 3)) * t

    def far(t):
        return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a, (3 * a * t - 10 * a) * t + 8 * a

    (w0, s0), (w1, s1), (w2, s2), (w3, s3) = far(1 + part), near(part), near(1 - part), far(2 - part)
    return (w0, s0), (w1, s1), (w2, -s2), (w3, -s3)


def _reflected(op, position, extent, align_corners):
    """Positions mirrored at the centres or the outer edges of the outermost elements until they are inside."""
    edge = 0 if align_corners else 0.5
    length = extent - (1 - 2 * edge)
    period = op.Max(length + length, 1)
    moved = position + edge
    distance = moved - op.Floor(moved / period) * period
    return op.Min(distance, length + length - distance) - edge


class Sampling:
    """``y[b, q, c] = Σ weights * x[b, c, index]`` over the elements around each position, one axis after the other.

    Args:
        op: The tape.
        x: ``(B, C, D1, …)``.
        taps: For each of the axes ``D1, …``.
    """

    def __init__(self, op, x, taps):
        self.op, self.x, self.taps = op, x, taps
        self.rank = len(taps)
        self.area = product(op, *(dim(x, axis) for axis in range(2, 2 + self.rank)))
        index = self._spread(0, taps[0].index)
        for axis in range(1, self.rank):
            index = index * size(x, 2 + axis) + self._spread(axis, taps[axis].index)
        self.index = index  # (B, Q, K, …, K)

    def _spread(self, axis, values):
        """``(B, Q, K)`` with axes of one element for the other taps."""
        other_axes = [2 + a for a in range(self.rank) if a != axis]
        return values.unsqueeze(*other_axes) if other_axes else values

    def _weights(self, by=None):
        """The products of the weights; with the slopes along axis ``by`` instead of its weights."""
        parts = [t.slopes if axis == by else t.weights for axis, t in enumerate(self.taps)]
        return math.prod((self._spread(a, p) for a, p in list(enumerate(parts))[1:]), start=self._spread(0, parts[0]))

    def _values(self):
        """The elements themselves: ``(B, Q, K, …, K, C)``."""
        x = shaped(self.x, dim(self.x, 0), dim(self.x, 1), self.area)
        return self.op.GatherND(x.transpose([0, 2, 1]), self.index.unsqueeze(-1), batch_dims=1)

    def forward(self):
        """The samples: ``(B, Q, C)``."""
        return (self._values() * self._weights().unsqueeze(-1)).sum(list(range(2, 2 + self.rank)))

    def to_elements(self, dy):
        """The gradient of ``x`` by that of the samples."""
        op, x = self.op, self.x
        updates = self._weights().unsqueeze(-1) * dy.unsqueeze(*range(2, 2 + self.rank))
        samples = op.Range(0, size(x, 0), np.int64(1)).reshape([-1, *(1,) * (1 + self.rank)])
        index = self.index + samples * self.area
        updates = shaped(updates, product(op, op.Shape(index)), dim(x, 1))
        empty = zeros(op, dy.dtype, product(op, dim(x, 0), self.area), dim(x, 1))
        flat = op.ScatterND(empty, index.reshape([-1, 1]), updates, reduction="add")
        return shaped(flat, dim(x, 0), self.area, dim(x, 1)).transpose([0, 2, 1]).reshape(x.shape)

    def to_positions(self, dy):
        """The gradient of the positions along each axis by that of the samples: ``(B, Q)`` each."""
        inner = list(range(2, 2 + self.rank))
        products = (self._values() * dy.unsqueeze(*inner)).sum([2 + self.rank])
        return [(products * self._weights(axis)).sum(inner) for axis in range(self.rank)]
