"""``Gradient``: the part of a network that is differentiated, as a graph of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from deep_bench.adapters.lowering.draft import Draft
from deep_bench.adapters.lowering.facts import Fact
from deep_bench.errors import UnsupportedOperator
from deep_bench.graph.node import attributes, operator_name, outer_values, subgraphs

if TYPE_CHECKING:
    from deep_bench.adapters.lowering.analyse import Analysis

GRADIENT = "ai.onnx.preview.training:Gradient"


def gradient(analysis: Analysis, node: ir.Node, inputs: Sequence[Fact | None]) -> Draft:
    """The graph from the tensors that ``xs`` and ``zs`` name to the one that ``y`` names, analysed.

    Args:
        analysis: What is known of the network's values.
        node: A ``Gradient``.
        inputs: The values to differentiate at, in the order of ``xs`` and ``zs``.

    Returns:
        A graph with one input for each of these; what else it needs, it captures.

    Raises:
        UnsupportedOperator: An attribute names no value that comes before the node.

    Source:
        ONNX Gradient, version 1 of ai.onnx.preview.training.
    """
    settings = attributes(node)
    values = {str(v.name): v for v in _before(node)}
    input_names = [*settings["xs"], *settings.get("zs", ())]
    for name in [*input_names, settings["y"]]:
        if name not in values:
            raise _refused(analysis, node, f"no value {name!r} comes before it")
    if len(input_names) != len(inputs) or any(f is None for f in inputs):
        raise _refused(analysis, node, f"{len(inputs)} inputs for {len(input_names)} tensors in xs and zs")
    fed = [values[name] for name in input_names]
    assert isinstance(node.graph, ir.Graph)
    graph = _between(analysis, node.graph, fed, values[settings["y"]])
    scope = analysis.new_scope()
    for index, value in enumerate(graph.inputs):
        fact = inputs[index] if index < len(fed) else None
        if fact is not None:
            analysis.bind(value, Fact(analysis.name(value), scope, fact.dtype, fact.shape))
        else:
            analysis.bind(value, analysis.fact(values[str(value.name)]))
    draft = analysis.graph(graph, scope)
    draft.inputs = draft.inputs[: len(fed)]
    return draft


def _refused(analysis: Analysis, node: ir.Node, reason: str) -> UnsupportedOperator:
    return UnsupportedOperator(str(node.name), operator_name(node), analysis.opsets.get(node.domain), reason)


def _before(node: ir.Node) -> list[ir.Value]:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    values = [*graph.inputs, *graph.initializers.values()]
    for earlier in graph:
        if earlier is node:
            break
        values += earlier.outputs
    return values


def _named(node: ir.Node) -> set[str]:
    """The values that a ``Gradient`` speaks of."""
    if operator_name(node) != GRADIENT:
        return set()
    settings = attributes(node)
    return {*settings["xs"], *settings.get("zs", ()), settings["y"]}


def _between(analysis: Analysis, graph: ir.Graph, fed: Sequence[ir.Value], y: ir.Value) -> ir.Graph:
    """A copy of the nodes that ``y`` depends on, back to the values that are fed; the rest of what it takes are inputs."""
    nodes: dict[ir.Node, None] = {}
    outer: dict[ir.Value, None] = {}
    pending = [y]
    while pending:
        value = pending.pop()
        producer = value.producer()
        if value in fed or producer in nodes:
            continue
        if producer is None or value.const_value is not None:
            outer[value] = None
            continue
        nodes[producer] = None
        captured = [v for inner in subgraphs(producer).values() for v in outer_values(inner)]
        names = _named(producer)
        named = [v for v in _before(producer) if v.name in names] if names else []
        pending += [v for v in (*producer.inputs, *captured, *named) if v is not None]
    ordered = [n for n in graph if n in nodes]
    proto = onnx.GraphProto(name=analysis.names.fresh("differentiated"), node=[ir.to_proto(n) for n in ordered])
    proto.input.extend(onnx.ValueInfoProto(name=v.name) for v in (*fed, *outer))
    proto.output.extend([onnx.ValueInfoProto(name=y.name)])
    subgraph = ir.serde.deserialize_graph(proto)
    for copy, original in zip(subgraph, ordered, strict=True):
        copy.meta.update(original.meta)
    return subgraph
