"""Arithmetic on eight bits."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.reference.operators.contrib import quantize

RNG = np.random.default_rng(4)
EIGHT_BITS = [np.uint8, np.int8]


def integers(*shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def parameters(scale, zero_point, dtype):
    return [np.array(scale, np.float32), np.array(zero_point, dtype)]


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((2, 1, 4), (3, 1)), ((), (3,)), ((0, 3), (1, 3)), ((4, 5, 6), ())])
@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_sum_and_product(judge, dtype, shapes, name) -> None:
    a, b = (np.asarray(integers(*shape, dtype=dtype)) for shape in shapes)
    judge(name, [a, *parameters(0.03, 5, dtype), b, *parameters(0.05, 100, dtype), *parameters(0.07, 30, dtype)])


@pytest.mark.parametrize("name", ["QLinearAdd", "QLinearMul"])
def test_sum_and_product_saturate(judge, name) -> None:
    a, b = integers(50), integers(50)
    judge(name, [a, *parameters(0.03, 5, np.uint8), b, *parameters(0.05, 100, np.uint8), *parameters(0.01, 30, np.uint8)])


@pytest.mark.parametrize(("name", "expected"), [("QLinearAdd", [3, 7, 128]), ("QLinearMul", [1, 5, 255])])
def test_sum_and_product_without_zero_points(name, expected) -> None:
    # The runtime's own type inference fails where a zero point is absent, although its documentation allows that.
    a, b, one = np.array([2, 10, 255], np.uint8), np.array([1, 1, 0], np.uint8), np.float32(1)
    two = np.array(2, np.float32)
    y = getattr(quantize, name)(a, np.asarray(two), None, b, np.asarray(two), None, np.asarray(4 * one))
    total = (2.0 * a + 2.0 * b) / 4 if name == "QLinearAdd" else 4.0 * a * b / 4
    np.testing.assert_array_equal(y, np.clip(np.rint(total), 0, 255).astype(np.uint8))


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("given", [False, True])
def test_activations(judge, dtype, given) -> None:
    x = np.arange(np.iinfo(dtype).min, np.iinfo(dtype).max + 1).astype(dtype)
    scale, zero_point = parameters(0.05, 20, dtype)
    end = parameters(1 / 256, 10, dtype)
    inputs = [x, scale, zero_point if given else None, end[0], end[1] if given else None]
    judge("QLinearSigmoid", inputs)
    judge("QLinearLeakyRelu", [*inputs[:3], np.array(0.04, np.float32), *inputs[4:]], alpha=0.3)
    judge("QLinearLeakyRelu", inputs)


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_softmax(judge, dtype, opset, axis) -> None:
    end = parameters(1 / 256, np.iinfo(dtype).min, dtype)
    judge("QLinearSoftmax", [integers(3, 4, 5, dtype=dtype), *parameters(0.05, 3, dtype), *end], opset=opset, axis=axis)


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat(judge, dtype, axis) -> None:
    sizes = [(2, 3), (2, 3)] if axis == 0 else [(2, 3), (2, 1)]
    parts = [integers(*shape, dtype=dtype) for shape in sizes]
    same, other = parameters(0.04, 4, dtype), parameters(0.05, 9, dtype)
    judge("QLinearConcat", [*same, parts[0], *same, parts[1], *other], axis=axis)


@pytest.mark.parametrize("dtype", EIGHT_BITS)
def test_where(judge, dtype) -> None:
    condition = np.array([[True], [False], [True]])
    x, y = integers(3, 4, dtype=dtype), integers(4, dtype=dtype)
    ends = [parameters(0.03, 5, dtype), parameters(0.05, 2, dtype), parameters(0.05, 3, dtype)]
    judge("QLinearWhere", [condition, x, *ends[0], y, *ends[1], *ends[2]])


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_conv(judge, dtype, last, columns, group) -> None:
    x, w = integers(2, 2, 5, 6, dtype=dtype), integers(4, 2 // group, 3, 3, dtype=dtype)
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x
    weights = parameters(0.02, 3, dtype)
    if columns:
        weights = [RNG.random(4).astype(np.float32) * 0.05 + 0.001, integers(4, dtype=dtype)]
    inputs = [
        x,
        *parameters(0.05, 20, dtype),
        w,
        *weights,
        *parameters(0.3, 10, dtype),
        np.array([1, 100, 999, -5], np.int32),
    ]
    judge("QLinearConv", inputs, channels_last=last, group=group, pads=[1, 1, 0, 0], strides=[1, 2])


@pytest.mark.parametrize("floating", [np.float16, np.float32])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_there_and_back(judge, floating, dtype) -> None:
    x, scale, zero_point = (RNG.standard_normal((3, 4)) * 9).astype(floating), np.array(0.125, floating), np.array(3, dtype)
    judge("QuantizeLinear", [x, scale, zero_point])
    judge("DequantizeLinear", [integers(3, 4, dtype=dtype), scale, zero_point])
    scales, zero_points = (2.0 ** -np.arange(1, 4)).astype(floating), np.array([0, 1, 2], dtype)
    judge("QuantizeLinear", [x, scales, zero_points], axis=0)
    judge("DequantizeLinear", [integers(3, 4, dtype=dtype), scales, zero_points], axis=-2)


def test_there_and_back_without_zero_points(judge) -> None:
    judge("QuantizeLinear", [RNG.standard_normal((3, 4)).astype(np.float32) * 99, np.array(0.5, np.float32)])
    judge("DequantizeLinear", [integers(3, 4, dtype=np.int32), np.array(0.5, np.float32)])
