"""Windows of convolutions and pools on a tape: laid out before the run where sizes are known, and in it where they are not.

Sizes along the spatial axes come as a tuple of whole numbers, or as a vector on the tape that only the run knows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.graph.windows import same_padding, span, split_padding, window_count
from deep_bench.network.gradient.symbol import Symbol

Sizes = tuple[int, ...] | Symbol


@dataclass(frozen=True, eq=False, slots=True)
class Layout:
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
        return Layout(tuple(kernel), strides, dilations, sizes, begins, spatial(at.y, known=False))
    if is_same:
        pairs = [same_padding(n, reach, s, upper=upper) for n, reach, s in zip(sizes, spans, strides, strict=True)]
        begins, ends = (tuple(side) for side in zip(*pairs, strict=True))
    axes = zip(sizes, begins, ends, spans, strides, strict=True)
    return Layout(
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
