"""Sequences, which are lists of tensors, and optional values, which are ``None`` when empty."""

from __future__ import annotations

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators._arguments import integer, integers, ints64

__all__ = [
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SequenceMap",
    "SplitToSequence",
]


def SequenceConstruct(*inputs):
    """The inputs as a sequence. Source: ONNX SequenceConstruct, opset 11."""
    return list(inputs)


def SequenceEmpty(*, dtype=1):
    """A sequence of nothing. Source: ONNX SequenceEmpty, opset 11."""
    return []


def SequenceLength(sequence):
    """The number of tensors. Source: ONNX SequenceLength, opset 11."""
    return ints64(len(sequence))


def SequenceAt(sequence, position):
    """The tensor at a position. Source: ONNX SequenceAt, opset 11."""
    return sequence[_position(position, len(sequence) - 1, len(sequence))]


def SequenceErase(sequence, position=None):
    """The sequence without the tensor at a position, by default the last. Source: ONNX SequenceErase, opset 11."""
    i = len(sequence) - 1 if position is None else _position(position, len(sequence) - 1, len(sequence))
    return [*sequence[:i], *sequence[i + 1 :]]


def SequenceInsert(sequence, tensor, position=None):
    """The sequence with ``tensor`` before a position, by default at the end. Source: ONNX SequenceInsert, opset 11."""
    i = len(sequence) if position is None else _position(position, len(sequence), len(sequence))
    return [*sequence[:i], tensor, *sequence[i:]]


def _position(position, last, length):
    """A position counted from the front, refused if it lies outside the sequence."""
    i = integer(position)
    if not -length <= i <= last:
        raise InvalidInput(f"position {i} in a sequence of {length}", f"one from {-length} to {last}")
    return i + length if i < 0 else i


def SequenceMap(sequence, *inputs, body, n_outputs=1):
    """Sequences of what ``body`` returns for the tensors at each position; an input that is a tensor is passed every time.

    Source: ONNX SequenceMap, opset 17.
    """
    results = [body(x, *(y[i] if isinstance(y, list) else y for y in inputs)) for i, x in enumerate(sequence)]
    return tuple([result[k] for result in results] for k in range(n_outputs))


def SplitToSequence(x, split=None, *, axis=0, keepdims=1):
    """Parts of ``x`` along ``axis``: of the sizes in ``split``, or of its one size while that lasts; by default of size 1.

    Source: ONNX SplitToSequence, opset 24.
    """
    size = x.shape[axis]
    sizes = _sizes(size, split)
    if sum(sizes) != size or min(sizes, default=0) < 0:
        raise InvalidInput(f"SplitToSequence into {list(sizes)}", f"sizes that sum to {size}, that of axis {axis}")
    parts = np.split(x, np.cumsum(sizes)[:-1], axis) if len(sizes) else []
    return [np.squeeze(part, axis) for part in parts] if split is None and not keepdims else parts


def _sizes(size, split):
    """The sizes of the parts; the last of equal parts may be smaller."""
    if split is not None and np.ndim(split) == 1:
        return integers(split)
    part = 1 if split is None else integer(split)
    if part <= 0:
        raise InvalidInput(f"SplitToSequence into parts of size {part}", "a positive size")
    return [min(part, size - start) for start in range(0, size, part)]


def ConcatFromSequence(sequence, *, axis, new_axis=0):
    """The tensors one after the other along ``axis``, or along a new one. Source: ONNX ConcatFromSequence, opset 11."""
    if not sequence:
        raise InvalidInput("ConcatFromSequence of an empty sequence", "at least one tensor")
    return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)


def Optional(x=None, *, type=None):  # noqa: A002 (ONNX's name; an empty value has no type here)
    """``x`` as an optional value. Source: ONNX Optional, opset 28."""
    return x


def OptionalHasElement(x=None):
    """Whether there is a value. Source: ONNX OptionalHasElement, opset 28."""
    return np.asanyarray(x is not None)


def OptionalGetElement(x):
    """The value there is. Source: ONNX OptionalGetElement, opset 28."""
    if x is None:
        raise InvalidInput("OptionalGetElement of an empty optional value", "one that has an element")
    return x
