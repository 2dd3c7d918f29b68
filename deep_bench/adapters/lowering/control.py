"""What is known of the results of ``If``, ``Loop``, ``Scan`` and ``SequenceMap``, and inside their graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.adapters.lowering.draft import Draft
from deep_bench.adapters.lowering.facts import Fact, Shape, join, read_type, tensor_type
from deep_bench.graph.node import subgraphs

if TYPE_CHECKING:
    from deep_bench.adapters.lowering.analyse import Analysis

Analysed = tuple[Mapping[str, Draft], list[Fact]]
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


def _inside(analysis: Analysis, graph: ir.Graph, inputs: Sequence[Fact]) -> Draft:
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
) -> tuple[Draft, list[Fact]]:
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
