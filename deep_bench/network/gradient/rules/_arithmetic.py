"""What rules write in arithmetic: choices between values, the element type to compute in, and sizes along axes.

Choices are products, as ONNX Runtime's ``Where`` takes ten times as long as one. Gradients of narrow floating point are
computed in float32 and rounded once. Sizes are numbers where they are known, and values of the run where they are not.
"""

from __future__ import annotations

import functools
import math

import ml_dtypes
import numpy as np

from deep_bench.network.gradient.tape import Site
from deep_bench.tensor import is_float


def mask(condition, like):
    """1 where a condition holds, else 0, in the element type of another symbol."""
    return condition.cast(like)


def where(condition, gradient):
    """A gradient where a condition holds, else 0."""
    return gradient * mask(condition, gradient)


def nonzero(x):
    """``x``, and in the place of 0 a number so small that dividing by it is as good as a division by 0.

    ``0 / nonzero(0)`` is 0: what a later choice did not take has no gradient, and must not get one that is no number.
    """
    constant = x.known
    if constant is not None and np.all(constant):
        return x
    return x + mask(x.equals(0), x) / steep(x.dtype)


def positive(x):
    """`nonzero` of what is known not to be negative: one operator instead of four."""
    return x.tape.Max(x, 1 / steep(x.dtype))


def root(x):
    """The square root of `positive`."""
    return x.tape.Sqrt(positive(x))


def finite(x):
    """``x`` with the largest number in the place of positive infinity."""
    return x.tape.Min(x, _largest(x))


def bounded(x):
    """``x`` with the largest and the smallest number in the place of the infinities."""
    return x.tape.Clip(x, -_largest(x), _largest(x))


def _largest(x):
    return float(ml_dtypes.finfo(x.dtype).max)


def steep(dtype):
    """What stands for an infinite slope: as good as infinite, but a gradient times it is still a number."""
    return 2.0 ** {np.dtype(np.float64): 1000, np.dtype(np.float16): 10}.get(dtype, 100)


def wide(x):
    """``x`` in float32 if its element type has fewer bits: sums and products of such would lose what a gradient needs."""
    return x if x is None or x.dtype.itemsize >= 4 else x.cast(np.float32)


def total(*parts):
    """The sum of those gradients that are there; ``None`` if none is."""
    gradients = [part for part in parts if part is not None]
    result = gradients[0] if gradients else None
    for part in gradients[1:]:
        result = result + part
    return result


def is_narrow(x):
    """Whether a symbol is known to be of floating point narrower than float32."""
    dtype = None if x is None else x.tape.knowledge.dtype(x.value)
    return dtype is not None and is_float(dtype) and dtype.itemsize < 4


def in_float32(rule):
    """Let a rule compute in float32 where the node's inputs are narrower; its results have the type of the inputs again."""

    @functools.wraps(rule)
    def wrapper(at, *inputs, **attributes):
        if not any(map(is_narrow, inputs)):
            return rule(at, *inputs, **attributes)
        result = rule(_WideSite(at), *map(_widened, inputs), **attributes)
        gradients = result if isinstance(result, list | tuple) else [result]
        return [g.cast(x) if g is not None and is_narrow(x) else g for x, g in zip(inputs, gradients, strict=False)]

    return wrapper


class _WideSite(Site):
    """The same node; what of its results is narrow is seen in float32."""

    def __init__(self, at):
        gradients = [at.gradient_or_none(i) for i in range(len(at.node.outputs))]
        super().__init__(at.node, at.op, at.backward, gradients, at.wants_value)

    def output(self, index):
        return _widened(super().output(index))

    def gradient_or_none(self, index):
        return _widened(super().gradient_or_none(index))


def _widened(x):
    if not is_narrow(x):
        return x
    constant = x.known  # what is known stays known
    return x.cast(np.float32) if constant is None else x.tape.constant(constant, np.float32)


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
