"""Attention's tensors with an axis of heads, and what one position may attend to."""

from __future__ import annotations

import math

import numpy as np


def size(at, x, axis):
    """The length of an axis as a scalar of int64: a constant where it is known."""
    length = x.dims[axis]
    if isinstance(length, int):
        return at.op.constant(length, np.int64)
    return at.op.Squeeze(at.op.Shape(x, start=axis % x.rank, end=axis % x.rank + 1))


def width(x, count):
    """The number of features of each head; ``None`` if only a run tells."""
    last = x.dims[-1]
    if not isinstance(last, int):
        return None
    return last if x.rank == 4 else last // count


def head_count(at, x, stated, name):
    """How many heads a tensor has."""
    count = stated if x.rank == 3 else x.dims[1]
    if not isinstance(count, int):
        raise at.refusal(f"the number of heads of {name} is known only in a run")
    return count


def split_heads(x, count):
    """``[batch, length, heads * size]`` as ``[batch, heads, length, size]``; a tensor with four axes is so already."""
    if x.rank == 4:
        return x
    static = x.static_shape
    shape = [0, 0, count, -1] if static is None else [*static[:2], count, static[2] // count]
    return x.reshape(shape).transpose([0, 2, 1, 3])


def join_heads(x, like):
    """The reverse of `split_heads`, in the shape of ``like``."""
    return x if like.rank == 4 else x.transpose([0, 2, 1, 3]).reshape(like.shape)


def regroup(x, count):
    """``[batch, heads, length, size]`` as ``[batch, count, heads * length / count, size]``, a matrix for each key head."""
    if x.dims[1] == count:
        return x
    static = x.static_shape
    return x.reshape([0, count, -1, 0] if static is None else [static[0], count, static[1] * static[2] // count, static[3]])


def bias_of(at, mask, queries, keys, past, lengths, *, is_causal, left, right):
    """What is added to the scores, and where attention is paid at all; ``None`` for nothing, and for everywhere.

    Args:
        at: The site.
        mask: The mask in the type of the scores, or of booleans; or ``None``.
        queries: How many positions ask, a scalar.
        keys: How many are asked.
        past: How many of these are from before.
        lengths: For each sequence how many keys count, or ``None``.
        is_causal: Whether later positions are left out.
        left: How far back attention reaches; -1 for all the way.
        right: How far ahead.
    """
    place = at.op.Range(0, queries, at.op.constant(1, np.int64)).unsqueeze(1)
    key = at.op.Range(0, keys, at.op.constant(1, np.int64))
    if lengths is not None:
        lengths = lengths.cast(np.int64).reshape([-1, 1, 1, 1])
    place = place + (past if past is not None else lengths - queries if lengths is not None else 0)
    allowed = [key <= place] if is_causal else []
    if left >= 0:
        allowed.append(key >= place - left)
    if right >= 0:
        allowed.append(key <= place + right)
    if lengths is not None:
        allowed.append(key < lengths)
    if mask is not None:
        boolean = mask.dtype == np.bool_
        mask = padded(at, mask, keys)
        allowed, mask = ([*allowed, mask], None) if boolean else (allowed, mask)
    together = None
    for part in allowed:
        together = part if together is None else together & part
    return mask, together


def padded(at, mask, keys):
    """A mask whose last axis is shorter than the keys: those it says nothing of are left out."""
    if keys.known is not None and mask.dims[-1] == int(keys.known):
        return mask
    missing = (keys - size(at, mask, -1)).reshape([1])
    before = at.op.constant([0] * (2 * mask.rank - 1), np.int64)
    value = at.op.constant(False if mask.dtype == np.bool_ else -math.inf, mask.dtype)
    return at.op.Pad(mask, at.op.Concat(before, missing, axis=0), value)
