"""Gradients of convolutions, and of what is laid out as they are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import Unsupported
from deep_bench.network import differentiate
from tests.network.gradient.checks import check, outcomes
from tests.network.gradient.derived_cases import check_on, check_twice

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


# The standard's inference gives results of these two a wrong number of dimensions.
UNKNOWN_RANK = {"ConvTranspose/7", "ConvTranspose/9"}


@pytest.mark.long
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "Col2Im", "DeformConv", "CausalConvWithState"])
def test_cases(operator: str) -> None:
    found = [o for o in outcomes(operator) if o.case not in UNKNOWN_RANK]
    assert found
    assert all(o.word in ("right", "kink") for o in found), [o for o in found if o.word not in ("right", "kink")]


@pytest.mark.parametrize(
    ("data", "weights", "attributes"),
    [
        ((2, 4, 7), (6, 2, 3), "group = 2, pads = [2, 1], strides = [2], dilations = [2]"),
        ((2, 3, 5, 6), (4, 3, 3, 2), 'auto_pad = "SAME_LOWER", strides = [2, 3]'),
        ((2, 3, 5, 6), (6, 1, 3, 3), "group = 3, pads = [1, 1, 1, 1]"),
        ((2, 3, 5, 6), (3, 1, 3, 3), "group = 3, pads = [1, 0, 1, 2], strides = [2, 1]"),
        ((1, 2, 4, 3, 5), (2, 2, 2, 1, 3), "strides = [3, 1, 2]"),
        ((2, 5, 4, 4), (3, 5, 1, 1), "group = 1"),
        ((0, 2, 4, 4), (3, 2, 2, 2), "strides = [2, 2]"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_convolution(data: tuple[int, ...], weights: tuple[int, ...], attributes: str, known: bool) -> None:
    shape = ",".join(map(str, data) if known else [f"d{i}" if i != 1 else str(n) for i, n in enumerate(data)])
    text = f"""{HEAD} g (double[{shape}] x, double[{",".join(map(str, weights))}] w, double[{weights[0]}] b) => (double[] y)
    {{ y = Conv<{attributes}>(x, w, b) }}"""
    assert check(text, x=normal(*data), w=normal(*weights), b=normal(weights[0])) == "right"


@pytest.mark.parametrize(
    ("data", "weights", "attributes"),
    [
        ((2, 4, 3), (4, 3, 3), "group = 2, pads = [2, 1], strides = [2], dilations = [2]"),
        ((2, 2, 3, 2), (2, 3, 2, 3), "strides = [3, 2], output_padding = [2, 1], pads = [0, 1, 1, 0]"),
        ((2, 2, 3, 2), (2, 3, 3, 3), 'strides = [2, 2], auto_pad = "SAME_UPPER"'),
        ((1, 2, 3, 2), (2, 1, 3, 3), 'strides = [2, 2], auto_pad = "SAME_LOWER", output_shape = [5, 4]'),
        ((1, 3, 3, 2), (3, 1, 2, 2), "group = 3, strides = [2, 2]"),
        ((1, 2, 2, 2, 3), (2, 2, 2, 1, 2), "strides = [1, 2, 2]"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_transposed(data: tuple[int, ...], weights: tuple[int, ...], attributes: str, known: bool) -> None:
    group = int(attributes[8]) if attributes.startswith("group") else 1
    shape = ",".join(map(str, data) if known else [f"d{i}" if i != 1 else str(n) for i, n in enumerate(data)])
    bias = weights[1] * group
    text = f"""{HEAD} g (double[{shape}] x, double[{",".join(map(str, weights))}] w, double[{bias}] b) => (double[] y)
    {{ y = ConvTranspose<{attributes}>(x, w, b) }}"""
    assert check(text, x=normal(*data), w=normal(*weights), b=normal(bias)) == "right"


def test_one_tensor_in_two_places() -> None:
    text = f"{HEAD} g (double[2,2,3,3] x) => (double[] y) {{ y = Conv<pads = [1, 1, 1, 1]>(x, x) }}"
    assert check(text, x=normal(2, 2, 3, 3)) == "right"


def test_weights_of_an_unknown_shape() -> None:
    proto = onnx.parser.parse_model(
        f"{HEAD} g (float[1,1,4] x, float[m,1,k] w) => (float loss) {{ y = Conv(x, w)  loss = ReduceSum<keepdims = 0>(y) }}"
    )
    with pytest.raises(Unsupported, match="the shape of its weights"):
        differentiate(db.Network.from_proto(proto), "loss", ["x"])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("weights", ["3,2,2,3", "2,1,2,3"])
def test_second_derivative(known: bool, weights: str) -> None:
    n, group = "2" if known else "n", 1 if weights.startswith("3") else 2
    text = f"""{HEAD} g (double[{n},2,4,5] x, double[{weights}] w) => (double[] y)
    {{ c = Conv<pads = [1, 0, 0, 1], strides = [2, 1], group = {group}>(x, w)  y = Mul(c, c) }}"""
    w = normal(*map(int, weights.split(",")))
    assert check_twice(text, x=normal(2, 2, 4, 5), w=w) == "right"


@pytest.mark.parametrize("known", [True, False])
def test_bent(known: bool) -> None:
    size = "5,4" if known else "h,w"
    text = f"""{HEAD} g (double[2,4,{size}] x, double[2,2,2,2] w, double[2,16,4,3] o, double[2] b, double[2,8,4,3] m)
    => (double[] y) {{ y = DeformConv<group = 2, offset_group = 2>(x, w, o, b, m) }}"""
    found = check(
        text,
        x=normal(2, 4, 5, 4),
        w=normal(2, 2, 2, 2),
        o=normal(2, 16, 4, 3),
        b=normal(2),
        m=normal(2, 8, 4, 3),
    )
    assert found == "right"


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_drawn(data: st.DataObject) -> None:
    whole = lambda low, high: data.draw(st.integers(low, high))  # noqa: E731
    rank, group = whole(1, 2), whole(1, 2)
    kernel, strides, dilations = ([whole(1, 3) for _ in range(rank)] for _ in range(3))
    pads = [whole(0, 2) for _ in range(2 * rank)]
    sizes = [whole((k - 1) * d + 1, 6) if (k - 1) * d < 6 else 7 for k, d in zip(kernel, dilations, strict=True)]
    channels, features = group * whole(1, 2), group * whole(1, 2)
    x, w = normal(whole(1, 2), channels, *sizes), normal(features, channels // group, *kernel)
    text = f"""{HEAD} g (double{list(x.shape)} x, double{list(w.shape)} w) => (double[] y)
    {{ y = Conv<group = {group}, strides = {strides}, dilations = {dilations}, pads = {pads}>(x, w) }}"""
    assert check(text, x=x, w=w) == "right"


@pytest.mark.parametrize("shape", ["2,4,6,5", "n,4,h,w"])
@pytest.mark.parametrize("attributes", ["strides = [2, 3], pads = [1, 0, 0, 2]", "dilations = [2, 1], pads = [0, 1, 2, 1]"])
def test_onnxruntime(shape: str, attributes: str) -> None:
    x = normal(2, 4, 6, 5).astype(np.float32)
    for call, w in (
        ("Conv<group = 2, ", (4, 2, 3, 2)),
        ("Conv<group = 4, ", (4, 1, 3, 2)),
        ("ConvTranspose<", (4, 3, 3, 2)),
    ):
        text = f"""{HEAD} g (float[{shape}] x, float[{",".join(map(str, w))}] w) => (float[] y)
        {{ y = {call}{attributes}>(x, w) }}"""
        assert check_on("onnxruntime", text, x=x, w=normal(*w).astype(np.float32)) == "right"
