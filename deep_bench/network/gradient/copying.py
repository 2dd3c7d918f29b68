"""Copies of graphs under new names, and moving their nodes to a tape."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from deep_bench.graph.node import subgraphs
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape


def copied(graph: ir.Graph, tape: Tape) -> ir.Graph:
    """A copy of a subgraph in which every node and value has a new name; what it takes from around it stays.

    What is known of a value is known of its copy.
    """
    clone = graph.clone(allow_outer_scope_values=True)
    _rename(graph, clone, tape)
    return clone


def _rename(graph: ir.Graph, clone: ir.Graph, tape: Tape) -> None:
    names, knowledge = tape.names, tape.knowledge

    def rename(old: ir.Value, new: ir.Value) -> None:
        if old.name:
            new.name = names.fresh(f"{old.name}.again")
            knowledge.state(new, knowledge.type_of(old))

    old_initializers = [v for v in graph.initializers.values() if not v.is_graph_input()]
    theirs = [v for v in clone.initializers.values() if not v.is_graph_input()]
    for old_value, new_value in zip([*graph.inputs, *old_initializers], [*clone.inputs, *theirs], strict=True):
        rename(old_value, new_value)
    for old, new in zip(graph, clone, strict=True):
        new.name = names.fresh(f"{old.name}.again")
        for old_value, new_value in zip(old.outputs, new.outputs, strict=True):
            rename(old_value, new_value)
        for inner, copy in zip(subgraphs(old).values(), subgraphs(new).values(), strict=True):
            _rename(inner, copy, tape)


def inlined(graph: ir.Graph, inputs: Sequence[Symbol], tape: Tape) -> list[Symbol]:
    """Move the nodes of a graph, whose names must be new, to a tape.

    Args:
        graph: It is empty afterwards.
        inputs: What stands for its inputs.
        tape: Where the nodes go.

    Returns:
        Its outputs.
    """
    stands_for = dict(zip(graph.inputs, inputs, strict=True))
    outputs = [stands_for.get(v, Symbol(tape, v)) for v in graph.outputs]
    graph.outputs.clear()
    for inner, outer in stands_for.items():
        inner.replace_all_uses_with(outer.value)
    for name, value in list(graph.initializers.items()):
        del graph.initializers[name]
        tape.graph.register_initializer(value)
        tape.knowledge.state(value, ir.to_proto(value).type)
    for node in list(graph):
        graph.remove(node)
        tape.append(node)
    return outputs
