"""Products of quantized matrices."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import Unsupported
from deep_bench.reference.operators.contrib import linear

RNG = np.random.default_rng(5)
EIGHT_BITS = [np.uint8, np.int8]


def random(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def integers(*shape, dtype=np.uint8):
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def weights(dtype, kind):
    """A matrix with a scale and a zero point: of the whole, in an axis or not, of each column, or none."""
    scale = (
        RNG.random(5).astype(np.float32) * 0.05
        if kind == "columns"
        else np.full((1,) * (kind == "vector"), 0.02, np.float32)
    )
    zero_point = None if kind == "symmetric" else integers(*scale.shape, dtype=dtype)
    return integers(4, 5, dtype=dtype), scale, None if zero_point is None else np.asarray(zero_point)


KINDS = ["scalar", "vector", "columns", "symmetric"]


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("bias", [False, True])
def test_dynamic_quantize_matmul(judge, dtype, kind, shape, bias) -> None:
    extra = [random(5)] if bias else []
    judge("DynamicQuantizeMatMul", [random(*shape), *weights(dtype, kind), *extra], atol=1e-4)


def test_dynamic_quantize_matmul_of_stacks_and_zeros(judge) -> None:
    scale, zero_point = np.array(0.02, np.float32), np.array(3, np.uint8)
    judge("DynamicQuantizeMatMul", [random(2, 3, 4), integers(2, 4, 5), scale, zero_point], atol=1e-4)
    judge("DynamicQuantizeMatMul", [0 * random(3, 4), integers(4, 5), scale, zero_point])


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [False, True])
def test_matmul_integer_to_float(judge, dtype, kind, bias) -> None:
    b, scale, zero_point = weights(dtype, kind)
    extra = [random(5)] if bias else []
    judge(
        "MatMulIntegerToFloat",
        [integers(2, 3, 4), b, np.array(0.03, np.float32), scale, np.array(7, np.uint8), zero_point, *extra],
        atol=1e-4,
    )
    judge("MatMulIntegerToFloat", [integers(3, 4), b, np.array(0.03, np.float32), scale, None, zero_point], atol=1e-4)


def test_matmul_integer_to_float_of_signed_inputs_and_halves() -> None:
    a, b = integers(2, 3, dtype=np.int8), integers(3, 2, dtype=np.int8)
    scale = np.array(0.5, np.float16)
    y = linear.MatMulIntegerToFloat(a, b, scale, scale, np.array(1, np.int8))
    assert y.dtype == np.float16
    np.testing.assert_allclose(y, (a.astype(float) - 1) @ b.astype(float) / 4, rtol=1e-3)


@pytest.mark.parametrize("dtype", EIGHT_BITS)
@pytest.mark.parametrize("attributes", [{}, {"transA": 1}, {"transB": 1}, {"alpha": 0.5}])
@pytest.mark.parametrize("floating", [False, True])
def test_qgemm(judge, dtype, attributes, floating) -> None:
    a = integers(*((4, 3) if "transA" in attributes else (3, 4)), dtype=dtype)
    b = integers(*((5, 4) if "transB" in attributes else (4, 5)), dtype=dtype)
    ends = [] if floating else [np.array(30, np.float32), np.array(8, dtype)]
    first, second = [np.array(0.2, np.float32), np.array(4, dtype)], [np.array(0.3, np.float32), np.array(9, dtype)]
    c = np.array([1, -2, 300, 4, 5], np.int32)
    judge("QGemm", [a, *first, b, *second, c, *ends], atol=1e-3, **attributes)
    judge("QGemm", [a, *first, b, *second, None, *ends], atol=1e-3, **attributes)


def test_matmul_integer_16(judge) -> None:
    judge("MatMulInteger16", [integers(2, 3, 4, dtype=np.int16), integers(4, 5, dtype=np.int16)])
    y = linear.MatMulInteger16(np.full((1, 2), 65535, np.uint16), np.full((2, 1), 65535, np.uint16))
    assert y.dtype == np.uint32
    assert y.item() == 2 * 65535**2 % 2**32


LAYOUTS = [(4, 32, 16, 5), (4, 40, 16, 3), (4, 128, 128, 4), (4, 16, 32, 2), (2, 40, 16, 3), (2, 128, 32, 4)]
BYTES = [(8, 40, 16, 3), (8, 128, 32, 4)]


def blocks(layout, dtype=np.float32):
    bits, k, size, n = layout
    count = -(-k // size)
    whole = integers(n, count, size * bits // 8)
    zero_points = integers(n, -(-count * bits // 8))
    attributes = {"K": k, "N": n, "bits": bits, "block_size": size}
    return whole, (RNG.random((n, count)) / 2**bits).astype(dtype), zero_points, attributes


@pytest.mark.parametrize("layout", LAYOUTS + BYTES)
@pytest.mark.parametrize("zero_point", ["none", "packed", "flat"])
@pytest.mark.parametrize("bias", [False, True])
def test_matmul_n_bits(judge, layout, zero_point, bias) -> None:
    b, scales, zero_points, attributes = blocks(layout)
    if zero_point == "flat":
        scales, zero_points = scales.ravel(), zero_points.ravel()
    inputs = [random(2, 3, attributes["K"]), b, scales, None if zero_point == "none" else zero_points]
    inputs += [None, random(attributes["N"])] if bias else []
    judge("MatMulNBits", inputs, atol=1e-4, **attributes)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matmul_n_bits_with_zero_points_that_are_not_integers(judge, layout) -> None:
    b, scales, _, attributes = blocks(layout)
    zero_points = (RNG.random(scales.shape) * 4).astype(np.float32)
    judge("MatMulNBits", [random(3, attributes["K"]), b, scales, zero_points], atol=1e-4, **attributes)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout[0] == 4])
@pytest.mark.parametrize("padded", [False, True])
def test_matmul_n_bits_with_columns_in_any_block(judge, layout, padded) -> None:
    b, scales, _, attributes = blocks(layout)
    count = scales.shape[1]
    length = count * attributes["block_size"] if padded else attributes["K"]
    index = RNG.integers(0, count, length).astype(np.int32)
    judge("MatMulNBits", [random(3, attributes["K"]), b, scales, None, index], atol=1e-4, **attributes)


# Where it is given block indices, the runtime ignores packed zero points, reads two bits as four and refuses eight.
@pytest.mark.parametrize("layout", LAYOUTS + BYTES)
def test_matmul_n_bits_with_the_blocks_that_columns_are_in_anyway(layout) -> None:
    b, scales, zero_points, attributes = blocks(layout)
    x = random(3, attributes["K"])
    index = (np.arange(attributes["K"]) // attributes["block_size"]).astype(np.int32)
    expected = linear.MatMulNBits(x, b, scales, zero_points, **attributes)
    np.testing.assert_array_equal(linear.MatMulNBits(x, b, scales, zero_points, index, **attributes), expected)


def test_matmul_n_bits_with_other_blocks_keeps_the_zero_points() -> None:
    b, scales, zero_points, attributes = blocks((4, 32, 16, 5))
    x, trivial = random(3, 32), np.arange(32) // 16
    index = trivial[::-1].astype(np.int32)
    whole = np.stack((b & 15, b >> 4), axis=-1).reshape(5, 32).astype(float)
    zeros = np.stack((zero_points & 15, zero_points >> 4), axis=-1).reshape(5, 2)
    expected = x.astype(float) @ ((whole - zeros[:, index]) * scales[:, index]).T
    result = linear.MatMulNBits(x, b, scales, zero_points, index, **attributes)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_matmul_n_bits_of_halves_of_nothing_and_without_weights(judge) -> None:
    b, scales, zero_points, attributes = blocks((4, 32, 16, 5), np.float16)
    judge("MatMulNBits", [random(3, 32, dtype=np.float16), b, scales, zero_points], atol=1e-2, **attributes)
    scales = scales.astype(np.float32)
    judge("MatMulNBits", [random(0, 32), b, scales, zero_points], **attributes)
    judge("MatMulNBits", [random(2, 32), b[:0], scales, zero_points, None, random(5)], **attributes)


def test_matmul_n_bits_of_three_bits() -> None:
    packed = np.packbits(
        np.unpackbits(np.arange(16, dtype=np.uint8)[:, None] % 8, axis=1, bitorder="little")[:, :3].ravel(),
        bitorder="little",
    )
    scales = np.ones((1, 1), np.float32)
    y = linear.MatMulNBits(np.eye(16, dtype=np.float32), packed.reshape(1, 1, 6), scales, K=16, N=1, bits=3, block_size=16)
    np.testing.assert_array_equal(y.ravel(), np.arange(16) % 8 - 4)


def test_matmul_n_bits_refuses_what_it_cannot_read() -> None:
    b, scales, _, attributes = blocks((4, 32, 16, 5))
    with pytest.raises(Unsupported, match="weight_prepacked=1"):
        linear.MatMulNBits(random(1, 32), b, scales, weight_prepacked=1, **attributes)
    with pytest.raises(Unsupported, match="block 7"):
        linear.MatMulNBits(random(1, 32), b, scales, None, np.full(32, 7, np.int32), **attributes)
