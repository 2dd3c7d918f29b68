"""Shapes and sizes of a network's values: as they are known before a run, or as a run shows them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.errors import DeepBenchError
from deep_bench.events import Moment, NodeEvent
from deep_bench.graph import Network
from deep_bench.graph.node import outer_values, subgraphs
from deep_bench.network.gradient.types import Knowledge

_VIEWS = ("Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze")
"""Operators that need move no data: their result has the same elements in the same order, or is small."""

_PARTIAL = ("Gather", "GatherElements", "GatherND", "Slice", "Split")
"""Operators that read only as much of their first input as they return."""


class StaticShapes:
    """The dimensions of values, found from the network's inputs.

    Args:
        network: Its input dimensions should be fixed; what depends on others is unknown.
        seen: Name to array of values whose dimensions only a run shows; see `seen_in_run`.
    """

    def __init__(self, network: Network, seen: Mapping[str, np.ndarray] | None = None) -> None:
        self._knowledge = Knowledge(network)
        self._seen = {} if seen is None else {n: (a.shape, a.dtype.itemsize) for n, a in seen.items()}

    def __call__(self, value: ir.Value) -> tuple[int, ...] | None:
        """All dimensions of a value, or ``None`` if one of them is unknown."""
        if value.const_value is not None:
            return tuple(value.const_value.shape.numpy())
        dims = self._knowledge.dims(value)
        if str(value.name) in self._seen:
            return self._seen[str(value.name)][0]
        if dims is None or not all(isinstance(d, int) for d in dims):
            return None
        return tuple(d for d in dims if isinstance(d, int))

    def nbytes(self, value: ir.Value) -> int | None:
        """The size of a value in memory, or ``None`` if it is unknown."""
        if str(value.name) in self._seen:
            seen, itemsize = self._seen[str(value.name)]
            return prod(seen) * itemsize
        shape, dtype = self(value), self._knowledge.dtype(value)
        if shape is None or dtype is None:
            return None
        return prod(shape) * np.dtype(dtype).itemsize


def seen_in_run(network: Network, shapes: StaticShapes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The values of the outermost graph whose dimensions are unknown, from one run of the reference; none if it cannot run.

    The arrays are views of a single element: only their dimensions and element types are kept.

    Args:
        network: With fixed input dimensions.
        shapes: What is known of it.
        inputs: What it is fed: dimensions that depend on contents are those of these inputs.
    """
    wanted = {
        str(node.name): [str(v.name) for v in node.outputs]
        for node in network.nodes
        if any(v.name and shapes(v) is None for v in node.outputs)
    }
    found: dict[str, np.ndarray] = {}
    if not wanted:
        return found

    def tell(moment: Moment, event: NodeEvent) -> None:
        if moment is Moment.AFTER_NODE and event.node in wanted:
            for name, array in zip(wanted[event.node], event.outputs or (), strict=False):
                if name and isinstance(array, np.ndarray | np.generic):
                    found[name] = np.broadcast_to(np.empty((), np.asarray(array).dtype), np.shape(array))

    try:
        frameworks["reference"]().prepare(network).walk(inputs, tell)
    except DeepBenchError:
        return {}
    return found


def traffic(node: ir.Node, shapes: StaticShapes) -> int | None:
    """The bytes that a node must at least read and write: each of its values once.

    Views count nothing; an operator that picks out a part reads that part only. ``None`` if a size is unknown.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").with_sizes({"batch": 1})
        >>> relu = network.nodes[2]
        >>> relu.op_type, traffic(relu, StaticShapes(network))  # 16 * 8 * 8 float32, read and written
        ('Relu', 8192)
    """
    if node.op_type in _VIEWS:
        return 0
    captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
    read = list(dict.fromkeys(v for v in (*node.inputs, *captured) if v is not None))
    written = [v for v in node.outputs if v.name]
    values = [*(written if node.op_type in _PARTIAL else ()), *(read[1:] if node.op_type in _PARTIAL else read), *written]
    sizes = [shapes.nbytes(value) for value in values]
    return None if None in sizes else sum(size for size in sizes if size is not None)
