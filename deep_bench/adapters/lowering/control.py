"""Nodes that hold graphs: what is known of the results of ``If``, ``Loop``, ``Scan``, ``SequenceMap`` and ``Gradient``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.adapters.lowering.plan import DraftGraph, Fact, Shape, join, read_type, tensor_type
from deep_bench.errors import UnsupportedOperator
from deep_bench.graph.node import attributes, operator_name, outer_values, subgraphs

if TYPE_CHECKING:
    from deep_bench.adapters.lowering.analyse import Analysis

Analysed = tuple[Mapping[str, DraftGraph], list[Fact]]
_ROUNDS = 8


def branches(
    analysis: Analysis,
    node: ir.Node,
    _inputs: Sequence[Fact | None],
    _attributes: Mapping[str, Any],
    scope: int,
) -> Analysed:
    """Either branch may run: only what holds of both holds of the result."""
    graphs = subgraphs(node)
    drafts = {name: _inside(analysis, graphs[name], []) for name in ("then_branch", "else_branch")}
    ends = zip(node.outputs, drafts["then_branch"].outputs, drafts["else_branch"].outputs, strict=True)
    return drafts, [_either(analysis.name(v), scope, a, b) for v, a, b in ends]


def loop(
    analysis: Analysis,
    node: ir.Node,
    inputs: Sequence[Fact | None],
    _attributes: Mapping[str, Any],
    scope: int,
) -> Analysed:
    """What is carried keeps a dimension only if the body, given that dimension, returns it again."""
    body = subgraphs(node)["body"]
    first = [Fact("", 0, np.dtype(np.int64), ()), Fact("", 0, np.dtype(np.bool_))]
    carried = [f for f in inputs[2:] if f is not None]
    draft, settled = _settle(analysis, body, first, carried, [], skip=1)
    collected = [(None, f) for f in draft.outputs[1 + len(carried) :]]
    outputs = _results(analysis, node, scope, settled, collected, [0] * len(collected))
    return {"body": draft}, outputs


def scan(
    analysis: Analysis, node: ir.Node, inputs: Sequence[Fact | None], attributes: Mapping[str, Any], scope: int
) -> Analysed:
    """Like a loop; each iteration sees one slice of every scanned input."""
    body = subgraphs(node)["body"]
    present = [f for f in inputs if f is not None]
    count = attributes["num_scan_inputs"]
    carried, scanned = present[: len(present) - count], present[len(present) - count :]
    axes = attributes.get("scan_input_axes", (0,) * count)
    slices = [_slice(f, axis) for f, axis in zip(scanned, axes, strict=True)]
    draft, settled = _settle(analysis, body, [], carried, slices, skip=0)
    lengths = [f.shape[axis] for f, axis in zip(scanned, axes, strict=True) if f.shape is not None]
    length = next((n for n in lengths if n is not None), None)
    collected = [(length, f) for f in draft.outputs[len(carried) :]]
    places = attributes.get("scan_output_axes", (0,) * len(collected))
    return {"body": draft}, _results(analysis, node, scope, settled, collected, places)


def sequence_map(
    analysis: Analysis,
    node: ir.Node,
    inputs: Sequence[Fact | None],
    _attributes: Mapping[str, Any],
    scope: int,
) -> Analysed:
    """The body sees one member of every sequence; of those only the element type is known."""
    draft = _inside(analysis, subgraphs(node)["body"], [_member(f) for f in inputs if f is not None])
    outputs = []
    for value, fact in zip(node.outputs, draft.outputs, strict=False):
        kind = onnx.TypeProto()
        kind.sequence_type.elem_type.CopyFrom(tensor_type(fact.dtype, fact.shape))
        outputs.append(Fact(analysis.name(value), scope, kind=kind if fact.dtype is not None else None))
    return {"body": draft}, outputs


def _member(fact: Fact) -> Fact:
    """What is known of a member of a sequence, or of a tensor that is passed as it is."""
    if fact.kind is None or not fact.kind.HasField("sequence_type"):
        return Fact("", 0, fact.dtype, fact.shape, kind=fact.kind)
    dtype, shape, kind = read_type(fact.kind.sequence_type.elem_type)
    return Fact("", 0, dtype, shape, kind=kind)


CONTROL: Mapping[str, Callable[..., Analysed]] = {
    "If": branches,
    "Loop": loop,
    "Scan": scan,
    "SequenceMap": sequence_map,
}
"""Operator to what is known of a node of it with graphs of its own."""


def _inside(analysis: Analysis, graph: ir.Graph, inputs: Sequence[Fact]) -> DraftGraph:
    scope = analysis.new_scope()
    for value, fact in zip(graph.inputs, inputs, strict=True):
        analysis.bind(value, Fact(analysis.name(value), scope, fact.dtype, fact.shape, kind=fact.kind))
    return analysis.graph(graph, scope)


def _settle(
    analysis: Analysis,
    body: ir.Graph,
    first: Sequence[Fact],
    carried: Sequence[Fact],
    slices: Sequence[Fact],
    skip: int,
) -> tuple[DraftGraph, list[Fact]]:
    """Analyse a body until what it is assumed to be given is also what it returns."""
    assumed = [Fact("", 0, f.dtype, f.shape, kind=f.kind) for f in carried]
    for _ in range(_ROUNDS):
        draft = _inside(analysis, body, [*first, *assumed, *slices])
        returned = draft.outputs[skip : skip + len(assumed)]
        shapes = [join(a.shape, r.shape) for a, r in zip(assumed, returned, strict=True)]
        if shapes == [a.shape for a in assumed]:
            return draft, assumed
        assumed = [Fact("", 0, a.dtype, s, kind=a.kind) for a, s in zip(assumed, shapes, strict=True)]
    unknown = [Fact("", 0, f.dtype, kind=f.kind) for f in carried]
    return _inside(analysis, body, [*first, *unknown, *slices]), unknown


def _slice(fact: Fact, axis: int) -> Fact:
    if fact.shape is None:
        return Fact("", 0, fact.dtype)
    axis %= len(fact.shape)
    return Fact("", 0, fact.dtype, fact.shape[:axis] + fact.shape[axis + 1 :])


def _results(
    analysis: Analysis,
    node: ir.Node,
    scope: int,
    carried: Sequence[Fact],
    collected: Sequence[tuple[int | None, Fact]],
    axes: Sequence[int],
) -> list[Fact]:
    names = [analysis.name(v) for v in node.outputs]
    final = [Fact(n, scope, f.dtype, f.shape, kind=f.kind) for n, f in zip(names, carried, strict=False)]
    stacked = [
        Fact(n, scope, f.dtype, _stack(f.shape, length, axis))
        for n, (length, f), axis in zip(names[len(carried) :], collected, axes, strict=True)
    ]
    return final + stacked


def _stack(shape: Shape | None, length: int | None, axis: int) -> Shape | None:
    if shape is None:
        return None
    axis %= len(shape) + 1
    return (*shape[:axis], length, *shape[axis:])


def _either(name: str, scope: int, a: Fact, b: Fact) -> Fact:
    same_kind = a.kind is not None and b.kind is not None and a.kind == b.kind
    dtype = a.dtype if a.dtype == b.dtype else None
    return Fact(name, scope, dtype, join(a.shape, b.shape), kind=a.kind if same_kind else None)


GRADIENT = "ai.onnx.preview.training:Gradient"


def gradient(analysis: Analysis, node: ir.Node, inputs: Sequence[Fact | None]) -> DraftGraph:
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
            raise _unsupported(analysis, node, f"no value {name!r} comes before it")
    if len(input_names) != len(inputs) or any(f is None for f in inputs):
        raise _unsupported(analysis, node, f"{len(inputs)} inputs for {len(input_names)} tensors in xs and zs")
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


def _unsupported(analysis: Analysis, node: ir.Node, reason: str) -> UnsupportedOperator:
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


def _named_values(node: ir.Node) -> set[str]:
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
        names = _named_values(producer)
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
