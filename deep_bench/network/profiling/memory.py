"""The memory that a network needs, by the lives of its values."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from deep_bench.graph import Network
from deep_bench.graph.node import outer_values, subgraphs
from deep_bench.operators.cost import KnownSizes, Sizes


@dataclass(frozen=True)
class Liveness:
    """Bytes, by the shapes of values and the order of the nodes.

    Args:
        parameters: Of all initializers.
        inputs: Of what is fed.
        peak: Of the most activations that are alive at once: from the node that makes a value to the last that reads it,
            and outputs to the end. Inputs and parameters are not among them.
        at: Name of the node at which that is.
        all_activations: Of all activations together: what must be kept where gradients are to follow.
        unknown: Number of values whose size is not known before a run, and that are left out.
    """

    parameters: int
    inputs: int
    peak: int
    at: str
    all_activations: int
    unknown: int


def liveness(network: Network, sizes: Sizes | None = None) -> Liveness:
    """How much memory values take at once when the nodes run in the order of the file.

    Values of subgraphs are not counted; a framework may reuse an input's memory for a result, or need room of its own.

    Args:
        network: With fixed input dimensions.
        sizes: Those of its values, if they are at hand.

    Example:
        >>> import deep_bench as db
        >>> found = liveness(db.load("digits-cnn").with_sizes({"batch": 1}))
        >>> found.peak, found.at  # 32 * 8 * 8 float32, read and written
        (16384, 'pointwise_relu')
    """
    sizes = sizes or KnownSizes(network)
    last = _last_uses(network)
    alive, peak, at, total, unknown = 0, 0, "", 0, 0
    for index, node in enumerate(network.nodes):
        for value in node.outputs:
            size = sizes.nbytes(value) if value.name else 0
            unknown += size is None
            alive += size or 0
            total += size or 0
        if alive > peak:
            peak, at = alive, str(node.name)
        alive -= sum(sizes.nbytes(value) or 0 for value in last.get(index, ()))
    fed = [v for v in network.graph.inputs if v.name not in network.graph.initializers]
    return Liveness(
        sum(array.nbytes for array in network.initializers.values()),
        sum(sizes.nbytes(value) or 0 for value in fed),
        peak,
        at,
        total,
        unknown,
    )


def _last_uses(network: Network) -> dict[int, list[ir.Value]]:
    """Index of a node to the values that no later one reads, and that are no outputs."""
    outputs = set(network.graph.outputs)
    last: dict[ir.Value, int] = {}
    for index, node in enumerate(network.nodes):
        captured = [v for graph in subgraphs(node).values() for v in outer_values(graph)]
        for value in (*node.outputs, *node.inputs, *captured):
            if value is not None and value.producer() is not None and value not in outputs:
                last[value] = index
    by_index: dict[int, list[ir.Value]] = {}
    for value, index in last.items():
        if value.name:
            by_index.setdefault(index, []).append(value)
    return by_index
