"""Moving, joining and cutting tensors: the gradient moves back."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._cuts import cut_back, folded
from deep_bench.network.gradient.rules._sizes import dimension, joined, size

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
