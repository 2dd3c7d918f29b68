"""Shapes, axes, pads and scales that are fed, and so known only in the run; each with the same numbers frozen."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.reference.operators import find

from .agreement import agrees, i64, noise, same

EITHER = pytest.mark.parametrize("fixed", [1, 99], ids=["known", "fed"])
MODES = ("nearest", "linear", "cubic")
TRANSFORMATIONS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


def f32(*values):
    return np.array(values, np.float32)


@EITHER
@pytest.mark.parametrize("axes", [(0,), (-1, 1), (4, 0, -2)])
def test_unsqueeze(run, axes, fixed):
    x = noise(2, 3)
    same(run("Unsqueeze", [x, i64(*axes)], fixed=fixed), np.expand_dims(x, axes))


@EITHER
@pytest.mark.parametrize("axes", [(0,), (-1, 0), (2,)])
def test_squeeze(run, axes, fixed):
    x = noise(1, 3, 1, 1)
    same(run("Squeeze", [x, i64(*axes)], fixed=fixed), np.squeeze(x, axes))


@EITHER
def test_slice(run, fixed):
    x, largest = noise(5, 6, 2), np.iinfo(np.int64).max
    same(run("Slice", [x, i64(4, 1), i64(-largest, largest), i64(-3, 1), i64(-2, 1)], fixed=fixed), x[4::-2, 1:])
    same(run("Slice", [x, i64(-100), i64(100), i64(-1)], fixed=fixed), x)
    assert run("Slice", [x, i64(3), i64(3), i64(1)], fixed=fixed).shape == (5, 0, 2)


@EITHER
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(run, mode, fixed):
    x, value = noise(4, 5), np.float32(1.5)
    agrees(run, "Pad", [x, i64(1, 2, 0, 3)], mode=mode, fixed=fixed)
    agrees(run, "Pad", [x, i64(2, 1), value, i64(-1)], mode=mode, fixed=fixed)
    if mode == "constant":
        agrees(run, "Pad", [x, i64(-1, 2, 0, -3), value], fixed=fixed)


@pytest.mark.long
@pytest.mark.parametrize(("mode", "transformation"), list(zip(("nearest", *MODES, "cubic"), TRANSFORMATIONS, strict=True)))
def test_resize(run, mode, transformation):
    x, options = noise(1, 2, 5, 7), {"mode": mode, "coordinate_transformation_mode": transformation}
    agrees(run, "Resize", [x, None, f32(1, 1, 0.7, 2.3)], fixed=99, **options)
    agrees(run, "Resize", [x, None, None, i64(1, 2, 9, 3)], fixed=99, exclude_outside=int(mode == "cubic"), **options)


@EITHER
@pytest.mark.parametrize("mode", MODES[1:])
def test_antialiased_resize(run, mode, fixed):
    x = noise(1, 1, 12, 9)
    agrees(run, "Resize", [x, None, None, i64(4, 11)], mode=mode, antialias=1, axes=[2, 3], fixed=fixed)
    agrees(run, "Resize", [x, None, f32(0.4, 0.7)], mode=mode, antialias=1, axes=[-2, -1], fixed=fixed)


@EITHER
@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_resize_that_keeps_the_aspect_ratio(run, policy, fixed):
    inputs = [noise(1, 1, 4, 6), None, None, i64(7, 8)]
    agrees(run, "Resize", inputs, axes=[2, 3], keep_aspect_ratio_policy=policy, fixed=fixed)


@EITHER
def test_resize_of_a_region(run, fixed):
    inputs = [noise(1, 1, 4, 6), f32(0, 0, 0.4, -0.2, 1, 1, 0.9, 1.3), None, i64(1, 1, 3, 5)]
    options = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    agrees(run, "Resize", inputs, mode="linear", fixed=fixed, **options)
    same(run("Resize", inputs, fixed=fixed, **options), find("", "Resize")(*inputs, **options))


def test_an_axis_that_turns_out_unchanged_is_left_alone(run):
    x = np.array([[[[np.inf, 1, 2], [3, np.nan, 4]]]], np.float32)
    agrees(run, "Resize", [x, None, f32(1, 1, 1, 1)], mode="cubic")


@EITHER
@pytest.mark.parametrize(("length", "axis", "options"), [(8, 1, {}), (4, -3, {"inverse": 1}), (6, 1, {"onesided": 1})])
def test_dft(run, length, axis, options, fixed):
    x = noise(2, 5, 3, 1 if "onesided" in options else 2)
    agrees(run, "DFT", [x, i64(length)[0], i64(axis)[0]], fixed=fixed, **options)


@EITHER
def test_one_sided_inverse_dft(run, fixed):
    agrees(run, "DFT", [noise(2, 4, 2), i64(7)[0], i64(1)[0]], inverse=1, onesided=1, fixed=fixed)


@EITHER
def test_stft(run, fixed):
    x, window = noise(2, 20, 1), np.hanning(6).astype(np.float32)
    agrees(run, "STFT", [x, i64(3)[0], window, i64(6)[0]], fixed=fixed)
    agrees(run, "STFT", [x, i64(4)[0], None, i64(8)[0]], onesided=0, fixed=fixed)


@EITHER
def test_mel_weights(run, fixed):
    inputs = [i64(8)[0], i64(64)[0], i64(8192)[0], np.float32(20), np.float32(4000)]
    agrees(run, "MelWeightMatrix", inputs, fixed=max(1, fixed))


@EITHER
def test_max_unpool_into_a_larger_tensor(run, fixed):
    x, places = f32(1, 2, 3, 4).reshape(1, 1, 2, 2), i64(5, 7, 13, 15).reshape(1, 1, 2, 2)
    agrees(run, "MaxUnpool", [x, places, i64(1, 1, 5, 6)], kernel_shape=[2, 2], strides=[2, 2], fixed=fixed)


@EITHER
def test_col2im(run, fixed):
    options = {"strides": [2, 1], "pads": [1, 0, 0, 2], "dilations": [1, 2]}
    blocks = ((7 + 1 - 2) // 2 + 1) * (6 + 2 - 5 + 1)
    agrees(run, "Col2Im", [noise(2, 3 * 6, blocks), i64(7, 6), i64(2, 3)], fixed=fixed, **options)


@EITHER
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 3, 4, 1), (2, 1, 2, 3, 4)])
def test_affine_grid(run, size, corners, fixed):
    n = len(size) - 2
    agrees(run, "AffineGrid", [noise(2, n, n + 1), i64(*size)], align_corners=corners, fixed=fixed)


@pytest.mark.parametrize(("batch", "group"), [("n", 1), (0, 1), ("n", 2), (0, 2)])
def test_a_convolution_of_no_images(batch: str | int, group: int) -> None:
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g (float[{batch},2,5,5] x, float[4,{2 // group},3,3] w) '
        f"=> (float[{batch},4,3,3] y) {{ y = Conv<group = {group}>(x, w) }}"
    )
    executor = db.frameworks["tensorflow"]().prepare(db.Network.from_proto(proto))
    w = np.ones((4, 2 // group, 3, 3), np.float32)
    assert executor({"x": np.zeros((0, 2, 5, 5), np.float32), "w": w})["y"].shape == (0, 4, 3, 3)
    if batch == "n":
        assert executor({"x": np.ones((2, 2, 5, 5), np.float32), "w": w})["y"][0, 0, 0, 0] == 18 / group
