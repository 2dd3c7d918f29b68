"""Gradients of pools."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.network import differentiate
from tests.network.gradient.checks import check, outcomes
from tests.network.gradient.derived_cases import check_on, check_twice

HEAD = '<ir_version: 10, opset_import: ["" : 22]>'
rng = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def text(call: str, shape: str) -> str:
    return f"{HEAD} g (double[{shape}] x) => (double[] y) {{ y = {call}(x) }}"


def gradient(call: str, x: np.ndarray) -> np.ndarray:
    """Of the sum of the results."""
    kind = {"float32": "float", "float64": "double"}[str(x.dtype)]
    shape = ",".join(map(str, x.shape))
    proto = onnx.parser.parse_model(
        f"{HEAD} g ({kind}[{shape}] x) => ({kind} loss) {{ y = {call}(x)  loss = ReduceSum<keepdims = 0>(y) }}"
    )
    run = db.frameworks["reference"]().prepare(differentiate(db.Network.from_proto(proto), "loss", ["x"]))
    return np.asarray(run({"x": x})["d(loss)/d(x)"])


@pytest.mark.long
@pytest.mark.parametrize(
    "operator",
    ["AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool"],
)
def test_cases(operator: str) -> None:
    found = outcomes(operator)
    assert found
    assert all(o.word in ("right", "kink") for o in found), [o for o in found if o.word not in ("right", "kink")]


WINDOWS = [
    ((2, 2, 7), "kernel_shape = [3], strides = [2], pads = [1, 1]"),
    ((2, 2, 6, 4), "kernel_shape = [2, 2], strides = [2, 2]"),
    ((1, 2, 6, 5), "kernel_shape = [3, 2], strides = [2, 3], pads = [1, 0, 1, 1], ceil_mode = 1"),
    ((1, 2, 6, 5), 'kernel_shape = [3, 2], strides = [2, 1], auto_pad = "SAME_LOWER"'),
    ((1, 2, 6, 5), 'kernel_shape = [2, 2], strides = [3, 1], auto_pad = "SAME_UPPER"'),
    ((1, 1, 5, 4, 4), "kernel_shape = [2, 2, 1], dilations = [2, 1, 1]"),
    ((0, 2, 4, 4), "kernel_shape = [2, 2]"),
]


@pytest.mark.long
@pytest.mark.parametrize(("shape", "attributes"), WINDOWS)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "AveragePool<count_include_pad = 1, ", "LpPool<p = 3, "])
def test_windows(shape: tuple[int, ...], attributes: str, known: bool, operator: str) -> None:
    call = f"{operator}{attributes}>" if "<" in operator else f"{operator}<{attributes}>"
    dims = ",".join(map(str, shape) if known else [f"d{i}" for i in range(len(shape))])
    assert check(text(call, dims), x=normal(*shape)) == "right"


@pytest.mark.parametrize("call", ["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool<p = 1>", "GlobalLpPool<p = 3>"])
@pytest.mark.parametrize("shape", ["2,3,4,2", "n,3,h,w", "0,3,4,2"])
def test_global(call: str, shape: str) -> None:
    assert check(text(call, shape), x=normal(0 if shape[0] == "0" else 2, 3, 4, 2)) == "right"


@pytest.mark.parametrize("strides", [2, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_first_maximum(strides: int, dtype: type) -> None:
    call = f"MaxPool<kernel_shape = [2, 2], strides = [{strides}, {strides}]>"
    expected = {
        2: [[1, 0, 1, 0], [0, 0, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]],
        1: [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]],
    }
    assert gradient(call, np.zeros((1, 1, 4, 4), dtype)).tolist() == [[expected[strides]]]
    first = np.zeros((1, 1, 2, 3), dtype)
    first[0, 0, 0, 0] = 1
    assert np.array_equal(gradient("GlobalMaxPool", np.zeros((1, 1, 2, 3), dtype)), first)


def test_column_major_indices() -> None:
    """The indices that the network returns count columns first; the gradient must not take them for its own."""
    call = "y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2], storage_order = 1>(x)"
    written = f"{HEAD} g (double[1,2,4,6] x) => (double[] y, int64[] i) {{ {call} }}"
    assert check(written, x=normal(1, 2, 4, 6)) == "right"


def test_windows_of_zeros() -> None:
    for p in (1, 2, 3):
        assert not gradient(f"LpPool<kernel_shape = [2, 2], p = {p}>", np.zeros((1, 1, 3, 3))).any()
        assert not gradient(f"GlobalLpPool<p = {p}>", np.zeros((1, 1, 3, 3))).any()


def test_element_that_is_overwritten() -> None:
    written = f"""{HEAD} g (double[1,1,2,2] x, int64[1,1,2,2] i) => (double[] y)
    {{ y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i) }}"""
    assert check(written, x=normal(1, 1, 2, 2), i=np.array([[[[5, 2], [5, 0]]]])) == "right"


@pytest.mark.parametrize("shape", ["1,2,2,3", "n,c,h,w"])
def test_unpool_into_a_larger_tensor(shape: str) -> None:
    written = f"""{HEAD} g (double[{shape}] x, int64[{shape}] i, int64[4] s) => (double[] y)
    {{ y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i, s) }}"""
    places = rng.permutation(48)[:12].reshape(1, 2, 2, 3)
    assert check(written, x=normal(1, 2, 2, 3), i=places, s=np.array([1, 2, 5, 7])) == "right"


@pytest.mark.parametrize(
    "call",
    [
        "MaxPool<kernel_shape = [2, 2], strides = [2, 2]>",
        "MaxPool<kernel_shape = [3, 2]>",
        "AveragePool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 1, 0, 0]>",
        "LpPool<kernel_shape = [2, 2]>",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "GlobalLpPool",
    ],
)
def test_second_derivative(call: str) -> None:
    written = f"{HEAD} g (double[1,2,4,4] x) => (double[] y) {{ p = {call}(x)  y = Mul(p, p) }}"
    assert check_twice(written, x=normal(1, 2, 4, 4)) == "right"


def test_regions_beyond_the_image() -> None:
    written = f"""{HEAD} g (double[n,2,h,w] x, double[r,5] rois) => (double[] y)
    {{ y = MaxRoiPool<pooled_shape = [2, 3], spatial_scale = 0.5>(x, rois) }}"""
    rois = np.array([[0, 0.2, 0.4, 9.7, 7.3], [1, 4.1, 2.2, 5.5, 3.6], [1, -6.3, 2.4, 2.2, 30.1]])
    assert check(written, x=normal(2, 2, 5, 6), rois=rois) == "kink"  # at the number of the image


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_drawn(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    kernel, strides, dilations = (data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank)) for _ in range(3))
    pads = [data.draw(st.integers(0, k - 1)) for k in kernel * 2]
    sizes = [(k - 1) * d + data.draw(st.integers(1, 4)) for k, d in zip(kernel, dilations, strict=True)]
    operator = data.draw(st.sampled_from(["MaxPool", "AveragePool", "LpPool"]))
    ceil = data.draw(st.integers(0, 1))
    call = f"""{operator}<kernel_shape = {kernel}, strides = {strides}, dilations = {dilations}, pads = {pads},
    ceil_mode = {ceil}>"""
    shape = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2)), *sizes)
    # No two elements are so close that a difference would pass over a tie.
    x = rng.permutation(int(np.prod(shape))).reshape(shape) / 8 + 0.5
    assert check(text(call, ",".join(map(str, shape))), x=x) == "right"


@pytest.mark.parametrize(
    "call",
    [
        "MaxPool<kernel_shape = [2, 2], strides = [2, 2]>",
        "MaxPool<kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 1]>",
        "AveragePool<kernel_shape = [3, 2], pads = [1, 0, 1, 1], strides = [2, 1]>",
        "LpPool<kernel_shape = [2, 2], strides = [3, 2]>",
    ],
)
@pytest.mark.parametrize("shape", ["2,3,6,4", "n,c,h,w"])
def test_onnxruntime(call: str, shape: str) -> None:
    written = f"{HEAD} g (float[{shape}] x) => (float[] y) {{ y = {call}(x) }}"
    assert check_on("onnxruntime", written, x=normal(2, 3, 6, 4).astype(np.float32)) == "right"
