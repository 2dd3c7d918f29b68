"""Leaving out what no output needs."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

import deep_bench as db
from deep_bench.graph.node import needs, prune

UNUSED_BRANCH = """<ir_version: 10, opset_import: ["": 21]>
    branching (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> {
        a = Mul(x, w)
        unused = If(c) <
            then_branch = g () => (float[2] t) { t = Mul(a, a) },
            else_branch = h () => (float[2] e) { e = Neg(a) }>
        y = Add(x, v)
    }"""
UNUSED_INSIDE = """<ir_version: 10, opset_import: ["": 21]>
    inside (float[2] x, bool c) => (float[2] y) {
        a = Exp(x)
        y = If(c) <
            then_branch = g () => (float[2] t) { s = Mul(a, a)  t = Neg(x) },
            else_branch = h () => (float[2] e) { e = Abs(x) }>
    }"""


def graph(text: str) -> ir.Graph:
    return db.Network.from_proto(onnx.parser.parse_model(text)).copy().graph


def test_what_only_an_unused_branch_uses_goes_with_it() -> None:
    branching = graph(UNUSED_BRANCH)
    prune(branching)
    assert [node.op_type for node in branching] == ["Add"]
    assert list(branching.initializers) == ["v"]
    assert [len(value.uses()) for value in branching.inputs] == [1, 0]


def test_the_pass_of_onnx_ir_leaves_it() -> None:
    network = db.Network.from_proto(onnx.parser.parse_model(UNUSED_BRANCH)).copy()
    RemoveUnusedNodesPass()(network.model)
    assert "Mul" in [node.op_type for node in network.graph]  # once this fails, that pass can be used instead


def test_what_nothing_needs_inside_a_branch_goes_too() -> None:
    inside = graph(UNUSED_INSIDE)
    prune(inside)
    (node,) = inside
    assert [n.op_type for n in node.attributes["then_branch"].as_graph()] == ["Neg"]
    assert {v.name for v in needs(node)} == {"x", "c"}


def test_gradients_leave_nothing_unused_behind() -> None:
    network = db.Network.from_proto(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        f (float[2] x, bool c) => (float loss) {
            a = Exp(x)
            unused = If(c) <
                then_branch = g () => (float[2] t) { t = Mul(a, a) },
                else_branch = h () => (float[2] e) { e = Neg(a) }>
            y = Mul(x, x)
            loss = ReduceSum<keepdims = 0>(y)
        }""")
    )
    assert not {"If", "Exp"} & {node.op_type for node in db.network.differentiate(network).nodes}
