"""Operators that only move the elements of a parameter on its way to where it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as ir

from deep_bench.graph import operator_name
from deep_bench.graph.node import as_array, attributes


def passed(node: ir.Node, index: int, positions: np.ndarray) -> np.ndarray | None:
    """Where elements are after a node that moves them; ``None`` if it does something else with them.

    Args:
        node: The node.
        index: Which of its inputs they are.
        positions: Any array in the shape of that input.
    """
    move = _MOVES.get(operator_name(node))
    return None if move is None or index != 0 else move(node, positions)


def _transpose(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    return positions.transpose(attributes(node).get("perm"))


def _reshape(node: ir.Node, positions: np.ndarray) -> np.ndarray | None:
    target = _numbers(node)
    if target is None:
        return None
    keep = not attributes(node).get("allowzero", 0)
    return positions.reshape([positions.shape[i] if size == 0 and keep else size for i, size in enumerate(target)])


def _flatten(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    axis = attributes(node).get("axis", 1)
    return positions.reshape(int(np.prod(positions.shape[:axis], dtype=np.int64)), -1)


def _squeeze(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    axes = _numbers(node)
    return positions.squeeze(None if axes is None else tuple(axes))


def _unsqueeze(node: ir.Node, positions: np.ndarray) -> np.ndarray | None:
    axes = _numbers(node)
    return None if axes is None else np.expand_dims(positions, tuple(axes))


def _as_is(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    del node
    return positions


def _numbers(node: ir.Node) -> list[int] | None:
    """The second input, or the attribute that it was before opset 13."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        array = as_array(node.inputs[1])
        return None if array is None else [int(i) for i in array]
    axes = attributes(node).get("axes")
    return None if axes is None else list(axes)


_MOVES: Mapping[str, Callable[[ir.Node, np.ndarray], np.ndarray | None]] = {
    "Cast": _as_is,
    "CastLike": _as_is,
    "DequantizeLinear": _as_is,
    "Flatten": _flatten,
    "Identity": _as_is,
    "QuantizeLinear": _as_is,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
