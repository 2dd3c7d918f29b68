"""What the standard's own cases leave out of the operators on images."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from deep_bench.errors import InvalidInput, Unsupported
from deep_bench.reference.operators.image import (
    AffineGrid,
    GridSample,
    ImageDecoder,
    NonMaxSuppression,
    Resize,
    RoiAlign,
)

RAMP = np.arange(12, dtype=np.float64)[np.newaxis, np.newaxis]


def sizes(*values):
    return {"sizes": np.array(values, np.int64)}


def scales(*values):
    return {"scales": np.array(values, np.float32)}


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("transformation", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
def test_resize_reproduces_a_ramp_away_from_its_ends(mode, transformation):
    options = {"coordinate_transformation_mode": transformation}
    y = Resize(RAMP, **sizes(30), axes=(2,), mode=mode, cubic_coeff_a=-0.5, **options)[0, 0]
    steps = np.diff(y)[8:-8]
    assert np.allclose(steps, 11 / 29 if transformation == "align_corners" else 12 / 30)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize("exclude_outside", [0, 1])
def test_resize_keeps_a_constant(mode, antialias, exclude_outside):
    x = np.full((1, 1, 7, 5), 3.0, np.float32)
    y = Resize(x, **scales(0.4, 2.3), axes=(-2, -1), mode=mode, antialias=antialias, exclude_outside=exclude_outside)
    assert (y.shape, y.dtype) == ((1, 1, 2, 11), np.float32)
    assert np.allclose(y, 3)


def test_resize_antialiased_by_an_integer_is_a_weighted_mean():
    y = Resize(RAMP, **scales(0.5), axes=(2,), mode="linear", antialias=1)[0, 0]
    assert y[2] == pytest.approx(np.dot([0.125, 0.375, 0.375, 0.125], [3, 4, 5, 6]))


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        ("round_prefer_floor", [0, 0, 1, 1, 2, 2]),
        ("round_prefer_ceil", [0, 1, 1, 2, 2, 2]),
        ("floor", [0, 0, 1, 1, 2, 2]),
        ("ceil", [0, 1, 1, 2, 2, 2]),
    ],
)
def test_resize_nearest_rounds_halves(rounding, expected):
    x = np.arange(3)
    y = Resize(x, **sizes(6), coordinate_transformation_mode="asymmetric", nearest_mode=rounding)
    assert y.tolist() == expected


def test_resize_nearest_sees_a_half_behind_a_rounded_scale():
    """Element 1 lies at 1 / (2 / 7) = 3.5, which float32 makes 3.4999998."""
    options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "round_prefer_ceil"}
    assert Resize(np.arange(7), **sizes(2), **options).tolist() == [0, 4]


def test_resize_chooses_the_same_elements_in_any_precision():
    options = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    for scale in np.arange(1, 40) / 10:
        single = Resize(np.arange(20, dtype=np.float32), **scales(scale), **options)
        double = Resize(np.arange(20.0), scales=np.float64([np.float32(scale)]), **options)
        assert np.array_equal(single, double)


def test_resize_aligns_the_last_elements_that_there_are():
    """A scale of 0.6 asks for 2.4 elements, of which there are 2; the text of the standard aligns the second one."""
    y = Resize(np.arange(4.0), **scales(0.6), mode="linear", coordinate_transformation_mode="align_corners")
    assert y.tolist() == [0, 3]


def test_resize_to_the_product_in_float32():
    assert Resize(np.arange(10.0), **scales(0.7)).shape == (7,)


@pytest.mark.parametrize(("policy", "expected"), [("not_larger", (1, 4, 6)), ("not_smaller", (1, 8, 12))])
def test_resize_keeps_the_aspect_ratio(policy, expected):
    x = np.zeros((1, 2, 3))
    assert Resize(x, **sizes(12, 4), axes=(2, 1), keep_aspect_ratio_policy=policy).shape == expected


def test_resize_crops_and_extrapolates():
    roi = np.array([0.5, 1.5], np.float32)
    options = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear", "extrapolation_value": -1.0}
    assert Resize(np.arange(5.0), roi, **sizes(5), **options).tolist() == [2, 3, 4, -1, -1]
    assert Resize(np.arange(5.0), np.array([0.25, 0.75]), **sizes(1), **options).tolist() == [2]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.uint8, np.int32])
def test_resize_keeps_the_type_and_stays_in_its_range(dtype):
    x = np.array([0, 100, 0, 100, 100]).astype(dtype)
    y = Resize(x, **sizes(9), mode="cubic")
    assert y.dtype == dtype
    assert y.min() >= 0 or np.dtype(dtype).kind != "u"


def test_resize_does_not_spread_infinity_beyond_its_neighbours():
    x = np.array([np.inf, 0, 1, 2])
    assert np.isfinite(Resize(x, **sizes(8), mode="linear")[4:]).all()


def test_resize_refuses():
    with pytest.raises(InvalidInput, match="neither scales nor sizes"):
        Resize(RAMP, np.array([], np.float32), np.array([], np.float32))
    with pytest.raises(Unsupported, match="mode='area'"):
        Resize(RAMP, **sizes(1, 1, 3), mode="area")
    with pytest.raises(Unsupported, match="nearest_mode='round'"):
        Resize(RAMP, **sizes(1, 1, 3), nearest_mode="round")


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("shape", [(1, 2, 5), (1, 2, 3, 4), (2, 1, 2, 3, 4)])
def test_grid_sample_at_the_elements_gives_them(align_corners, padding, mode, shape):
    x = np.random.default_rng(0).standard_normal(shape)
    rank = len(shape) - 2
    theta = np.broadcast_to(np.eye(rank, rank + 1), (shape[0], rank, rank + 1))
    grid = AffineGrid(theta, np.array(shape), align_corners=align_corners)
    y = GridSample(x, grid, align_corners=align_corners, padding_mode=padding, mode=mode)
    assert np.allclose(y, x)


@pytest.mark.parametrize(("padding", "expected"), [("zeros", 0), ("border", 3), ("reflection", 1)])
def test_grid_sample_far_outside(padding, expected):
    x = np.arange(4.0).reshape(1, 1, 1, 4)
    grid = np.array([[[[3.75, 0.0]]]])  # element 9, which mirrors at the edges 3.5 and -0.5 to -2 and then to 1
    assert GridSample(x, grid, padding_mode=padding).item() == pytest.approx(expected)


def test_grid_sample_of_integers():
    x = np.array([[[[1, 2]]]], np.uint8)
    y = GridSample(x, np.zeros((1, 1, 1, 2), np.float32))
    assert (y.dtype, y.item()) == (np.uint8, 1)


def test_affine_grid_of_one_element_is_the_centre():
    theta = np.array([[[1, 0, 0.25], [0, 1, 0.5]]], np.float32)
    for align_corners in (0, 1):
        assert AffineGrid(theta, np.array([1, 1, 1, 1]), align_corners=align_corners).ravel().tolist() == [0.25, 0.5]


def test_roi_align_of_a_plane_gives_the_centres_of_the_bins():
    rows, columns = np.mgrid[:8, :8]
    x = (10.0 * rows + columns)[np.newaxis, np.newaxis]
    y = RoiAlign(x, np.array([[2.5, 1.5, 6.5, 5.5]]), np.array([0]), output_height=2, output_width=2)
    assert np.allclose(y[0, 0], [[23, 25], [43, 45]])  # the region begins at row 1, column 2


def test_roi_align_outside_and_of_no_region():
    x = np.ones((1, 2, 4, 4), np.float16)
    y = RoiAlign(x, np.array([[-9, -9, -5, -5], [3, 3, 1, 1]], np.float16), np.array([0, 0]), output_height=2)
    assert (y.shape, y.dtype) == ((2, 2, 2, 1), np.float16)
    assert not y.any()
    assert RoiAlign(x, np.zeros((0, 4), np.float16), np.zeros(0, int)).shape == (0, 2, 1, 1)


def test_non_max_suppression_keeps_ties_in_order_and_exact_overlaps():
    boxes = np.array([[[0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 1, 2], [5, 5, 6, 6]]], np.float32)
    scores = np.array([[[0.5, 0.5, 0.9, 0.5]]], np.float32)
    chosen = NonMaxSuppression(boxes, scores, np.array([10]), np.array([0.5], np.float32))
    assert chosen.tolist() == [[0, 0, 2], [0, 0, 0], [0, 0, 3]]
    assert NonMaxSuppression(boxes, scores, np.array(1), np.array(0.5))[:, 2].tolist() == [2]
    assert NonMaxSuppression(boxes, scores, np.array(9), score_threshold=np.array([0.5]))[:, 2].tolist() == [2]
    assert NonMaxSuppression(boxes, scores).shape == (0, 3)


def test_non_max_suppression_of_flat_boxes():
    boxes = np.array([[[1, 1, 0, 0], [1, 1, 0, 0]]], np.float32)
    chosen = NonMaxSuppression(boxes, np.ones((1, 1, 2), np.float32), np.array(5), center_point_box=1)
    assert len(chosen) == 2


def test_image_decoder_of_rubbish_is_empty():
    assert ImageDecoder(np.frombuffer(b"no picture", np.uint8)).shape == (0, 0, 0)
