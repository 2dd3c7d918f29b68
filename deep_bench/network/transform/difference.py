"""Whether a transformation changed anything."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from deep_bench.graph import Network


def difference(before: Network, after: Network) -> str:
    """What to say of a transformation that left a network as it was; empty if it changed something.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> difference(network, network.copy()), difference(network, network.with_sizes({"batch": 2}))
        ('changed nothing', '')
    """
    if _same(before, after):
        return "changed nothing"
    if before.opset < after.opset and _same(before.upgraded(after.opset), after):
        return f"changed nothing but the opset, from {before.opset} to {after.opset}"
    return ""


def _same(before: Network, after: Network) -> bool:
    if before is after or before.model is after.model:
        return True
    borders = [(dict(n.opsets), *map(str, n.inputs), "", *map(str, n.outputs)) for n in (before, after)]
    return borders[0] == borders[1] and _same_constants(before, after) and list(_nodes(before)) == list(_nodes(after))


def _nodes(network: Network) -> Iterator[bytes]:
    for node in network.nodes:
        yield ir.to_proto(node).SerializeToString(deterministic=True)


def _same_constants(before: Network, after: Network) -> bool:
    ours, theirs = before.graph.initializers, after.graph.initializers
    return set(ours) == set(theirs) and all(_same_tensor(ours[n].const_value, theirs[n].const_value) for n in ours)


def _same_tensor(a: ir.TensorProtocol | None, b: ir.TensorProtocol | None) -> bool:
    if a is b or a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
