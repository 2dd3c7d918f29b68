"""Sequences and optionals: a sequence has a sequence of gradients, an optional value that of its element."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._subgraphs import mapped, zeros_of

__all__ = [
    "ConcatFromSequence",
    "Optional",
    "OptionalGetElement",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceErase",
    "SequenceInsert",
    "SplitToSequence",
]


def SequenceConstruct(at, *inputs):
    """``dx_i = dy[i]``."""
    return [at.op.SequenceAt(at.dy, at.op.constant(i, np.int64)) if at.wants(i) else None for i in range(len(inputs))]


def SequenceAt(at, sequence, position):
    """``dy`` at the position, zeros at all others."""
    place = _from_front(at, sequence, position)
    return at.op.SequenceInsert(at.op.SequenceErase(zeros_of(sequence), place), at.dy, place), None


def SequenceErase(at, sequence, position=None):
    """``dy`` with zeros at the position."""
    last = at.op.SequenceLength(sequence) - 1
    place = last if position is None else _from_front(at, sequence, position)
    return at.op.SequenceInsert(at.dy, at.op.zeros_like(at.op.SequenceAt(sequence, place)), place), None


def SequenceInsert(at, sequence, tensor, position=None):
    """``dtensor = dy[position]``; the others are the gradient of the sequence."""
    place = at.op.SequenceLength(sequence) if position is None else _from_front(at, sequence, position)
    return at.op.SequenceErase(at.dy, place), at.op.SequenceAt(at.dy, place), None


def _from_front(at, sequence, position):
    """A position counted from the front."""
    if position.known is not None and position.known >= 0:
        return position
    place = position.reshape([]).cast(np.int64)
    return at.op.Where(place < 0, place + at.op.SequenceLength(sequence), place)


def SplitToSequence(at, x, split=None, *, axis=0, keepdims=1):
    """``dx`` joins the gradients of the parts."""
    return at.op.ConcatFromSequence(at.dy, axis=axis, new_axis=int(split is None and not keepdims)), None


def ConcatFromSequence(at, sequence, *, axis, new_axis=0):
    """``dy`` in parts of the lengths of the tensors."""
    if new_axis:
        return at.op.SplitToSequence(at.dy, axis=axis, keepdims=0)
    lengths = mapped(lambda x: x.tape.Shape(x, start=axis, end=axis + 1 or None), sequence)
    return at.op.SplitToSequence(at.dy, at.op.ConcatFromSequence(lengths, axis=0), axis=axis)


def Optional(at, x=None, **attributes):
    """``dx = dy``."""
    return at.dy


def OptionalGetElement(at, x):
    """``dx = dy``."""
    return at.dy
