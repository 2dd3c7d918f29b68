"""Smaller networks made from a network: some of its nodes, fed with the oracle's values where the others were."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.check.oracle import WideArithmetic
from deep_bench.check.settings import settings_of
from deep_bench.check.truth import formats_of, narrowed
from deep_bench.errors import UnsupportedOperator
from deep_bench.graph import Network
from deep_bench.graph.node import as_array, outer_values, subgraphs
from deep_bench.tensor import is_float

_CONSTANT_UP_TO = 64


@dataclass(frozen=True, eq=False)
class Candidate:
    """A network with its inputs.

    Args:
        network: No open dimensions.
        inputs: Name to array.
        known: Name to the oracle's value, as far as they are known from a larger network.
    """

    network: Network
    inputs: Mapping[str, np.ndarray]
    known: Mapping[str, np.ndarray] = field(default_factory=dict)

    @cached_property
    def values(self) -> Mapping[str, np.ndarray]:
        """The oracle's value of every tensor of the outermost graph, in the network's element types.

        Raises:
            UnsupportedOperator: A node has no reference.
        """
        if self.known:
            return self.known
        return oracle_values(self.network, self.inputs)

    @cached_property
    def comparable(self) -> bool:
        """Whether every node has a reference, so that there is an oracle."""
        from deep_bench import frameworks

        try:
            frameworks["reference"]().prepare(self.network)
        except UnsupportedOperator:
            return False
        return True

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes that compute something."""
        return [str(n.name) for n in self.network.nodes if n.op_type != "Constant"]

    @property
    def size(self) -> int:
        """The number of elements of all inputs and weights."""
        return sum(a.size for a in (*self.inputs.values(), *self.network.initializers.values()))

    def expected(self) -> dict[str, np.ndarray]:
        """The oracle's outputs, in the network's element types."""
        values = {**self.inputs, **self.network.initializers, **self.values}
        return {spec.name: values[spec.name] for spec in self.network.outputs if spec.name in values}


def oracle_values(network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The oracle's value of every tensor that a node of the outermost graph gives, in the network's element types."""
    from deep_bench import frameworks

    reference = frameworks["reference"]().prepare(network)
    formats = formats_of(reference, inputs)
    upgraded = network.upgraded()
    outermost = {str(v.name) for node in upgraded.nodes for v in node.outputs if v.name}
    values: dict[str, np.ndarray] = {}

    def observe(step: Any, arrays: Sequence[Any], results: Sequence[Any]) -> None:  # noqa: ARG001 (an Observer)
        for name, y in zip(step.outputs, results, strict=False):
            if name in outermost and isinstance(y, np.ndarray | np.generic):
                values[name] = narrowed(np.asarray(y), formats.get(name))

    reference.evaluate(inputs, arithmetic=WideArithmetic(formats, settings_of(upgraded.graph)), observe=observe)
    constants = ((str(v.name), as_array(v)) for node in network.nodes for v in node.outputs if v.name)
    values.update({name: array for name, array in constants if array is not None})
    return values


def keep_nodes(whole: Candidate, names: Collection[str], *, outputs: Collection[str] | None = None) -> Candidate | None:
    """The network of these nodes alone: what others gave them is fed, what they give to others is returned.

    Args:
        whole: The network they are from.
        names: Names of nodes.
        outputs: Which of the values to return; by default all that the others or the caller used.

    Returns:
        ``None`` where that cannot be: a value that would have to be fed is not known or no tensor, or nothing is left.
    """
    changed = whole.network.copy()
    graph = changed.graph
    selected = {*names}
    dropped = [n for n in graph if n.name not in selected and not (n.op_type == "Constant" and _is_read(n, selected))]
    gone = set(dropped)
    owners = dict(_owners(graph))
    returned = [
        v
        for node in graph
        if node not in gone and node.op_type != "Constant"
        for v in node.outputs
        if v.name and (v.is_graph_output() or any(owners[u.node] in gone for u in v.uses()))
    ]
    returned = [v for v in returned if outputs is None or v.name in outputs]
    if not returned:
        return None
    feeds = dict(whole.inputs)
    for node in dropped:
        for value in node.outputs:
            if not value.name or all(owners[u.node] in gone for u in value.uses()):
                continue
            if value.name not in whole.values or _leaves_subgraph(value, graph, gone):
                return None
            _replace(graph, value, whole.values[value.name], feeds)
    graph.outputs[:] = returned
    _remove(graph, dropped)
    return finished(changed, feeds, whole.values if dropped else whole.known)


def finished(
    changed: Network, feeds: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray], *, keep_values: bool = True
) -> Candidate:
    """A candidate of a graph that was changed: without what nothing uses, its outputs declared as they are.

    Args:
        changed: The network; it is changed further.
        feeds: Arrays of its inputs, and perhaps of more.
        values: The oracle's values.
        keep_values: Whether these still hold.
    """
    graph = changed.graph
    _remove_unused(graph)
    for node in graph:
        for value in node.outputs:
            value.shape = None
    for value in graph.outputs:
        if (array := values.get(str(value.name))) is not None:
            declare(value, array)
    network = Network(changed.model, name=changed.name)
    fed = {spec.name: feeds[spec.name] for spec in network.inputs}
    return Candidate(network, fed, values if keep_values else {})


def declare(value: ir.Value, array: np.ndarray) -> None:
    """Give a value the element type and shape of an array."""
    strings = array.dtype == object or array.dtype.kind in "US"
    value.type = ir.TensorType(ir.DataType.STRING if strings else ir.DataType.from_numpy(array.dtype))
    value.shape = ir.Shape(array.shape)


def _is_read(constant: ir.Node, names: set[str]) -> bool:
    """Whether a constant feeds one of these nodes, or a subgraph."""
    return any(u.node.name in names or u.node.graph is not constant.graph for u in constant.outputs[0].uses())


def _owners(graph: ir.Graph) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Every node, those in subgraphs included, with the node of the outermost graph that it is part of."""
    for node in graph:
        yield node, node
        for body in subgraphs(node).values():
            yield from ((inner, node) for inner in body.all_nodes())


def _leaves_subgraph(value: ir.Value, graph: ir.Graph, gone: set[ir.Node]) -> bool:
    """Whether a kept node's subgraph returns the value itself, which no use says."""
    bodies = [b for n in graph if n not in gone for b in subgraphs(n).values()]
    return any(value in outer_values(b) and not any(value in n.inputs for n in b.all_nodes()) for b in bodies)


def _replace(graph: ir.Graph, value: ir.Value, array: np.ndarray, feeds: dict[str, np.ndarray]) -> None:
    """Feed a value instead of computing it: integers that may be shapes or indices as a constant, the rest as an input."""
    name = str(value.name)
    fresh = ir.Value(name=name)
    declare(fresh, array)
    ir.convenience.replace_all_uses_with(value, fresh)
    value.name = f"{name} before"
    if not is_float(array.dtype) and array.size <= _CONSTANT_UP_TO and array.dtype != object:
        fresh.const_value = ir.tensor(array, name=name)
        graph.initializers[name] = fresh
    else:
        graph.inputs.append(fresh)
        feeds[name] = array


def _remove(graph: ir.Graph, nodes: Sequence[ir.Node]) -> None:
    """Take nodes out, so that neither they nor their subgraphs use anything any more."""
    for node in nodes:
        for inner in (node, *(n for body in subgraphs(node).values() for n in body.all_nodes())):
            for place in range(len(inner.inputs)):
                inner.replace_input_with(place, None)
    graph.remove(nodes, safe=True)


def _remove_unused(graph: ir.Graph) -> None:
    """Drop nodes, inputs and initializers that no output depends on."""
    needed = True
    while needed:
        idle = [n for n in graph if not any(v.uses() or v.is_graph_output() for v in n.outputs)]
        _remove(graph, idle)
        needed = bool(idle)
    captured = {v for n in graph for b in subgraphs(n).values() for v in outer_values(b)}
    used = {v for n in graph for v in n.inputs if v is not None} | captured | set(graph.outputs)
    for name in [n for n, v in graph.initializers.items() if v not in used]:
        del graph.initializers[name]
    graph.inputs[:] = [v for v in graph.inputs if v in used]
