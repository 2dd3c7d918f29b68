"""``fold``: what is the same in every run, computed once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from deep_bench import frameworks
from deep_bench.check.isolate import draws_at_random
from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.graph.node import as_array, is_standard, subgraphs
from deep_bench.graph.prune import prune
from deep_bench.network.transform.draft import Draft

LIMIT = 2**20
"""How large a folded result may be in bytes, unless it is no larger than what it is computed from."""


def fold(network: NetworkLike, *, limit: int = LIMIT) -> Network:
    """The network with the results of nodes that depend on constants only in the place of these nodes.

    The reference computes them, in the network's own element types. Nodes that draw random numbers stay, and so do those
    with graphs inside. A ``Shape`` or ``Size`` of what has a fixed shape counts as a constant. Values keep their names.

    Args:
        network: Any network, or its file.
        limit: How large a result may be, in bytes, unless it is no larger than the constants it is computed from.

    Raises:
        InvalidArgument: A negative limit.
        UnsupportedOperator: A node to fold has no reference.

    Example:
        >>> import onnx, deep_bench as db
        >>> proto = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 21]> f (float[2,3] x) => (float[6] y)
        ...     { s = Shape(x)  n = ReduceProd<keepdims = 1>(s)  y = Reshape(x, n) }''')
        >>> [node.op_type for node in fold(db.Network.from_proto(proto)).nodes]
        ['Reshape']
    """
    network = as_network(network)
    if limit < 0:
        raise InvalidArgument(f"a limit of {limit} bytes", "at least 0")
    draft = Draft(network, "folded", oldest=0)
    _fix_shapes(draft)
    chosen = _constant_nodes(draft, limit)
    results = _evaluated(draft, chosen)
    for node in chosen:
        input_bytes = sum(a.nbytes for v in node.inputs if (a := _contents(v, results)) is not None)
        values = [v for v in node.outputs if v.name and str(v.name) in results]
        if all(results[str(v.name)].nbytes <= max(limit, input_bytes) for v in values):
            for value in values:
                _store(draft, value, results[str(value.name)])
    return draft.finish()


def _contents(value: ir.Value | None, results: Mapping[str, np.ndarray]) -> np.ndarray | None:
    if value is None:
        return None
    return results.get(str(value.name), None if value.is_graph_input() else as_array(value))


def _fix_shapes(draft: Draft) -> None:
    """Replace ``Shape`` and ``Size`` of tensors whose dimensions are all fixed."""
    for node in tuple(draft.graph):
        if not is_standard(node) or node.op_type not in ("Shape", "Size") or node.inputs[0] is None:
            continue
        dims = draft.knowledge.dims(node.inputs[0])
        if dims is None or not all(isinstance(d, int) for d in dims):
            continue
        fixed = np.array(dims, np.int64)
        if node.op_type == "Size":
            array = np.asarray(np.prod(fixed, dtype=np.int64))
        else:
            bounds = {name: node.attributes[name].as_int() if name in node.attributes else None for name in ("start", "end")}
            array = fixed[slice(bounds["start"], bounds["end"])]
        _store(draft, node.outputs[0], array)


def _constant_nodes(draft: Draft, limit: int) -> list[ir.Node]:
    """The nodes that depend on constants only, in order."""
    constants: set[ir.Value] = {v for v in draft.graph.initializers.values() if not v.is_graph_input()}
    chosen: list[ir.Node] = []
    for node in draft.graph:
        if node.op_type == "Constant" and is_standard(node):
            constants.update(node.outputs)
        elif (
            _is_steady(node) and all(v is None or v in constants for v in node.inputs) and _may_be_small(draft, node, limit)
        ):
            constants.update(node.outputs)
            chosen.append(node)
    return chosen


def _is_steady(node: ir.Node) -> bool:
    """Whether a node's results are tensors that are the same in each run."""
    if draws_at_random(node) or subgraphs(node) or node.op_type.startswith(("Sequence", "Optional", "SplitToSequence")):
        return False
    return node.op_type != "Dropout" or len(node.inputs) < 3  # the third says whether it trains


def _may_be_small(draft: Draft, node: ir.Node, limit: int) -> bool:
    """Whether the results are not known to be too large; results of unknown size are computed only from small constants."""
    input_bytes = sum(a.nbytes for v in node.inputs if v is not None and (a := draft.constant(v)) is not None)
    sizes = [_size(draft, v) for v in node.outputs if v.name]
    fixed_sizes = [s for s in sizes if s is not None]
    if len(fixed_sizes) == len(sizes):
        return sum(fixed_sizes) <= max(limit, input_bytes)
    return node.op_type not in _GROWING


_GROWING = frozenset(["CenterCropPad", "ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Resize", "Tile"])
"""Operators whose results can be far larger than their inputs: folded only if their size is known."""


def _size(draft: Draft, value: ir.Value) -> int | None:
    dims, dtype = draft.knowledge.dims(value), draft.knowledge.dtype(value)
    if dims is None or not all(isinstance(d, int) for d in dims):
        return None
    return int(np.prod(dims, dtype=np.int64)) * (dtype.itemsize if dtype is not None else 8)  # type: ignore[arg-type]


def _evaluated(draft: Draft, nodes: list[ir.Node]) -> dict[str, np.ndarray]:
    """The results of nodes, by the reference: name to array."""
    names = [str(v.name) for n in nodes for v in n.outputs if v.name]
    if not names:
        return {}
    alone = draft.network.copy()
    values = {v.name: v for n in alone.graph for v in n.outputs}
    alone.graph.outputs[:] = [values[name] for name in names]
    prune(alone.graph)
    alone.graph.inputs[:] = [v for v in alone.graph.inputs if v.name in alone.graph.initializers]
    outputs = frameworks["reference"]().prepare(
        Network(alone.model, name=f"constants of {draft.source.name}"), outputs=names
    )
    return {name: np.asarray(y) for name, y in outputs({}).items() if isinstance(y, np.ndarray | np.generic)}


def _store(draft: Draft, value: ir.Value, array: np.ndarray) -> None:
    """Let an initializer of the same name stand for a value; one that the network returns needs a node that gives it."""
    tensor = ir.tensor(np.ascontiguousarray(array).reshape(array.shape))
    if value.is_graph_output():
        name = draft.names.fresh(f"{value.name}.constant")
        node = ir.Node("", "Constant", [], {"value": ir.AttrTensor("value", tensor)}, num_outputs=1, name=name)
        draft.graph.append(node)
        draft.supplant(value, node.outputs[0])
        return
    name = str(value.name)
    value.name = draft.names.fresh(f"{name}.before")
    initializer = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(array.shape), const_value=tensor)
    draft.graph.register_initializer(initializer)
    value.replace_all_uses_with(initializer)
