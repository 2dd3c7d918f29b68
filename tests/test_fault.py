"""Which nodes of a network may meet a known fault."""

from __future__ import annotations

import onnx

from deep_bench.fault import KnownFault, exposures, nowhere, remarks
from deep_bench.framework import Adapter
from deep_bench.graph import Network, attributes

NESTED = """<ir_version: 10, opset_import: ["": 22]> nested (bool c, float[2] x) => (float[2] y) {
    [outer] h = Relu (x)
    [choice] y = If (c) <
        then_branch = yes () => (float[2] a) { [inner] a = Relu (h) },
        else_branch = no () => (float[2] b) { [other] b = Neg (h) }>
}"""


def network() -> Network:
    return Network.from_proto(onnx.parser.parse_model(NESTED))


def fault(**changes) -> KnownFault:
    facts = {"name": "late", "operators": ("Relu",), "severity": "wrong values", "reason": "It is late.", **changes}
    return KnownFault(**facts)


def test_nodes_in_subgraphs_are_named() -> None:
    (found,) = exposures(network(), [fault(), fault(operators=("Gelu",))])
    assert set(found.nodes) == {"outer", "inner"}
    assert str(found) == f"{', '.join(found.nodes)} may meet the known fault late (wrong values): It is late."


def test_what_the_adapter_avoids_or_states_elsewhere_is_not_named() -> None:
    assert exposures(network(), [fault(avoided=True), fault(applies=nowhere)]) == []


def test_the_condition_sees_attributes_and_inferred_shapes() -> None:
    def of_length_2(node) -> bool:
        return list(node.inputs[0].shape) == [2] and not attributes(node)

    (found,) = exposures(network(), [fault(operators=("Neg",), applies=of_length_2)])
    assert found.nodes == ("other",)


def test_many_nodes_are_counted() -> None:
    text = "\n".join(f"[n{i}] v{i + 1} = Relu (v{i})" for i in range(8))
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 22]> many (float[2] v0) => (float[2] v8) {{\n{text}\n}}'
    )
    (found,) = exposures(Network.from_proto(model), [fault()])
    assert "n0, n1, n2, n3, n4 and 3 more may meet" in str(found)
    assert len(found.nodes) == 8


def test_faults_that_cost_accuracy_only_share_a_short_line() -> None:
    coarse = fault(name="coarse", severity="less accurate")
    rough = fault(name="rough", severity="less accurate", operators=("Neg",))
    said = remarks(exposures(network(), [coarse, fault(), rough]))
    assert said[0].endswith("may meet the known fault late (wrong values): It is late.")
    assert said[1:] == ["less accurate by known faults: coarse at 2 nodes, rough at 1 node (docs/framework-findings.md)"]


def test_known_failures_follow_from_the_faults() -> None:
    class Late(Adapter):
        known_faults = (fault(cases=("test_relu",)),)

        def __init__(self): ...
        def from_numpy(self, array): ...
        def to_numpy(self, array): ...
        def synchronize(self): ...
        def prepare(self, network, *, mode="inference", outputs=None): ...
        def describe(self): ...

    assert Late().known_failures == {"test_relu": "It is late."}
