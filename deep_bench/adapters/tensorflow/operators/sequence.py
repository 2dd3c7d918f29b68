"""Sequences and optional values: of known length when the network is traced, so that they cost nothing.

Where a length or a position depends on the contents of a tensor, the network runs without a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import Plan, Site
from deep_bench.adapters.lowering.plan import rank_of
from deep_bench.adapters.tensorflow.graph import GraphRunner, contents
from deep_bench.adapters.tensorflow.layout import Value, on_values
from deep_bench.errors import InvalidInput

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


def _place(position: Value, last: int, length: int) -> int:
    """A position counted from the front."""
    place = int(contents(position.first, "a position in a sequence").reshape(()))
    if not -length <= place <= last:
        raise InvalidInput(f"position {place} in a sequence of {length}", f"one from {-length} to {last}")
    return place + length if place < 0 else place


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
    del site

    @on_values
    def run(sequence: Value, position: Value) -> tuple[Value]:
        items = sequence.tensor
        return (items[_place(position, len(items) - 1, len(items))],)

    return run


def SequenceInsert(site: Site) -> Callable[..., Any]:
    """The sequence with a tensor inserted at a position, by default at the end."""
    del site

    @on_values
    def run(sequence: Value, new: Value, position: Value | None = None) -> tuple[Value]:
        items = list(sequence.tensor)
        items.insert(len(items) if position is None else _place(position, len(items), len(items)), new)
        return (Value(tuple(items)),)

    return run


def SequenceErase(site: Site) -> Callable[..., Any]:
    """The sequence without the element at a position, by default the last."""
    del site

    @on_values
    def run(sequence: Value, position: Value | None = None) -> tuple[Value]:
        items = list(sequence.tensor)
        del items[-1 if position is None else _place(position, len(items) - 1, len(items))]
        return (Value(tuple(items)),)

    return run


def SequenceMap(site: Site) -> Callable[..., Any]:
    """A graph run on the elements at each position of the sequences; a tensor is passed every time."""
    body: Plan = site.attributes["body"]
    runner, count = GraphRunner(body), len(site.inputs)

    @on_values
    def run(*values: Value) -> tuple[Value, ...]:
        inputs, captured = values[:count], values[count:]
        lists = [v.tensor if isinstance(v.tensor, tuple) else None for v in inputs]
        results = [
            runner([v if s is None else s[i] for v, s in zip(inputs, lists, strict=True)], captured)
            for i in range(len(inputs[0].tensor))
        ]
        return tuple(Value(tuple(result[k] for result in results)) for k in range(len(body.outputs)))

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
    axis, squeezed = site.attribute("axis", 0) % rank, not site.attribute("keepdims", 1) and not site.has(1)

    @on_values
    def run(x: Value, split: Value | None = None) -> tuple[Value]:
        parts = tf.split(x.first, _sizes(x.first, split, axis), axis)
        return (Value(tuple(Value(tf.squeeze(p, [axis]) if squeezed else p) for p in parts)),)

    return run


def _sizes(x: Any, split: Value | None, axis: int) -> Sequence[int] | Any:
    if split is not None and split.rank == 1 and split.first.shape[0] is not None:
        return split.first
    size = x.shape[axis]
    if size is None:
        size = int(contents(tf.shape(x)[axis], "the length of a sequence"))
    lengths = np.ones((), int) if split is None else contents(split.first, "the length of a sequence")
    if lengths.ndim == 1:
        return lengths.tolist()
    chunk = int(lengths)
    return [min(chunk, size - start) for start in range(0, size, chunk)]


def Optional(site: Site) -> Callable[..., Any]:
    """The input as an optional value; an empty one without an input."""
    del site
    return on_values(lambda value=None: (Value(None) if value is None else value,))


def OptionalHasElement(site: Site) -> Callable[..., Any]:
    """Whether there is a value."""
    del site
    return on_values(lambda value=None: (Value(tf.constant(value is not None and not value.is_empty)),))


def OptionalGetElement(site: Site) -> Callable[..., Any]:
    """The value there is."""
    del site

    @on_values
    def run(value: Value) -> tuple[Value]:
        if value.is_empty:
            raise InvalidInput("OptionalGetElement of an empty optional value", "one that has an element")
        return (value,)

    return run
