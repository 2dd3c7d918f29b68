"""Gradients of resampling."""

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
from tests.network.gradient.derived_cases import check_on

HEAD = '<ir_version: 10, opset_import: ["" : 21]>'
rng = np.random.default_rng(0)

TRANSFORMATIONS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
# Bins whose largest corner is one of several zeros: each may choose its own, and their sum then lies beyond the slopes.
SEVERAL_TIES = {"RoiAlign/1"}


def normal(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


@pytest.mark.long
@pytest.mark.parametrize("operator", ["AffineGrid", "GridSample", "Resize", "RoiAlign"])
def test_cases(operator: str) -> None:
    found = [o for o in outcomes(operator) if o.case not in SEVERAL_TIES]
    assert found
    assert all(o.word in ("right", "kink") for o in found), [o for o in found if o.word not in ("right", "kink")]


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales(transformation: str, mode: str) -> None:
    shape = "n,c,h,w" if (transformation, mode) == ("half_pixel", "cubic") else "1,2,4,5"
    text = f"""{HEAD} g (double[{shape}] x) => (double[] y) <float[4] s = {{1.0, 1.0, 1.6, 0.7}}>
    {{ y = Resize<mode = "{mode}", coordinate_transformation_mode = "{transformation}">(x, , s) }}"""
    assert check(text, x=normal(1, 2, 4, 5)) == "right"


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("more", ["antialias = 1", "exclude_outside = 1", "antialias = 1, exclude_outside = 1"])
@pytest.mark.parametrize("given_in_the_run", [True, False])
def test_sizes(mode: str, more: str, given_in_the_run: bool) -> None:
    sizes = np.array([3, 7])
    inner, outer = (", int64[2] s", "") if given_in_the_run else ("", "<int64[2] s = {3, 7}>")
    text = f"""{HEAD} g (double[2,7,4] x{inner}) => (double[] y) {outer}
    {{ y = Resize<mode = "{mode}", axes = [-2, 2], {more}>(x, , , s) }}"""
    assert check(text, x=normal(2, 7, 4), **({"s": sizes} if given_in_the_run else {})) == "right"


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratio(policy: str) -> None:
    text = f"""{HEAD} g (double[1,2,4,5] x) => (double[] y) <int64[2] s = {{7, 6}}>
    {{ y = Resize<mode = "linear", axes = [2, 3], keep_aspect_ratio_policy = "{policy}">(x, , , s) }}"""
    assert check(text, x=normal(1, 2, 4, 5)) == "right"


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_region(mode: str) -> None:
    text = f"""{HEAD} g (double[4,5] x) => (double[] y) <double[4] roi = {{-0.2, 0.1, 0.8, 1.3}}, int64[2] s = {{6, 1}}>
    {{ y = Resize<mode = "{mode}", coordinate_transformation_mode = "tf_crop_and_resize">(x, roi, , s) }}"""
    assert check(text, x=normal(4, 5)) == "right"


def test_no_gradient_of_a_region() -> None:
    proto = onnx.parser.parse_model(
        f"""{HEAD} g (float[4] x, float[2] roi) => (float loss) <int64[1] s = {{3}}>
    {{ y = Resize<mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize">(x, roi, , s)
       loss = ReduceSum<keepdims = 0>(y) }}"""
    )
    network = db.Network.from_proto(proto)
    assert differentiate(network, "loss", ["x"]).outputs[1].shape == (4,)
    with pytest.raises(Unsupported, match="region of interest"):
        differentiate(network, "loss", ["roi"])


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("shape", ["known", "symbolic"])
def test_repeated(rank: int, shape: str) -> None:
    """Whole factors in float32 are sums over what was repeated."""
    sizes = (2, 3, 4)[:rank]
    dims = ",".join(map(str, (2, 3, *sizes)) if shape == "known" else [f"d{i}" for i in range(2 + rank)])
    scales = ", ".join(map(str, [1.0, 1.0, 2.0, 3.0, 1.0][: 2 + rank]))
    text = f"""{HEAD} g (float[{dims}] x) => (float[] y) <float[{2 + rank}] s = {{{scales}}}>
    {{ y = Resize<mode = "nearest", nearest_mode = "floor", coordinate_transformation_mode = "asymmetric">(x, , s) }}"""
    x = normal(2, 3, *sizes).astype(np.float32)
    assert check(text, precise=False, x=x) == "right"
    assert check_on("onnxruntime", text, x=x) == "right"


@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [0, 1])
def test_grid(mode: str, padding: str, align: int) -> None:
    shape, grid = ("1,2,3,4", "1,3,2,2") if align else ("n,c,h,w", "n,a,b,2")
    text = f"""{HEAD} g (double[{shape}] x, double[{grid}] g) => (double[] y)
    {{ y = GridSample<mode = "{mode}", padding_mode = "{padding}", align_corners = {align}>(x, g) }}"""
    assert check(text, x=normal(1, 2, 3, 4), g=normal(1, 3, 2, 2)) == "right"


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("sizes", [(2, 3, 2, 4), (2, 3, 2, 1, 3), (0, 1, 2, 3)])
def test_affine(align: int, sizes: tuple[int, ...]) -> None:
    n, rank = sizes[0], len(sizes) - 2
    for first in (str(n), "n"):
        text = f"""{HEAD} g (double[{first},{rank},{rank + 1}] t, int64[{rank + 2}] s) => (double[] y)
        {{ y = AffineGrid<align_corners = {align}>(t, s) }}"""
        assert check(text, t=normal(n, rank, rank + 1), s=np.array(sizes)) == "right"


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("transformation", ["half_pixel", "output_half_pixel"])
def test_regions(mode: str, ratio: int, transformation: str) -> None:
    shape, regions = ("2,1,6,7", "3") if transformation == "half_pixel" else ("n,c,h,w", "r")
    text = f"""{HEAD} g (double[{shape}] x, double[{regions},4] rois, int64[{regions}] i) => (double[] y)
    {{ y = RoiAlign<mode = "{mode}", sampling_ratio = {ratio}, output_height = 2, output_width = 3, spatial_scale = 0.5,
        coordinate_transformation_mode = "{transformation}">(x, rois, i) }}"""
    rois = np.array([[0.3, 1.1, 9.2, 10.4], [2.1, 0.7, 12.3, 7.9], [5.3, 4.9, 5.8, 11.2]])
    found = check(text, x=1.5 + rng.random((2, 1, 6, 7)), rois=rois, i=np.array([1, 0, 1]))
    assert found in ("right", "kink"), found


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_drawn(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = [data.draw(st.integers(1, 5)) for _ in range(rank)]
    sizes = [data.draw(st.integers(1, 6)) for _ in range(rank)]
    mode = data.draw(st.sampled_from(["nearest", "linear", "cubic"]))
    transformation = data.draw(st.sampled_from(TRANSFORMATIONS))
    text = f"""{HEAD} g (double{shape} x, int64[{rank}] s) => (double[] y)
    {{ y = Resize<mode = "{mode}", coordinate_transformation_mode = "{transformation}">(x, , , s) }}"""
    assert check(text, x=normal(*shape), s=np.array(sizes)) == "right"
