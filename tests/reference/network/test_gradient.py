"""The operator Gradient in a network: what lies between ``xs``, ``zs`` and ``y`` is found and differentiated."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.errors import InvalidNetwork
from deep_bench.graph import Network
from deep_bench.reference.network import ReferenceAdapter

TRAINING = "ai.onnx.preview.training"
W = np.array([[0.5, -1.0], [0.25, 2.0]], np.float32)


def network(body: str, outputs: str) -> Network:
    text = f"""
    <ir_version: 10, opset_import: ["" : 20, "{TRAINING}" : 1]>
    g (float[2,2] x, float[2,2] z) => ({outputs})
    {{ {body} }}"""
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(W, "w"))
    return Network.from_proto(proto, name="gradient")


def run(body: str, outputs: str = "float[2,2] dx") -> dict[str, np.ndarray]:
    executor = ReferenceAdapter().prepare(network(body, outputs))
    rng = np.random.default_rng(0)
    return executor({name: rng.standard_normal((2, 2)).astype(np.float32) for name in ("x", "z")})


def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 2)).astype(np.float32), rng.standard_normal((2, 2)).astype(np.float32)


MODEL = "h = MatMul(x, w) t = Tanh(h) y = Mul(t, z)"


def test_through_a_weight_and_only_along_the_way() -> None:
    x, z = inputs()
    found = run(
        f'{MODEL} other = Exp(h) dx, dz = {TRAINING}.Gradient <xs = ["x", "z"], y = "y"> (x, z)',
        "float[2,2] dx, float[2,2] dz, float[2,2] y, float[2,2] other",
    )
    t = np.tanh(x.astype(np.float64) @ W)
    np.testing.assert_allclose(found["dx"], ((1 - t * t) * z) @ W.T, rtol=1e-6)
    np.testing.assert_allclose(found["dz"], t, rtol=1e-6)
    np.testing.assert_allclose(found["y"], t * z, rtol=1e-5)
    np.testing.assert_allclose(found["other"], np.exp(x @ W), rtol=1e-5)


def test_with_respect_to_a_value_in_between_at_another_point() -> None:
    x, z = inputs()
    found = run(f'{MODEL} dh = {TRAINING}.Gradient <xs = ["h"], zs = ["z"], y = "y"> (x, z)', "float[2,2] dh, float[2,2] y")
    np.testing.assert_allclose(found["dh"], (1 - np.tanh(x) ** 2) * z, rtol=1e-5)
    np.testing.assert_allclose(found["y"], np.tanh(x @ W) * z, rtol=1e-5)


def test_the_node_may_stand_before_what_it_differentiates() -> None:
    _, z = inputs()
    found = run(f'dx = {TRAINING}.Gradient <xs = ["x"], zs = ["z"], y = "y"> (x, z) y = Mul(x, z)')
    np.testing.assert_allclose(found["dx"], z, rtol=1e-6)


def test_gradient_of_a_gradient() -> None:
    x, _ = inputs()
    body = f"""
    y = Mul(x, x) u = Mul(y, x)
    first = {TRAINING}.Gradient <xs = ["x"], y = "u"> (x)
    dx = {TRAINING}.Gradient <xs = ["x"], y = "first"> (x)"""
    np.testing.assert_allclose(run(body)["dx"], 6 * x, rtol=1e-6)


def test_casts_do_not_round_what_is_differentiated() -> None:
    _, z = inputs()
    body = f"""
    half = Cast <to = 10> (x) back = CastLike(half, x) y = Mul(back, z)
    dx = {TRAINING}.Gradient <xs = ["x"], zs = ["z"], y = "y"> (x, z)"""
    np.testing.assert_allclose(run(body)["dx"], z, rtol=1e-6)


def test_through_a_branch_that_uses_what_is_outside() -> None:
    _, z = inputs()
    body = f"""
    zero = Constant <value_float = 0.0> () two = Constant <value_float = 2.0> ()
    s = ReduceSum <keepdims = 0> (z) c = Less(s, zero)
    y = If (c) <then_branch = a () => (p) {{ p = Mul(x, z) }}, else_branch = b () => (q) {{ q = Mul(x, two) }}>
    dx = {TRAINING}.Gradient <xs = ["x"], zs = ["z"], y = "y"> (x, z)"""
    expected = z if z.sum() < 0 else np.full((2, 2), 2.0)
    np.testing.assert_allclose(run(body)["dx"], expected, rtol=1e-6)


def test_what_no_node_gives_is_refused() -> None:
    with pytest.raises(InvalidNetwork, match="differentiates 'nothing'"):
        run(f'dx = {TRAINING}.Gradient <xs = ["x"], y = "nothing"> (x)')
