"""Fourier transforms."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._arithmetic import dimension, joined, positions, size

__all__ = ["DFT", "STFT"]


def DFT(at, x, dft_length=None, axis=None, *, inverse=0, onesided=0):
    """The conjugate transform: ``dx = N IDFT(dy)``, of the inverse ``dx = DFT(dy) / N``, cut or filled up to ``x``'s length.

    With ``onesided`` the missing frequencies have no gradient; the inverse counts all twice but the first and the middle.
    """
    op, dy = at.op, at.dy
    where = op.constant([-2], np.int64) if axis is None else _vector(axis)
    length = _length(op, x, where)
    n = _vector(dft_length) if dft_length is not None else (length - 1) * 2 if inverse and onesided else length
    if n.known is None and dimension(at.y, _axis_number(where)) is not None and not (onesided and not inverse):
        n = size(at.y, _axis_number(where))
    number = n.cast(dy.dtype)
    along = where.squeeze(0)
    if inverse:
        dx = op.DFT(dy, None, along, onesided=onesided)
        dx = dx * _twice(at, x, n, where) / number if onesided else dx / number
        filled = _length(op, dx, where)
    else:
        dx, filled = op.DFT(dy, n.reshape([]), along, inverse=1) * number, n
    if n is not length or (inverse and onesided):
        dx = op.Pad(dx, joined(op, [0], length - filled), None, where)
    return (dx.slice(-1, 0, 1) if dimension(x, -1) == 1 else dx if dimension(x, -1) == 2 else _parts(dx, x)), None, None


def _parts(dx, x):
    """The real part, if ``x`` has nothing else."""
    return dx.slice(-1, 0, size(x, -1))


def _vector(x):
    return x.tape.constant(x.known.reshape(1), np.int64) if x.known is not None else x.tape.Cast(x.reshape([1]), to=7)


def _axis_number(axis):
    return int(axis.known[0]) if axis.known is not None else 1 << 30


def _length(op, x, axis):
    constant = axis.known
    return size(x, int(constant[0])) if constant is not None else op.Gather(x.shape, axis)


def _twice(at, x, n, axis):
    """How often the inverse transform counts each frequency of half a spectrum."""
    op = at.op
    k = positions(op, op.Add(op.Div(n, 2), op.constant([1], np.int64)))
    once = op.Or(k.equals(0), (k + k).equals(n))
    counts = op.Where(once, op.constant(1, x.dtype), op.constant(2, x.dtype))
    if axis.known is not None:
        return counts.reshape([-1] + [1] * int((-1 - axis.known[0]) % x.rank))
    axes = op.Range(op.constant(0, np.int64), op.Size(x.shape), op.constant(1, np.int64))
    is_axis = op.Equal(axes, op.Where(axis < 0, axis + op.Size(x.shape), axis))
    return counts.reshape(op.Where(is_axis, op.constant(-1, np.int64), op.constant(1, np.int64)))


def STFT(at, signal, frame_step, window=None, frame_length=None, *, onesided=1):
    """Through the frames that are gathered, weighted and transformed."""
    op = at.op
    step = _vector(frame_step)
    if frame_length is not None:
        length = _vector(frame_length)
    else:
        length = size(signal, 1) if window is None else size(window, 0)
    count = op.Add(op.Div(op.Sub(size(signal, 1), length), step), 1)
    starts = op.Mul(positions(op, count), step)
    index = op.Add(op.Unsqueeze(starts, [1]), positions(op, length))

    def transformed(signal, window):
        frames = op.Gather(signal, index, axis=1)
        if window is not None:
            frames = frames * window.unsqueeze(1)
        return op.DFT(frames, onesided=onesided)

    ds, dw = at.through(transformed, signal, window)
    return ds, None, dw, None
