"""Pictures sampled at arbitrary places, boxes, and bent windows."""

from __future__ import annotations

import numpy as np
import pytest

from .agreement import agrees, i64, noise, same


@pytest.mark.long
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grid_sample(run, mode, corners, outside):
    options = {"mode": mode, "align_corners": corners, "padding_mode": outside}
    agrees(run, "GridSample", [noise(2, 3, 5, 4), 1.5 * noise(2, 6, 3, 2, seed=1)], **options)
    if mode != "cubic":
        agrees(run, "GridSample", [noise(1, 2, 3, 4, 2), noise(1, 2, 3, 2, 3, seed=1)], **options)


def test_grid_sample_of_integers_and_far_away(run):
    x = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4)
    grid = np.array([[[[-1e9, 1e9], [0, 0], [1e9, -0.4]]]], np.float32)
    agrees(run, "GridSample", [x, grid], mode="nearest", padding_mode="border")
    agrees(run, "GridSample", [x.astype(np.float32), grid], padding_mode="border")


BOXES = np.array([[[0, 0, 2, 2], [2, 2.1, 0, 0], [0, 0, 2, 1], [5, 5, 6, 6], [0, 0, 2, 2]]] * 2, np.float32)
SCORES = np.array([[[0.9, 0.9, 0.5, 0.2, 0.9], [0, 0.1, 0.3, 0.9, 0.2]], [[0.1] * 5, [-1, -2, -3, -4, -5]]], np.float32)


@pytest.mark.parametrize("fixed", [2, 99])
@pytest.mark.parametrize("centred", [0, 1])
@pytest.mark.parametrize("rest", [(10, 0.5, 0.15), (2, 0.4), (10,), (0, 0.5), (2**40, 1.0, -3.0)])
def test_non_maximum_suppression(run, rest, centred, fixed):
    numbers = [i64(rest[0])[0], *map(np.float32, rest[1:])]
    agrees(run, "NonMaxSuppression", [BOXES, SCORES, *numbers], center_point_box=centred, fixed=fixed)


def test_no_boxes_at_all(run):
    for boxes, scores in (((2, 0, 4), (2, 3, 0)), ((0, 5, 4), (0, 3, 5))):
        found = run("NonMaxSuppression", [np.zeros(boxes, np.float32), np.zeros(scores, np.float32), i64(3)[0]])
        same(found, np.zeros((0, 3), np.int64))


REGIONS = np.array([[0, 0, 7, 5], [-2.5, 1, 3.2, 9.6], [4, 4, 4, 4], [3, 3, 1, 1], [0.3, 0.2, 30, 20]], np.float32)


@pytest.mark.parametrize("pixel", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions(run, mode, ratio, pixel):
    options = {"mode": mode, "sampling_ratio": ratio, "coordinate_transformation_mode": pixel, "spatial_scale": 0.8}
    inputs = [noise(2, 3, 6, 8), REGIONS, i64(0, 1, 1, 0, 1)]
    agrees(run, "RoiAlign", inputs, output_height=3, output_width=2, **options)


def test_no_regions(run):
    found = run("RoiAlign", [noise(1, 2, 4, 4), np.zeros((0, 4), np.float32), np.zeros(0, np.int64)], output_height=2)
    assert found.shape == (0, 2, 2, 1)


@pytest.mark.parametrize("masked", [False, True])
def test_bent_windows(run, masked):
    options = {"group": 2, "offset_group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1], "dilations": [1, 2]}
    x, w, out = noise(2, 4, 6, 7), noise(6, 2, 2, 3, seed=1), ((6 + 2 - 2) // 2 + 1, 7 + 2 - 5 + 1)
    mask = noise(2, 2 * 6, *out, seed=4) if masked else None
    agrees(run, "DeformConv", [x, w, noise(2, 2 * 6 * 2, *out, seed=2), noise(6, seed=3), mask], **options)


@pytest.mark.parametrize("fixed", [1, 99])
@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize("axis", [-2, 1])
def test_writing_into_a_cache(run, axis, mode, fixed):
    past, new = noise(2, 5, 6, 3), noise(2, *((2, 6, 3) if axis == 1 else (5, 2, 3)), seed=1)
    agrees(run, "TensorScatter", [past, new, i64(4 if mode == "circular" else 3, 0)], axis=axis, mode=mode, fixed=fixed)
    agrees(run, "TensorScatter", [past, new], axis=axis, mode=mode, fixed=fixed)


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_unique(run, axis, ordered):
    x = np.array([[3, np.nan, -0.0], [1, 2, 5], [3, np.nan, 0.0], [1, 2, -np.inf], [3, np.nan, 0.0]], np.float32)
    options = {"sorted": ordered} | ({} if axis is None else {"axis": axis})
    for data in (x, x.T, np.nan_to_num(x, neginf=-9).astype(np.int64)):
        agrees(run, "Unique", [np.ascontiguousarray(data)], outputs=4, **options)


def test_a_dilated_maximum(run):
    options = {"kernel_shape": [3, 4], "dilations": [2, 3], "pads": [1, 2, 0, 1], "strides": [2, 1]}
    agrees(run, "MaxPool", [noise(1, 2, 9, 12)], **options)


@pytest.mark.parametrize("fixed", [1, 99])
def test_products_scattered_into_slices(run, fixed):
    inputs = [noise(4, 3, 2), i64([0], [2], [0]), noise(3, 3, 2, seed=1)]
    agrees(run, "ScatterND", inputs, reduction="mul", fixed=fixed)
