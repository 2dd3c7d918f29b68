"""Batch normalization in the weights of what is before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

import deep_bench as db
from deep_bench.network.transform import check, constants, fuse_batchnorm
from deep_bench.network.transform.draft import Draft
from tests.network.transform.texts import digits, network, normal, operators

NORM = "y = BatchNormalization<epsilon = 0.01>(z, scale, shift, mean, variance)"


def statistics(channels: int) -> dict[str, np.ndarray]:
    positive = np.abs(normal(channels, seed=4)) + 0.1
    return {"scale": normal(channels, seed=1), "shift": normal(channels, seed=2), "mean": normal(channels, seed=3)} | {
        "variance": positive
    }


def fused(text: str, channels: int, **weights: np.ndarray) -> tuple[db.Network, db.Network]:
    net = network(text, **weights, **statistics(channels))
    return net, fuse_batchnorm(net)


@pytest.mark.parametrize(
    ("node", "shape", "weight", "bias"),
    [
        ("Conv(x, w)", (2, 4, 9), (6, 4, 3), None),
        ("Conv(x, w, b)", (2, 4, 6, 5), (6, 4, 3, 3), (6,)),
        ("Conv<group = 2>(x, w, b)", (2, 4, 6, 5), (6, 2, 3, 3), (6,)),
        ("ConvTranspose(x, w)", (2, 4, 6, 5), (4, 6, 3, 3), None),
        ("ConvTranspose<group = 2, strides = [2, 2]>(x, w, b)", (2, 4, 6, 5), (4, 3, 3, 3), (6,)),
        ("Gemm(x, w)", (5, 4), (4, 6), None),
        ("Gemm<transB = 1, alpha = 0.5, beta = 0.3>(x, w, b)", (5, 4), (6, 4), (6,)),
        ("Gemm<transA = 1, beta = 2.0>(x, w, b)", (4, 5), (4, 6), (5, 6)),
        ("Gemm(x, w, b)", (5, 4), (4, 6), ()),
        ("Gemm(x, w, b)", (5, 4), (4, 6), (5, 1)),
        ("MatMul(x, w)", (5, 4), (4, 6), None),
    ],
)
def test_exactly(node: str, shape: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...] | None) -> None:
    weights = {"w": normal(*weight, seed=5)} | ({} if bias is None else {"b": normal(*bias, seed=6)})
    net, after = fused(f"f (float{list(shape)} x) => (float y) {{ z = {node}  {NORM} }}", 6, **weights)
    assert len(after.nodes) == 1
    assert [v.name for v in after.nodes[0].outputs] == ["y"]
    assert check(net, after, {"x": normal(*shape, seed=7)}).word == "right"


@pytest.mark.parametrize(
    "text",
    [
        f"f (float[2,6,5] x) => (float y, float z) {{ z = Conv(x, w)  {NORM} }}",
        f"f (float[2,6,5] x) => (float y, float v) {{ z = Conv(x, w)  {NORM}  v = Relu(z) }}",
        f"f (float[2,6,5] x, float[6,6,1] u) => (float y) {{ z = Conv(x, u)  {NORM} }}",
        f"f (float[2,6,5] x) => (float y) {{ z = MatMul(x, s)  {NORM} }}",
        f"f (float[2,6,5] x) => (float y) {{ z = Relu(x)  {NORM} }}",
        f"f (float[2,6,5] x, float[6] b) => (float y) {{ z = Conv(x, w, b)  {NORM} }}",
        "f (float[2,6,5] x, float[6] m) => (float y) { z = Conv(x, w)"
        "  y = BatchNormalization(z, scale, shift, m, variance) }",
        "f (float[2,6,5] x) => (float y, float r, float t) { z = Conv(x, w)"
        "  y, r, t = BatchNormalization<training_mode = 1>(z, scale, shift, mean, variance) }",
    ],
)
def test_what_must_stay(text: str) -> None:
    net, after = fused(text, 6, w=normal(6, 6, 1), s=normal(5, 5))
    assert operators(after) == operators(net)


def test_weights_that_two_nodes_share() -> None:
    text = f"f (float[2,6,5] x) => (float y, float v) {{ z = Conv(x, w)  {NORM}  v = Conv(x, w) }}"
    net, after = fused(text, 6, w=normal(6, 6, 1))
    assert operators(after) == ["Conv", "Conv"]
    assert check(net, after, {"x": normal(2, 6, 5)}).ok


def test_a_variance_that_gives_infinity_stays() -> None:
    net = network(
        "f (float[2,6,5] x) => (float y) { z = Conv(x, w)"
        "  y = BatchNormalization<epsilon = 0.0>(z, scale, shift, mean, v) }",
        w=normal(6, 6, 1),
        v=np.zeros(6, np.float32),
        **{k: a for k, a in statistics(6).items() if k != "variance"},
    )
    assert operators(fuse_batchnorm(net)) == ["Conv", "BatchNormalization"]


def test_digits() -> None:
    net, image = digits()
    after = fuse_batchnorm(net)
    assert len(net.nodes) - len(after.nodes) == 5
    assert check(net, after, image).ok


def test_a_slightly_wrong_factor_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    net, image = digits()
    right = constants._scaling

    def wrong(draft: Draft, node: ir.Node) -> object:
        found = right(draft, node)
        return None if found is None else replace(found, factor=found.factor * 1.0001)

    monkeypatch.setattr(constants, "_scaling", wrong)
    assert check(net, fuse_batchnorm(net), image).word == "wrong"
