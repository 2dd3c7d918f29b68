"""Networks that hold many single nodes of another network side by side, each with inputs of its own.

Running such a network replays every node alone, in one call of a runtime.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from deep_bench.graph import Network
from deep_bench.graph.attached import keep_attached
from deep_bench.graph.node import as_array, is_standard, subgraphs

_RANDOM = frozenset(["RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"])
SUFFIX = "__replayed"
"""What is added to the name of a value that is fed to a node alone."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """Single nodes side by side.

    Args:
        network: The nodes; its outputs are all of theirs, under their own names.
        inputs: What to feed.
        nodes: The nodes as the original network has them.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    nodes: tuple[ir.Node, ...]


def replayable(network: Network, values: Mapping[str, np.ndarray]) -> Iterator[ir.Node]:
    """The nodes, those in subgraphs included, that can be run alone: all inputs and outputs are known tensors."""
    for node in network.all_nodes():
        if node.op_type == "Constant" or draws_at_random(node) or subgraphs(node):
            continue
        inputs = [v for v in node.inputs if v is not None]
        inputs_known = all(v.name in values or as_array(v) is not None for v in inputs)
        if inputs_known and any(v.name in values for v in node.outputs):
            yield node


def draws_at_random(node: ir.Node) -> bool:
    """Whether a node's results differ from run to run."""
    return is_standard(node) and node.op_type in _RANDOM


def isolate(network: Network, nodes: Sequence[ir.Node], values: Mapping[str, np.ndarray]) -> Isolated:
    """A network of these nodes alone.

    Args:
        network: The network they are from.
        nodes: Some of its nodes.
        values: Name to array of every value that they read or write. Initializers and constants stay what they are, so
            that a runtime knows them when it prepares.
    """
    fed: dict[str, ir.Value] = {}
    constants: dict[str, ir.Value] = {}
    copies = [_copy(node, values, fed, constants) for node in nodes]
    outputs = [v for copy in copies for v in copy.outputs if v.name]
    graph = ir.Graph(
        tuple(fed.values()),
        outputs,
        nodes=copies,
        initializers=tuple(constants.values()),
        opset_imports=dict(network.graph.opset_imports),
        name="replay",
    )
    model = ir.Model(graph, ir_version=network.model.ir_version, functions=tuple(network.model.functions.values()))
    feeds = {name: values[name.removesuffix(SUFFIX)] for name in fed}
    return Isolated(Network(model, name=f"{network.name} replayed"), feeds, tuple(nodes))


def _copy(
    node: ir.Node, values: Mapping[str, np.ndarray], fed: dict[str, ir.Value], constants: dict[str, ir.Value]
) -> ir.Node:
    inputs = [None if v is None else _source(v, values, fed, constants) for v in node.inputs]
    outputs = [ir.Value(name=v.name if v.name in values else "") for v in node.outputs]
    for value in outputs:
        if value.name:
            _declare(value, values[value.name])
    copy = ir.Node(
        node.domain,
        node.op_type,
        inputs,
        list(node.attributes.values()),
        overload=node.overload,
        outputs=outputs,
        version=node.version,
        name=node.name,
    )
    keep_attached(node, copy)
    return copy


def _source(
    value: ir.Value, values: Mapping[str, np.ndarray], fed: dict[str, ir.Value], constants: dict[str, ir.Value]
) -> ir.Value:
    name = str(value.name)
    array = as_array(value)
    if array is not None:
        if name not in constants:
            tensor = value.const_value if value.const_value is not None else ir.tensor(array, name=name)
            constants[name] = ir.Value(name=f"{name}{SUFFIX}", const_value=tensor)
            _declare(constants[name], array)
        return constants[name]
    fresh = f"{name}{SUFFIX}"
    if fresh not in fed:
        fed[fresh] = ir.Value(name=fresh)
        _declare(fed[fresh], values[name])
    return fed[fresh]


def _declare(value: ir.Value, array: np.ndarray) -> None:
    strings = array.dtype == object or array.dtype.kind in "US"
    value.type = ir.TensorType(ir.DataType.STRING if strings else ir.DataType.from_numpy(array.dtype))
    value.shape = ir.Shape(array.shape)
