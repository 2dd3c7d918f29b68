"""Windows of convolutions and pools on a tape, and samples of a tensor between its elements.

Windows are laid out before the run where sizes are known, and in it where they are not. Samples are weighted sums of the
elements around positions; here are their gradients too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.graph.shapes import same_padding, span, split_padding, window_count
from deep_bench.network.gradient.tape import Symbol

Sizes = tuple[int, ...] | Symbol


@dataclass(frozen=True, eq=False, slots=True)
class WindowPlacement:
    """Where windows lie along the spatial axes of an ``(N, C, D1, …)`` tensor.

    Args:
        kernel: Elements in a window.
        strides: Distance between windows.
        dilations: Distance between the elements of a window.
        sizes: The tensor's spatial axes.
        begins: Padding before it.
        counts: The number of windows.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    sizes: Sizes
    begins: Sizes
    counts: Sizes

    @property
    def spans(self) -> tuple[int, ...]:
        """How far one window reaches."""
        return tuple(map(span, self.kernel, self.dilations))

    @property
    def taps(self) -> int:
        """The number of elements in a window."""
        return math.prod(self.kernel)

    @property
    def static(self) -> bool:
        """Whether all of it is known before the run."""
        return not any(isinstance(v, Symbol) for v in (self.sizes, self.begins, self.counts))

    def ends(self, op: Any) -> Sizes:
        """The padding after the tensor with which the windows exactly cover it; negative where they do not reach its end."""
        counts, sizes, begins = self.counts, self.sizes, self.begins
        if not (isinstance(counts, Symbol) or isinstance(sizes, Symbol) or isinstance(begins, Symbol)):
            axes = zip(counts, self.strides, self.spans, sizes, begins, strict=True)
            return tuple((c - 1) * s + reach - n - b for c, s, reach, n, b in axes)
        counts, sizes, begins = (_vector(op, v) for v in (counts, sizes, begins))
        return (counts - 1) * np.array(self.strides) + np.array(self.spans) - sizes - begins


def layout(at, x, kernel, *, auto_pad="NOTSET", dilations=None, pads=None, strides=None, ceil_mode=0):
    """The windows that a convolution or a pool with these attributes slides over ``x``.

    Source:
        ONNX Conv and AveragePool, opset 22.
    """
    rank = len(kernel)
    strides, dilations = tuple(strides or (1,) * rank), tuple(dilations or (1,) * rank)
    begins = tuple(pads[:rank]) if pads and auto_pad == "NOTSET" else (0,) * rank
    ends = tuple(pads[rank:]) if pads and auto_pad == "NOTSET" else (0,) * rank
    sizes, spans = spatial(x), tuple(map(span, kernel, dilations))
    is_same, upper = auto_pad.startswith("SAME"), auto_pad == "SAME_UPPER"
    if isinstance(sizes, Symbol):
        if is_same:
            steps = at.op.Div(sizes + np.array([s - 1 for s in strides]), np.array(strides))
            total = (steps - 1) * np.array(strides) + np.array(spans) - sizes
            begins = split(at.op, at.op.Max(total, 0), upper=upper)
        return WindowPlacement(tuple(kernel), strides, dilations, sizes, begins, spatial(at.y, known=False))
    if is_same:
        pairs = [same_padding(n, reach, s, upper=upper) for n, reach, s in zip(sizes, spans, strides, strict=True)]
        begins, ends = (tuple(side) for side in zip(*pairs, strict=True))
    axes = zip(sizes, begins, ends, spans, strides, strict=True)
    return WindowPlacement(
        tuple(kernel), strides, dilations, sizes, begins, tuple(window_count(*axis, ceil=bool(ceil_mode)) for axis in axes)
    )


def split(op, total, *, upper):
    """What of ``total`` comes before; see `split_padding`."""
    if not isinstance(total, Symbol):
        return tuple(int(split_padding(t, upper=upper)[0]) for t in total)
    small = op.Div(total, 2)
    return small if upper else total - small


def spatial(x, *, known=True):
    """The spatial axes of ``x``: whole numbers where all are known."""
    dims = x.tape.known_dims(x.value)
    if known and dims is not None and all(isinstance(d, int) for d in dims[2:]):
        return tuple(dims[2:])
    return x.tape.Shape(x, start=2)


def dim(x, axis):
    """One dimension: a whole number, or a vector of one element."""
    dims = x.tape.known_dims(x.value)
    length = dims[axis] if dims is not None else None
    return length if isinstance(length, int) else x.tape.Shape(x, start=axis, end=axis + 1)


def shaped(x, *parts):
    """``x`` in a shape that is put together from whole numbers, tuples of them, and vectors on the tape."""
    flat = list(itertools.chain.from_iterable([p] if isinstance(p, int | Symbol) else p for p in parts))
    if all(isinstance(p, int) for p in flat):
        return x.reshape(flat)
    return x.reshape(x.tape.concat([_vector(x.tape, p if isinstance(p, Symbol) else (p,)) for p in flat]))


def product(op, *sizes):
    """The product of dimensions: a whole number, or a vector of one element."""
    flat = list(itertools.chain.from_iterable([p] if isinstance(p, int | Symbol) else p for p in sizes))
    static_product = math.prod(p for p in flat if isinstance(p, int))
    unknown = [op.ReduceProd(p, [0], keepdims=1) for p in flat if isinstance(p, Symbol)]
    if not unknown:
        return static_product
    return math.prod(unknown[1:], start=unknown[0]) * static_product


def covered(at, x, windows):
    """``x`` with zeros around it, or cut, such that the windows exactly cover it."""
    return _padded(at.op, x, windows.begins, windows.ends(at.op))


def _padded(op, x, begins, ends):
    if not isinstance(begins, Symbol) and not isinstance(ends, Symbol):
        if not any(begins) and not any(ends):
            return x
        return op.Pad(x, [0, 0, *begins, 0, 0, *ends])
    pads = op.Concat([0, 0], _vector(op, begins), [0, 0], _vector(op, ends), axis=0)
    return op.Pad(x, pads)


def correlate(at, x, w, windows, group=1):
    """A convolution: each window of ``x`` times the weights ``w`` of shape ``(M, C / group, *kernel)``."""
    ends = windows.ends(at.op)
    pads = None
    if windows.static and min(windows.begins + ends, default=0) >= 0:
        pads = [*windows.begins, *ends]
    else:
        x = covered(at, x, windows)
    return at.op.Conv(
        x, w, group=group, kernel_shape=windows.kernel, strides=windows.strides, dilations=windows.dilations, pads=pads
    )


def overlap(at, y, w, windows, group=1):
    """The transpose of `correlate`: what each window holds, added up where the windows lie."""
    ends = windows.ends(at.op)
    options = {
        "group": group, "kernel_shape": windows.kernel, "strides": windows.strides, "dilations": windows.dilations
    }  # fmt: skip
    if not windows.static:
        whole = at.op.ConvTranspose(y, w, **options)
        negative = [-_vector(at.op, v) for v in (windows.begins, ends)]
        return _padded(at.op, whole, *negative)
    short = [max(-e, 0) for e in ends]  # elements at the end that no window reaches
    extra = [s if s < stride else 0 for s, stride in zip(short, windows.strides, strict=True)]
    pads = [*windows.begins, *(max(e, 0) for e in ends)]
    output = at.op.ConvTranspose(y, w, pads=pads, output_padding=extra if any(extra) else None, **options)
    missing = [s - e for s, e in zip(short, extra, strict=True)]
    return _padded(at.op, output, [0] * len(missing), missing)


def taps(at, x, windows):
    """For each position in a window, in row-major order: that element of all windows.

    Slices along the last axis first, then slices of these along the one before: on most runtimes that moves whole rows.
    """
    parts = [covered(at, x, windows)]
    for axis in reversed(range(len(windows.kernel))):
        k, d, s = windows.kernel[axis], windows.dilations[axis], windows.strides[axis]
        if (k, s) == (1, 1):
            continue
        parts = [_tap(part, axis + 2, i * d, (k - 1 - i) * d, s) for i in range(k) for part in parts]
    return parts


def columns(at, x, windows, a, b):
    """The windows of ``x`` with shape ``(a, b, D1, …)`` one after the other: ``(a, taps, b * windows)``."""
    length = product(at.op, b, windows.counts)
    return at.op.concat([shaped(part, a, 1, length) for part in taps(at, x, windows)], axis=1)


def _tap(x, axis, before, after, step):
    """Every ``step``-th element of an axis without those before and after."""
    return x.slice(axis, before, -after if after else np.iinfo(np.int64).max, step)


def size(x, axis):
    """One dimension as a scalar on the tape."""
    length = dim(x, axis)
    return x.tape.constant(length, np.int64) if isinstance(length, int) else length.squeeze(0)


def zeros(op, dtype, *dims):
    """Zeros of a shape that is put together from whole numbers and vectors of one element."""
    return op.constant(0, dtype).expand(op.concat([_vector(op, d if isinstance(d, Symbol) else (d,)) for d in dims]))


def _vector(op: Any, sizes: Sizes | Sequence[int]) -> Symbol:
    return sizes if isinstance(sizes, Symbol) else op.constant(sizes, np.int64)


CUBIC = -0.75
"""The coefficient of cubic convolution that ``GridSample`` has."""


@dataclass(frozen=True, eq=False, slots=True)
class SampleTaps:
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
    return SampleTaps(inside.cast(np.int64), weights, slopes)


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
