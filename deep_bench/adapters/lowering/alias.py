"""Nodes that provably do nothing: their result is another name of an input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.adapters.lowering.facts import Fact, Shape, dtype_of
from deep_bench.graph.node import is_standard

_FAR = 2**31 - 1
"""An end of a slice from here on means "to the end of any axis"."""

Inputs = Sequence[Fact | None]
Attributes = Mapping[str, Any]


def alias(node: ir.Node, inputs: Inputs, attributes: Attributes, shape: Shape | None) -> Fact | None:
    """The input whose value the node's first output has in any case, if the node does nothing.

    Args:
        node: The node.
        inputs: What is known of its inputs.
        attributes: Its stated attributes.
        shape: What is known of the shape of its first output.
    """
    if not is_standard(node) or not inputs or inputs[0] is None:
        return None
    data = inputs[0]
    if node.op_type in _SAME_SHAPE and shape is not None and shape == data.static_shape:
        return data
    rule = _RULES.get(node.op_type)
    return data if rule is not None and rule(inputs, attributes) else None


_SAME_SHAPE = {"Expand", "Flatten", "Reshape", "Squeeze", "Tile", "Unsqueeze"}
"""Operators that keep the order of elements: with the same shape, they do nothing."""


def _constant(inputs: Inputs, index: int) -> np.ndarray | None:
    fact = inputs[index] if index < len(inputs) else None
    return None if fact is None else fact.constant


def _omitted(inputs: Inputs, index: int) -> bool:
    return index >= len(inputs) or inputs[index] is None


def _cast(inputs: Inputs, attributes: Attributes) -> bool:
    return inputs[0] is not None and inputs[0].dtype is not None and inputs[0].dtype == dtype_of(attributes["to"])


def _cast_like(inputs: Inputs, _attributes: Attributes) -> bool:
    a, b = inputs[0], inputs[1]
    return a is not None and b is not None and a.dtype is not None and a.dtype == b.dtype


def _transpose(inputs: Inputs, attributes: Attributes) -> bool:
    permutation = attributes.get("perm")
    if permutation is None:
        shape = inputs[0].shape if inputs[0] is not None else None
        return shape is not None and len(shape) < 2
    return list(permutation) == sorted(permutation)


def _dropout(inputs: Inputs, _attributes: Attributes) -> bool:
    training = _constant(inputs, 2)
    return _omitted(inputs, 2) or (training is not None and not training.any())


def _slice(inputs: Inputs, _attributes: Attributes) -> bool:
    starts, ends, steps = (_constant(inputs, i) for i in (1, 2, 4))
    if starts is None or ends is None or (steps is None and not _omitted(inputs, 4)):
        return False
    if (starts != 0).any() or (steps is not None and (steps != 1).any()):
        return False
    return bool((ends >= _FAR).all()) or _covers(inputs, ends)


def _covers(inputs: Inputs, ends: np.ndarray) -> bool:
    axes = range(len(ends)) if _omitted(inputs, 3) else _constant(inputs, 3)
    shape = inputs[0].shape if inputs[0] is not None else None
    if axes is None or shape is None:
        return False
    sizes = [shape[int(axis)] for axis in axes]
    return all(end >= _FAR or (size is not None and end >= size) for end, size in zip(ends, sizes, strict=True))


def _pad(inputs: Inputs, _attributes: Attributes) -> bool:
    pads = _constant(inputs, 1)
    return pads is not None and not pads.any()


def _expand(inputs: Inputs, _attributes: Attributes) -> bool:
    target, shape = _constant(inputs, 1), inputs[0].shape if inputs[0] is not None else None
    return target is not None and shape is not None and bool((target == 1).all()) and target.size <= len(shape)


def _tile(inputs: Inputs, _attributes: Attributes) -> bool:
    repeats = _constant(inputs, 1)
    return repeats is not None and bool((repeats == 1).all())


def _reshape(inputs: Inputs, attributes: Attributes) -> bool:
    """Each axis is copied (0) or stated with the size it has; one may be left to be found (-1)."""
    target, shape = _constant(inputs, 1), inputs[0].shape if inputs[0] is not None else None
    if target is None or shape is None or target.size != len(shape):
        return False
    copies = not attributes.get("allowzero", 0)
    unchanged = [(copies and t == 0) or (s is not None and t == s) for t, s in zip(target.tolist(), shape, strict=True)]
    free = [axis for axis, equal in enumerate(unchanged) if not equal]
    if not free:
        return True
    other_sizes = [s for axis, s in enumerate(shape) if axis != free[0]]
    return len(free) == 1 and target[free[0]] == -1 and all(s is not None and s > 0 for s in other_sizes)


def _squeeze(inputs: Inputs, _attributes: Attributes) -> bool:
    axes = _constant(inputs, 1)
    return axes is not None and axes.size == 0


def _single(inputs: Inputs, _attributes: Attributes) -> bool:
    return len(inputs) == 1


def _always(_inputs: Inputs, _attributes: Attributes) -> bool:
    return True


_RULES: Mapping[str, Callable[[Inputs, Attributes], bool]] = {
    "Cast": _cast,
    "CastLike": _cast_like,
    "Concat": _single,
    "Dropout": _dropout,
    "Expand": _expand,
    "Identity": _always,
    "Max": _single,
    "Mean": _single,
    "Min": _single,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Sum": _single,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _squeeze,
}
