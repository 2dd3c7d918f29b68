"""The transposes of cutting and of padding."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._sizes import dimension, joined, positions, product, size, widened, zeros


def cut_back(at, x, starts, ends, axes, steps):
    """``dy`` where a ``Slice`` took it from, and zeros elsewhere.

    Steps known: ``dy`` with zeros between its elements, reversed for a negative step, and zeros around it. Else the
    positions of all elements go through the same slice.
    """
    if axes is None and starts.known is None and starts.static_shape is None:
        return scattered_back(at, x, lambda p: at.op.Slice(p, starts, ends, axes, steps))
    count = starts.known.size if starts.known is not None else (starts.static_shape or (None,))[0]
    where = range(count) if axes is None and count is not None else None if axes is None else axes.known
    strides = [1] * (count or 0) if steps is None else steps.known
    if where is None or strides is None or count is None:
        return scattered_back(at, x, lambda p: at.op.Slice(p, starts, ends, axes, steps))
    dx, before, after, touched = at.dy, [], [], []
    for i, (axis, step) in enumerate(zip(map(int, where), map(int, strides), strict=True)):
        first, last, dx = _axis_back(at, x, dx, (starts, i), axis, step)
        if dimension(x, axis) is None or first != [0] or last != [0]:
            before.append(first)
            after.append(last)
            touched.append(axis)
    if not touched:
        return dx
    return at.op.Pad(dx, joined(at.op, *before, *after), None, touched)


def _axis_back(at, x, dx, start, axis, step):
    """The elements of ``dx`` at distances ``step``, and how many zeros come before and after them."""
    stride = abs(step)
    if step < 0:
        dx = dx.slice(axis, -1, np.iinfo(np.int64).min, -1)
    if stride > 1:
        dx = _dilated(dx, axis, stride)
    n, m = dimension(x, axis), dimension(at.dy, axis)
    starts, i = start
    if starts.known is not None and n is not None and m is not None:
        first = int(starts.known.reshape(-1)[i])
        first = min(max(first + n if first < 0 else first, 0), n - (step < 0))
        if step < 0:
            first = min(first - (m - 1) * stride, n)
        return [first], [n - first - m * stride], dx
    length, gradient_length = size(x, axis), size(at.dy, axis)
    first = at.op.Cast(starts.slice(0, i, i + 1), to=7)
    first = at.op.Where(first < 0, first + length, first)
    first = at.op.Min(at.op.Max(first, 0), length - 1 if step < 0 else length)
    if step < 0:
        first = at.op.Min(first - (gradient_length - 1) * stride, length)
    return first, length - first - gradient_length * stride, dx


def _dilated(x, axis, stride):
    """``x`` with ``stride - 1`` zeros after each element along an axis."""
    axis = axis % x.rank
    shape = [size(x, i) for i in range(x.rank)]
    parts = x.tape.Pad(x.unsqueeze(axis + 1), [0, stride - 1], None, [axis + 1])
    shape[axis] = shape[axis] * stride if shape[axis].known is None else [int(shape[axis].known.item()) * stride]
    return parts.reshape(joined(x.tape, *shape))


def scattered_back(at, x, function, *, shared=False):
    """The transpose of a function that moves elements: their positions go the same way, and then the gradients back.

    Args:
        at: The site.
        x: The input.
        function: Moves elements of an int64 tensor in the shape of ``x`` as the operator moves those of ``x``.
        shared: Whether an element may go to several places.
    """
    count = product(x.shape)
    source = function(positions(at.op, count).reshape(x.shape))
    dy = widened(at.dy) if shared else at.dy
    flat = [at.op.Reshape(t, [-1]) for t in (source, dy)]
    dx = at.op.ScatterElements(zeros(x, dy.dtype, count), *flat, reduction="add" if shared else None)
    return dx.reshape(x.shape).cast(x.dtype)


def folded(at, x, pads, axes, mode):
    """The gradient of a ``Pad`` that repeats elements."""
    return scattered_back(at, x, lambda p: at.op.Pad(p, pads, None, axes, mode=mode), shared=True)
