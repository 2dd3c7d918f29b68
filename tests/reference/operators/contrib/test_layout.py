"""Operators that move, select or make numbers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from deep_bench.reference.operators.contrib import layout

RNG = np.random.default_rng(8)


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("k", [None, 1, -1, 9])
@pytest.mark.parametrize("upper", [0, 1])
def test_trilu(judge, k, upper) -> None:
    judge("Trilu", [random(3, 4, 5), None if k is None else np.array(k)], upper=upper)


@pytest.mark.parametrize(
    ("start", "limit", "delta", "dtype"),
    [
        (1, 5.5, 0.5, np.float32),
        ([1], [5.5], None, np.float64),
        (9, 0, -2, np.int64),
        (1, 9, 3, np.int16),
        (3, 1, None, np.int32),
    ],
)
def test_range(judge, start, limit, delta, dtype) -> None:
    judge("Range", [None if v is None else np.array(v, dtype) for v in (start, limit, delta)])


@pytest.mark.parametrize("values", [[2, 1, 1, 3, 4, 3], [], [7]])
def test_unique_keeps_the_order(judge, values) -> None:
    judge("Unique", [np.array(values, np.float32)], n_outputs=3)
    assert layout.Unique(np.array(values, np.int64))[0].tolist() == list(dict.fromkeys(values))


@pytest.mark.parametrize("axis", [0, 1, 3, -1, -4])
def test_expand_dims(judge, axis) -> None:
    judge("ExpandDims", [random(3, 4, 5), np.array(axis, np.int32)])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
@pytest.mark.parametrize("pads", [[1, 2, 0, 1], [[1, 2, 0, 1]], [-1, 2, 0, -1]])
@pytest.mark.parametrize("value", [None, 7.0, [7.0]])
def test_pad(judge, mode, pads, value) -> None:
    inputs = [random(3, 4), np.array(pads), None if value is None else np.array(value, np.float32)]
    judge("Pad", inputs, mode=mode)


def test_gather_nd(judge) -> None:
    judge("GatherND", [random(3, 4, 5), np.array([[0, 1], [2, 3]])])
    judge("GatherND", [random(3, 4, 5), np.array([[[0], [-1]]], np.int32)])


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(judge, mode, padding, corners) -> None:
    grid = (RNG.random((2, 6, 7, 2)) * 3 - 1.5).astype(np.float32)
    judge("GridSample", [random(2, 3, 4, 5), grid], mode=mode, padding_mode=padding, align_corners=corners)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(3, 4), (1, 1), (5, 1)])
def test_crop_and_resize(judge, mode, size) -> None:
    boxes = np.concatenate((RNG.random((6, 4)) * 1.6 - 0.3, [[0, 0, 1, 1], [1, 1, 0, 0]])).astype(np.float32)
    index = RNG.integers(0, 2, len(boxes)).astype(np.int32)
    judge("CropAndResize", [random(2, 3, 5, 6), boxes, index, np.array(size, np.int32)], mode=mode, extrapolation_value=0.5)


@pytest.mark.parametrize(
    ("metric", "dtype"), list(itertools.product(["euclidean", "sqeuclidean"], [np.float32, np.float64]))
)
def test_distances(judge, metric, dtype) -> None:
    judge("CDist", [random(3, 4, dtype=dtype), random(5, 4, dtype=dtype)], metric=metric, atol=1e-4)
