"""Values that only set a network up keep its own element types."""

from __future__ import annotations

import numpy as np
from onnx import parser

from deep_bench.check.oracle import WideArithmetic, establish, formats_of, settings_of
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

_SIZES = """<ir_version: 10, opset_import: ["": 21]>
g (float[n] x, float factor) => (float[m] y) {
    shape = Shape(x)
    size = Cast<to=1>(shape)
    scaled = Mul(size, factor)
    floored = Floor(scaled)
    target = Cast<to=7>(floored)
    doubled = Add(x, x)
    y = Expand(doubled, target)
}"""


def _network(text: str) -> Network:
    return Network.from_proto(parser.parse_model(text))


def test_what_only_feeds_a_shape_is_a_setting() -> None:
    found = settings_of(_network(_SIZES).graph)
    assert {"shape", "size", "scaled", "floored", "target"} <= found
    assert not {"doubled", "y"} & found


def test_a_shape_is_computed_in_the_networks_own_type() -> None:
    """``floor(0.7f * 10)`` is 7 in float32 and 6 in float64."""
    text = _SIZES.replace("float factor", "float factor, float[1] one").replace(
        "doubled = Add(x, x)", "doubled = Add(one, one)"
    )
    inputs = {"x": np.zeros(10, np.float32), "factor": np.array(0.7, np.float32), "one": np.ones(1, np.float32)}
    truth = establish(_network(text), inputs)
    assert truth.outputs["y"].shape == (7,)
    assert all(sample["y"].shape == (7,) for sample in truth.samples)


def test_an_index_computed_by_a_decision_is_not_a_setting_further_up() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[4,8] x, float[8,6] w, float[6,3] table) => (float[4,3] y) {
        logits = MatMul(x, w)
        best = ArgMax<axis=1, keepdims=0>(logits)
        y = Gather(table, best)
    }"""
    assert settings_of(_network(text).graph) == frozenset()


def test_settings_are_found_through_subgraphs() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[n] x, bool flag) => (float[m] y) {
        size = Shape(x)
        chosen = If (flag) <
            then_branch = a () => (t) { t = Identity(size) },
            else_branch = b () => (e) { one = Constant<value_int=1>() e = Mul(size, one) }
        >
        y = Expand(x, chosen)
    }"""
    assert {"size", "t", "e"} <= settings_of(_network(text).graph)


def test_casts_round_and_widening_does_not() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[3] x) => (float[3] y, float[3] z) {
        half = Cast<to=10>(x)
        y = Cast<to=1>(half)
        third = Constant<value_float=3.0>()
        z = Div(x, third)
    }"""
    x = np.array([0.1, 1.0, 70000.0], np.float32)
    reference = ReferenceAdapter().prepare(_network(text))
    outputs = reference.evaluate({"x": x}, arithmetic=WideArithmetic(formats_of(reference, {"x": x})))
    np.testing.assert_array_equal(outputs["y"], [float(np.float16(0.1)), 1.0, np.inf])
    np.testing.assert_array_equal(outputs["z"], x.astype(np.float64) / 3)
