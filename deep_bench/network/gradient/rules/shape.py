"""Moving, joining and cutting tensors: the gradient moves back, by the transposes of cutting and of padding."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._arithmetic import dimension, joined, positions, product, size, widened, zeros

__all__ = [
    "CenterCropPad",
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Pad",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
]


def Reshape(at, x, shape, **attributes):
    """``dx = dy`` in the shape of ``x``."""
    return at.dy.reshape(x.shape), None


def Flatten(at, x, **attributes):
    """``dx = dy`` in the shape of ``x``."""
    return at.dy.reshape(x.shape)


def Squeeze(at, x, axes=None):
    """``dx = dy`` with the axes back in their places."""
    return at.dy.reshape(x.shape) if axes is None else at.op.Unsqueeze(at.dy, axes), None


def Unsqueeze(at, x, axes):
    """``dx = dy`` without the new axes."""
    return at.op.Squeeze(at.dy, axes), None


def Transpose(at, x, *, perm=None):
    """``dx`` is ``dy`` with its axes in the inverse order."""
    return at.op.Transpose(at.dy, perm=None if perm is None else np.argsort(perm).tolist())


def Concat(at, *inputs, axis):
    """``dx_i`` is the part of ``dy`` that ``x_i`` went to."""
    if len(inputs) == 1:
        return at.dy
    lengths = joined(at.op, *(size(x, axis) for x in inputs))
    return at.op.Split(at.dy, lengths, axis=axis, outputs=len(inputs))


def Split(at, x, split=None, *, axis=0, num_outputs=None):
    """``dx`` joins the gradients of the parts; of unused ones they are 0."""
    return at.op.concat([at.gradient(i) for i in range(len(at.node.outputs))], axis), None


def Slice(at, x, starts, ends, axes=None, steps=None):
    """``dx[start::step] = dy``, and 0 elsewhere."""
    return cut_back(at, x, starts, ends, axes, steps), None, None, None, None


def Pad(at, x, pads, constant_value=None, axes=None, *, mode="constant"):
    """``dx`` is ``dy`` without the new elements; those that repeat others are added to them.

    A constant's gradient is the sum over where it stands.
    """
    if mode != "constant":
        return folded(at, x, pads, axes, mode), None, None, None
    dx = at.op.Pad(at.dy, -pads if pads.known is None else -pads.known, None, axes)
    if constant_value is None or not at.wants(2):
        return dx, None, None, None
    around = at.op.Pad(at.op.zeros_like(x), pads, at.op.constant(1, x.dtype), axes)
    return dx, None, (at.dy * around).sum().reshape(constant_value.shape), None


def Tile(at, x, repeats):
    """The sum of ``dy`` over the copies: ``dy`` in the shape ``(r_0, n_0, r_1, n_1, …)``, summed over the ``r``."""
    if repeats.known is not None:
        shape: list = []
        copies: list[int] = []
        for axis, times in enumerate(repeats.known.tolist()):
            if times != 1:
                copies.append(len(shape))
                shape.append([times])
            shape.append(size(x, axis))
        return (at.dy.reshape(joined(at.op, *shape)).sum(copies) if copies else at.dy), None
    pairs = at.op.Concat(at.op.Unsqueeze(repeats, [1]), at.op.Unsqueeze(x.shape, [1]), axis=1)
    pairs = at.op.Reshape(pairs, [-1])
    unit = at.op.constant(1, np.int64)
    axes = at.op.Range(unit - unit, at.op.Size(pairs), unit + unit)
    return at.dy.reshape(pairs).sum(axes), None


def Expand(at, x, shape):
    """``dx`` is the sum of ``dy`` over what was repeated."""
    return at.op.sum_to(at.dy, x), None


def DepthToSpace(at, x, *, blocksize, mode="DCR"):
    """``dx = SpaceToDepth(dy)``; for ``CRD``, which that has only since opset 28, with its channels in another order."""
    dx = at.op.SpaceToDepth(at.dy, blocksize=blocksize)
    if mode == "DCR":
        return dx
    area = blocksize**2
    channels = dimension(x, 1)
    if channels is not None:
        return at.op.Gather(dx, np.arange(channels).reshape(area, -1).T.reshape(-1), axis=1)
    ticks = at.op.Range(at.op.constant(0, np.int64), size(x, 1).squeeze(0), at.op.constant(1, np.int64))
    order = at.op.Transpose(at.op.Reshape(ticks, [area, -1]))
    return at.op.Gather(dx, at.op.Reshape(order, [-1]), axis=1)


def SpaceToDepth(at, x, *, blocksize, mode="DCR"):
    """``dx = DepthToSpace(dy)``."""
    return at.op.DepthToSpace(at.dy, blocksize=blocksize, mode=mode)


def CenterCropPad(at, x, shape, *, axes=None):
    """``dx`` is ``dy`` cropped to, or in the middle of zeros of, the shape of ``x``: both halve what is odd downwards."""
    back = x.shape if axes is None else joined(at.op, *(size(x, axis) for axis in axes))
    return at.op.CenterCropPad(at.dy, back, axes=axes), None


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
