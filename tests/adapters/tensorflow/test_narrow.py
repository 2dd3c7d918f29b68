"""Element types of 4 and 8 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest

from deep_bench.reference.operators import find

from .conftest import one_node

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
INT4 = ("int4", "uint4")
NUMBERS = np.array([-300, -8.6, -1.5, -0.25, 0, 0.3, 1.5, 2.5, 7.4, 9, 15.5, 460, 1e6], np.float32)


def narrow(name):
    return np.dtype(getattr(ml_dtypes, name))


def equal(found, want):
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", FLOAT8)
def test_to_floats_of_8_bits(run, name, saturate):
    code = onnx.helper.np_dtype_to_tensor_dtype(narrow(name))
    x = np.append(NUMBERS, [np.inf, -np.inf, np.nan]).astype(np.float32)
    equal(run("Cast", [x], to=code, saturate=saturate), find("", "Cast")(x, to=code, saturate=saturate))


@pytest.mark.parametrize("name", INT4)
def test_to_and_from_integers_of_4_bits(run, name):
    code = onnx.helper.np_dtype_to_tensor_dtype(narrow(name))
    for x in (NUMBERS[1:-2], NUMBERS[1:-2].astype(np.float16), np.arange(8, dtype=np.int64), np.array([True, False])):
        equal(run("Cast", [x], to=code), x.astype(narrow(name)))
    few = np.arange(-8, 8).astype(narrow(name))
    for target in (1, 2, 3, 7, 9, 10):
        equal(run("Cast", [few], to=target), find("", "Cast")(few, to=target))
    equal(run("CastLike", [few, np.zeros(1, np.float16)]), few.astype(np.float16))


@pytest.mark.parametrize("zeros", [None, (0, 3)])
@pytest.mark.parametrize("name", [*FLOAT8, *INT4, "int8", "uint16"])
def test_quantisation(run, name, zeros):
    dtype = narrow(name) if hasattr(ml_dtypes, name) else np.dtype(name)
    x, scale = np.stack([NUMBERS, NUMBERS[::-1]]), np.array([0.5, 3], np.float32)
    zero = np.array((0, 0) if zeros is None else zeros).astype(dtype)
    inputs = [x, scale, zero]
    q = run("QuantizeLinear", inputs, axis=0, fixed=1)
    equal(q, find("", "QuantizeLinear")(*inputs, axis=0))
    equal(run("DequantizeLinear", [q, scale, zero], axis=0), find("", "DequantizeLinear")(q, scale, zero, axis=0))


@pytest.mark.parametrize("scales", [np.float16, np.float32])
def test_products_of_quantised_matrices(run, scales):
    a, b = (np.random.default_rng(i).integers(0, 255, s).astype(np.uint8) for i, s in enumerate([(3, 4), (4, 2)]))
    inputs = [
        a, np.array([0.01, 0.02, 0.015], scales), np.array([120, 3, 9], np.uint8), b, np.array(0.03, scales),
        np.array(110, np.uint8), np.array([0.05, 0.02, 0.5], scales), np.array([118, 0, 7], np.uint8),
    ]  # fmt: skip
    equal(run("QLinearMatMul", inputs), find("", "QLinearMatMul")(*inputs))


@pytest.mark.parametrize("name", ["int2", "uint2", "float4_e2m1fn", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_types_without_kernels_are_left_to_the_reference(adapter, name):
    x = np.array([0, 1, 1, 0]).astype(narrow(name))
    executor = adapter.prepare(one_node("Cast", [x], 1, 99, 25, {"to": 1}))
    assert list(executor.forms.fallback) == ["Cast"]
    equal(executor({"i0": x})["o0"], np.array([0, 1, 1, 0], np.float32))
