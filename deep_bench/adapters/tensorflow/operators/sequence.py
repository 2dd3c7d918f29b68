"""Sequences and optional values: known in length when the network is traced, so that they cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.tensorflow.layout import Value, on_values
from deep_bench.adapters.tensorflow.operators._common import constant, dims_of, rank_of

__all__ = [
    "ConcatFromSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
]


def _position(site: Site, index: int) -> int | None:
    place = constant(site, index, "the position")
    return None if place is None else int(place.reshape(()))


def SequenceConstruct(site: Site) -> Callable[..., Any]:
    """A sequence of the inputs."""
    del site
    return on_values(lambda *values: (Value(tuple(values)),))


def SequenceEmpty(site: Site) -> Callable[..., Any]:
    """A sequence without elements."""
    del site
    return on_values(lambda: (Value(()),))


def SequenceLength(site: Site) -> Callable[..., Any]:
    """The number of elements."""
    del site
    return on_values(lambda sequence: (Value(tf.constant(len(sequence.tensor), tf.int64)),))


def SequenceAt(site: Site) -> Callable[..., Any]:
    """The element at a position."""
    place = _position(site, 1)
    return on_values(lambda sequence, _: (sequence.tensor[place],))


def SequenceInsert(site: Site) -> Callable[..., Any]:
    """The sequence with a tensor inserted at a position, by default at the end."""
    place = _position(site, 2)

    @on_values
    def run(sequence: Value, new: Value, _: Any = None) -> tuple[Value]:
        items = list(sequence.tensor)
        items.insert(len(items) if place is None else place, new)
        return (Value(tuple(items)),)

    return run


def SequenceErase(site: Site) -> Callable[..., Any]:
    """The sequence without the element at a position, by default the last."""
    place = _position(site, 1)

    @on_values
    def run(sequence: Value, _: Any = None) -> tuple[Value]:
        items = list(sequence.tensor)
        del items[-1 if place is None else place]
        return (Value(tuple(items)),)

    return run


def ConcatFromSequence(site: Site) -> Callable[..., Any]:
    """The elements joined along an axis, a new one if asked for."""
    axis, new = site.attributes["axis"], site.attribute("new_axis", 0)

    @on_values
    def run(sequence: Value) -> tuple[Value]:
        tensors = [v.first for v in sequence.tensor]
        return (Value(tf.stack(tensors, axis) if new else tf.concat(tensors, axis)),)

    return run


def SplitToSequence(site: Site) -> Callable[..., Any]:
    """A tensor cut along an axis into parts of given sizes, or of one size (the last may be smaller)."""
    rank = rank_of(site)
    axis = site.attribute("axis", 0) % rank
    size = dims_of(site)[axis]
    if size is None:
        raise NotNative("the length of the sequence is not known when the network is prepared")
    split = constant(site, 1, "the sizes of the parts")
    keep = site.attribute("keepdims", 1) or split is not None
    chunk = 1 if split is None else int(split.reshape(-1)[0])
    even = [min(chunk, size - start) for start in range(0, size, max(chunk, 1))]
    sizes = even if split is None or split.ndim == 0 else [int(s) for s in np.asarray(split)]

    @on_values
    def run(x: Value, _: Any = None) -> tuple[Value]:
        parts = tf.split(x.first, sizes, axis)
        return (Value(tuple(Value(p if keep else tf.squeeze(p, [axis])) for p in parts)),)

    return run
