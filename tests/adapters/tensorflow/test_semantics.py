"""Where ONNX and TensorFlow differ, and the standard's cases do not look."""

from __future__ import annotations

import numpy as np
import pytest

from .agreement import agrees, i64, noise, same

NAN, INF = np.nan, np.inf


def f32(*values):
    return np.array(values, np.float32)


def test_clip_keeps_nan_and_the_upper_limit_wins(run):
    same(run("Clip", [f32(NAN, -5, 0, 5), f32(1)[0], f32(-1)[0]], fixed=1), f32(NAN, -1, -1, -1))
    same(run("Clip", [f32(NAN, -5, 0, 5), f32(-1)[0], f32(1)[0]]), f32(NAN, -1, 0, 1))


def test_maximum_and_minimum_pass_nan_on(run):
    same(run("Max", [f32(NAN, 1, 2), f32(0, NAN, 3)]), f32(NAN, NAN, 3))
    same(run("Min", [f32(NAN, 1, 2), f32(0, NAN, 3)]), f32(NAN, NAN, 2))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integer_division_rounds_towards_zero(run, dtype):
    a, b = np.array([7, -7, 7, -7], dtype), np.array([2, 2, -2, -2], dtype)
    same(run("Div", [a, b]), np.array([3, -3, -3, 3], dtype))
    same(run("Mod", [a, b]), np.array([1, 1, -1, -1], dtype))
    same(run("Mod", [a, b], fmod=1), np.array([1, -1, 1, -1], dtype))


def test_small_integers_wrap_around(run):
    big = np.array([200, 100], np.uint8)
    same(run("Add", [big, big]), np.array([144, 200], np.uint8))
    same(run("Mul", [big, big]), np.array([64, 16], np.uint8))


def test_power_has_the_type_of_its_base(run):
    same(run("Pow", [np.array([2, 3], np.int32), f32(2, 0.5)]), np.array([4, 1], np.int32))
    same(run("Pow", [f32(2, -3), i64(3, 2)]), f32(8, 9))
    same(run("Pow", [f32(2, -3), f32(2)[0]], fixed=1), f32(4, 9))


def test_round_to_even(run):
    same(run("Round", [f32(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5)]), f32(-2, -2, -0.0, 0, 2, 2))


def test_casts(run):
    same(run("Cast", [f32(-1.9, 1.9, 0.0, 300)], to=7), i64(-1, 1, 0, 300))
    same(run("Cast", [f32(NAN, 0, 0.3, -1)], to=9), np.array([True, False, True, True]))
    same(run("Cast", [i64(300, -1)], to=2), np.array([44, 255], np.uint8))


def test_pads_never_win_a_maximum(run):
    x = -1 - np.abs(noise(1, 2, 5, 5))
    for options in ({}, {"strides": [2, 2]}, {"dilations": [2, 1]}, {"ceil_mode": 1, "strides": [2, 2]}):
        agrees(run, "MaxPool", [x], kernel_shape=[3, 3], pads=[1, 1, 1, 1], **options)
    agrees(run, "MaxPool", [x[:, :, 0]], kernel_shape=[3], pads=[1, 0])
    agrees(run, "MaxPool", [-1 - np.abs(noise(1, 2, 4, 4, 4))], kernel_shape=[2, 2, 2], pads=[1, 0, 1, 0, 1, 0])


def test_integer_pool(run):
    x = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 4, 4)
    same(run("MaxPool", [x], kernel_shape=[2, 2], pads=[1, 1, 0, 0], strides=[2, 2]), x[:, :, ::2, ::2])


@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("ceil", [0, 1])
def test_what_an_average_counts(run, include, ceil):
    x = noise(1, 2, 6, 7)
    options = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": ceil, "count_include_pad": include}
    agrees(run, "AveragePool", [x], pads=[1, 0, 1, 1], **options)
    agrees(run, "AveragePool", [x], dilations=[2, 1], pads=[0, 1, 1, 0], **options)


CONVOLUTIONS = {
    "asymmetric": ((1, 4, 7, 8), (6, 4, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
    "grouped": ((2, 4, 7, 8), (6, 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    "dilated": ((1, 2, 9, 9), (3, 2, 3, 3), {"dilations": [2, 3]}),
    "depthwise": ((1, 4, 7, 8), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    "depthwise, stride and multiplier": ((1, 4, 7, 8), (8, 1, 3, 3), {"group": 4, "strides": [2, 2], "pads": [0, 1, 1, 0]}),
    "depthwise, uneven stride": ((1, 4, 7, 8), (4, 1, 3, 3), {"group": 4, "strides": [2, 1]}),
    "depthwise, dilated": ((1, 4, 9, 9), (4, 1, 3, 3), {"group": 4, "dilations": [2, 2], "strides": [2, 2]}),
    "depthwise, even kernel": ((1, 4, 9, 9), (4, 1, 2, 4), {"group": 4, "pads": [1, 2, 0, 1]}),
    "one axis": ((2, 4, 9), (6, 2, 3), {"group": 2, "pads": [2, 1], "dilations": [2]}),
    "one axis, depthwise": ((2, 4, 9), (4, 1, 3), {"group": 4, "pads": [1, 1]}),
    "three axes": ((1, 4, 5, 6, 5), (6, 2, 2, 3, 2), {"group": 2, "dilations": [1, 2, 1], "pads": [1, 0, 0, 0, 2, 1]}),
    "same lower": ((1, 2, 7, 8), (3, 2, 2, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "same upper": ((1, 2, 7, 8), (3, 2, 2, 4), {"auto_pad": "SAME_UPPER", "strides": [1, 3]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(run, name):
    x, w, attributes = CONVOLUTIONS[name]
    agrees(run, "Conv", [noise(*x), noise(*w, seed=1), noise(w[0], seed=2)], **attributes)


TRANSPOSED = {
    "plain": ((1, 3, 4, 5), (3, 2, 3, 3), {}),
    "stride, pads and output padding": (
        (1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 3], "pads": [1, 0, 1, 2], "output_padding": [1, 2]},
    ),
    "groups": ((1, 4, 4, 5), (4, 3, 3, 2), {"group": 2, "strides": [2, 2]}),
    "dilations": ((1, 3, 4, 5), (3, 2, 3, 3), {"dilations": [2, 2], "strides": [2, 1]}),
    "one axis": ((1, 3, 6), (3, 2, 4), {"strides": [2], "pads": [1, 1]}),
    "three axes": ((1, 3, 3, 4, 3), (3, 2, 2, 2, 3), {"strides": [1, 2, 2]}),
    "output shape": ((1, 2, 4, 4), (2, 2, 3, 3), {"strides": [3, 2], "output_shape": [10, 8]}),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(run, name):
    x, w, attributes = TRANSPOSED[name]
    bias = noise(w[1] * attributes.get("group", 1), seed=2)
    agrees(run, "ConvTranspose", [noise(*x), noise(*w, seed=1), bias], **attributes)


@pytest.mark.parametrize("fixed", [1, 99])
def test_indices_from_the_end(run, fixed):
    x, rows = noise(4, 3), i64(-1, 0, -4)
    same(run("Gather", [x, rows], fixed=fixed), x[rows])
    agrees(run, "GatherElements", [x, i64([-1, 0, 1], [2, -3, 0])], axis=1, fixed=fixed)
    agrees(run, "GatherND", [x, i64([-1, -1], [0, -3])], fixed=fixed)
    agrees(run, "ScatterElements", [x, i64([-1, 0, 1]), noise(1, 3, seed=1)], fixed=fixed)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(run, reduction):
    x, updates = noise(3, 4), noise(2, 4, seed=1)
    places = i64([0, 1, 2, 0], [2, 2, 1, 1])
    agrees(run, "ScatterElements", [x, places, updates], reduction=reduction)
    agrees(run, "ScatterND", [x, i64([0, 1], [2, -1], [1, 1]), noise(3, seed=2)], reduction=reduction)


@pytest.mark.parametrize("last", [0, 1])
def test_which_of_equals_is_the_maximum(run, last):
    x = f32([1, 3, 3, 0], [2, 2, 2, 2])
    same(run("ArgMax", [x], axis=1, keepdims=0, select_last_index=last), i64(2, 3) if last else i64(1, 0))
    same(run("ArgMin", [x], axis=-1, keepdims=1, select_last_index=last), i64([3], [3]) if last else i64([3], [0]))


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int64"])
def test_top_k_takes_the_lower_index_first(run, dtype):
    x = np.array([[1, 3, 3, 0, 1]], dtype)
    values, places = run("TopK", [x, i64(3)], outputs=2)
    same(values, np.array([[3, 3, 1]], dtype))
    same(places, i64([1, 2, 0]))
    values, places = run("TopK", [x.T, i64(3)], outputs=2, axis=0, largest=0, fixed=1)
    same(values.T, np.array([[0, 1, 1]], dtype))
    same(places.T, i64([3, 0, 4]))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "transformation", ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
)
def test_resize(run, mode, transformation):
    x = noise(1, 2, 5, 7)
    options = {"mode": mode, "coordinate_transformation_mode": transformation}
    agrees(run, "Resize", [x, None, f32(1, 1, 0.7, 2.3)], **options)
    agrees(run, "Resize", [x, None, None, i64(1, 2, 9, 3)], exclude_outside=int(mode == "cubic"), **options)


@pytest.mark.parametrize("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_resize_of_ties(run, rounding):
    agrees(run, "Resize", [noise(1, 1, 6, 4), None, f32(1, 1, 0.5, 1.5)], mode="nearest", nearest_mode=rounding)


def test_resize_with_many_neighbours(run):
    x = noise(1, 2, 24, 20)
    agrees(run, "Resize", [x, None, None, i64(1, 2, 4, 3)], mode="cubic", antialias=1)
    agrees(run, "Resize", [x, None, None, i64(5, 6)], mode="linear", antialias=1, axes=[2, 3])


def test_slices(run):
    x = noise(5, 6)
    largest = np.iinfo(np.int64).max
    for fixed in (1, 3):  # known ends, and ends that are fed
        same(run("Slice", [x, i64(4, 1), i64(-largest, largest), i64(0, 1), i64(-2, 1)], fixed=fixed), x[4::-2, 1:])
        same(run("Slice", [x, i64(-100), i64(100), i64(-1)], fixed=fixed), x)
    assert run("Slice", [x, i64(3), i64(3), i64(0)], fixed=1).shape == (0, 6)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(run, mode):
    pads = i64(1, 2, 0, 3) if mode != "constant" else i64(1, -2, 0, 3)
    agrees(run, "Pad", [noise(4, 5), pads], mode=mode)


def test_empty_tensors(run):
    empty = np.zeros((0, 3), np.float32)
    same(run("MatMul", [empty, noise(3, 2)]), np.zeros((0, 2), np.float32))
    same(run("ReduceSum", [empty, i64(0)], fixed=1, keepdims=0), np.zeros(3, np.float32))
    assert run("ReduceMax", [empty, i64(0)], fixed=1, keepdims=0).tolist() == [-INF] * 3
    same(run("Concat", [empty, noise(2, 3)], axis=0), noise(2, 3))
    assert run("NonZero", [np.zeros(4, np.float32)]).shape == (1, 0)


def test_reductions_of_integers_and_booleans(run):
    x = np.array([[100, 100], [100, -3]], np.int8)
    same(run("ReduceMax", [x, i64(1)], fixed=1), np.array([[100], [100]], np.int8))
    same(run("ReduceMin", [np.array([[True, False]]), i64(1)], fixed=1, keepdims=0), np.array([False]))
    same(run("ReduceSum", [x.astype(np.int32), i64()], fixed=1, noop_with_empty_axes=1), x.astype(np.int32))


@pytest.mark.long
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("length", [4, 20])
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_recurrent(run, operator, length, direction):
    gates, d = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator], 2 if direction == "bidirectional" else 1
    x, hidden = noise(length, 3, 5), 4
    w, r = noise(d, gates * hidden, 5, seed=1), noise(d, gates * hidden, hidden, seed=2)
    lengths = np.array([length, 1, length - 2], np.int32)
    inputs = [x, w, r, noise(d, 2 * gates * hidden, seed=3), lengths, noise(d, 3, hidden, seed=4)]
    options = {"hidden_size": hidden, "direction": direction}
    if operator == "GRU":
        options["linear_before_reset"] = 1
    agrees(run, operator, inputs, outputs=2, **options)
    if operator == "LSTM":
        more = [*inputs, noise(d, 3, hidden, seed=5), noise(d, 3 * hidden, seed=6)]
        agrees(run, operator, more, outputs=3, clip=0.8, input_forget=1, **options)


def test_shifts_beyond_the_width(run):
    x, by = np.array([255, 255, 1], np.uint8), np.array([8, 1, 200], np.uint8)
    same(run("BitShift", [x, by], direction="RIGHT"), np.array([0, 127, 0], np.uint8))
    same(run("BitShift", [x, by], direction="LEFT"), np.array([0, 254, 0], np.uint8))


def test_a_row_added_to_a_product(run):
    a, b, c = noise(3, 4), noise(3, 5, seed=1), noise(1, 5, seed=2)
    same(run("Gemm", [a, b, c], transA=1), a.T @ b + c)
