"""Unique names for all nodes and values of a network, subgraphs included."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from deep_bench.graph.node import subgraphs


def make_names_unique(graph: ir.Graph) -> None:
    """Name every node and value that has no name, and rename those whose name is taken.

    Sibling subgraphs may use the same names in ONNX. Here names identify values across a whole network, so the first
    holder in document order keeps its name and later ones get a suffix.
    """
    nodes: set[str] = set()
    values: set[str] = set()
    for inner in _graphs(graph):
        for value in _own_values(inner):
            if not value.name or value.name in values:
                value.name = _fresh(value.name or "value", values)
            values.add(value.name)
        for node in inner:
            if not node.name or node.name in nodes:
                node.name = _fresh(node.name or node.op_type, nodes)
            nodes.add(node.name)


def _graphs(graph: ir.Graph) -> Iterator[ir.Graph]:
    """The graph, then the subgraphs of its nodes, depth first."""
    yield graph
    for node in graph:
        for inner in subgraphs(node).values():
            yield from _graphs(inner)


def _own_values(graph: ir.Graph) -> Iterator[ir.Value]:
    yield from graph.inputs
    yield from (v for v in graph.initializers.values() if not v.is_graph_input())
    for node in graph:
        # An omitted optional output has the empty name and no uses; it must stay unnamed.
        yield from (v for v in node.outputs if v.name or v.uses() or v.is_graph_output())


def _fresh(name: str, used_names: set[str]) -> str:
    number = 1
    while f"{name}_{number}" in used_names:
        number += 1
    return f"{name}_{number}"
