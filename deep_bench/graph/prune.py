"""Leaving out what no output needs."""

from __future__ import annotations

import onnx_ir as ir

from deep_bench.graph.node import outer_values, subgraphs


def needs(node: ir.Node) -> set[ir.Value]:
    """The values that a node uses, and the graphs in it."""
    inner = {v for graph in subgraphs(node).values() for v in outer_values(graph)}
    return {v for v in node.inputs if v is not None} | inner


def prune(graph: ir.Graph) -> None:
    """Remove the nodes and the initializers that no output needs, in the graphs inside nodes too.

    Uses by the graphs inside removed nodes end too, which ``onnx_ir``'s own pass leaves.

    Args:
        graph: Changed in place; its nodes are in order. Inputs stay, needed or not.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn").copy()
        >>> network.graph.outputs[:] = [network.nodes[0].outputs[0]]
        >>> prune(network.graph)
        >>> [node.name for node in network.nodes]
        ['stem']
    """
    needed = set(graph.outputs)
    dead = []
    for node in reversed(graph):
        if any(v in needed for v in node.outputs):
            for held in subgraphs(node).values():
                prune(held)
            needed |= needs(node)
        else:
            dead.append(node)
    for node in dead:
        _let_go(node)
    graph.remove(dead)
    for name, value in list(graph.initializers.items()):
        if value not in needed and not value.is_graph_input():
            del graph.initializers[name]


def _let_go(node: ir.Node) -> None:
    """End all uses of values by a node and the graphs in it."""
    inner = [g for held in subgraphs(node).values() for g in (held, *held.subgraphs())]
    for user in [node, *(n for g in inner for n in g)]:
        for index in range(len(user.inputs)):
            user.replace_input_with(index, None)
    for held in inner:
        held.outputs.clear()
