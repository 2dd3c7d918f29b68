"""Sizes along axes: numbers where they are known, values of the run where they are not."""

from __future__ import annotations

import math

import numpy as np

from deep_bench.tensor import is_float


def dimension(x, axis):
    """The number of elements along an axis, or ``None`` if it is unknown before a run."""
    dims = x.tape.known_dims(x.value)
    length = None if dims is None or not -len(dims) <= axis < len(dims) else dims[axis]
    return length if isinstance(length, int) else None


def size(x, axis):
    """The number of elements along an axis, as a vector of one."""
    length = dimension(x, axis)
    if length is not None:
        return x.tape.constant([length], np.int64)
    return x.tape.Shape(x, start=axis, end=axis + 1 or None)


def sizes(x, start, end=None):
    """The shape from one axis to before another, as in Python, as a vector."""
    dims = x.tape.known_dims(x.value)
    lengths = None if dims is None else dims[start:end]
    if lengths is not None and all(isinstance(d, int) for d in lengths):
        return x.tape.constant(lengths, np.int64)
    return x.tape.Shape(x, start=start, end=end)


def product(shape):
    """The number of elements of a shape, as a vector of one."""
    if shape.known is not None:
        return shape.tape.constant([math.prod(shape.known.tolist())], np.int64)
    return shape.tape.ReduceProd(shape, keepdims=1)


def joined(tape, *parts):
    """One vector of several, each a vector on the tape or a list of numbers."""
    constants = [np.array(p, np.int64) if isinstance(p, list) else p.known for p in parts]
    if all(k is not None for k in constants):
        return tape.constant(np.concatenate([np.reshape(k, -1) for k in constants]) if constants else [], np.int64)
    return tape.concat([tape.constant(p, np.int64) if isinstance(p, list) else p for p in parts])


def positions(tape, count):
    """0, 1, … to before a number of elements that a vector of one holds."""
    if count.known is not None:
        return tape.constant(np.arange(count.known.item()), np.int64)
    return tape.Range(tape.constant(0, np.int64), count.reshape([]), tape.constant(1, np.int64))


def widened(x):
    """Narrow floating-point numbers in float32, in which many of them can be added up."""
    dtype = x.dtype
    return x.cast(np.float32) if is_float(dtype) and dtype.itemsize < np.dtype(np.float32).itemsize else x


def zeros(like, dtype, shape=None):
    """Zeros in an element type, in the shape of a symbol or another one."""
    return like.tape.constant(0, dtype).expand(like.shape if shape is None else shape)
