"""Each formula against its operator's definition, spelled out in loops over numbers that count what is done with them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import log2
from typing import Any

import numpy as np
import pytest

from deep_bench.operators.cost import Work, cost_of
from tests.operators.cost.counting import Number, Tally
from tests.operators.cost.one_node import feeds, one_node

Loops = Callable[[Number], object]


def work(loops: Loops) -> Work:
    """What the loops count, for a number to start them with."""
    tally = Tally()
    loops(Number(tally))
    return tally.work


def over(*sizes: int) -> Any:
    return itertools.product(*map(range, sizes))


def products(x: Number, count: int) -> Number:
    """A sum of products, begun at zero."""
    total = x
    for _ in range(count):
        total = total + x * x
    return total


def gemm(x: Number) -> None:
    for _ in over(3, 5):
        _ = products(x, 4) * x + x * x  # alpha, C and beta, where C is as large as the result


def conv(x: Number) -> None:
    """2 images, 6 maps of 3 x 5 in 2 groups, 2 channels a group, windows of 3 x 2; a bias."""
    for _ in over(2, 6, 3, 5):
        _ = products(x, 2 * 3 * 2) + x


def conv_transpose(x: Number) -> None:
    """Each of 2 x 4 x 5 elements is put, weighed, on 3 maps of 3 elements; a bias for each of 2 x 3 x 11 results."""
    y = x
    for _ in over(2, 4, 5):
        for _ in over(3, 3):
            y = y + x * x
    for _ in over(2, 3, 11):
        y = y + x


def average_pool(x: Number) -> None:
    for _ in over(2, 3, 4, 5):
        total = x
        for _ in over(2, 3):
            total = total + x
        _ = total / x


def max_pool(x: Number) -> None:
    for _ in over(2, 3, 4, 5):
        largest = x
        for _ in over(2, 3):
            largest = largest.max(x)


def lp_pool(x: Number) -> None:
    for _ in over(2, 3, 5, 7):
        _ = x * x
    for _ in over(2, 3, 4, 5):
        total = x
        for _ in over(2, 3):
            total = total + x
        total.special()


def local_response(x: Number) -> None:
    """Beside size 3, in a tensor of 2 x 4 x 5: squares, their sum, alpha / size, the bias, a power, a division."""
    for _ in over(2, 4, 5):
        total = x * x
        for _ in range(3):
            total = total + x
        _ = x / (total * x + x).special()


def attention(x: Number, pairs: int = 2 * 3 * 4 * 6, size: int = 5, value_size: int = 7) -> None:
    """2 batches of 3 heads of 4 queries, each with 6 keys."""
    for _ in range(pairs):
        score = products(x, size) * x + x  # the scale and the mask
        e = (score.max(x) - x).special()
        weight = (e + x) / x
        for _ in range(value_size):
            x = x + weight * x


def capped_attention(x: Number) -> None:
    """2 heads of 3 queries and 4 keys; without a scale."""
    for _ in over(2, 3, 4):
        score = (products(x, 5) / x).special() * x
        weight = ((score.max(x) - x).special() + x) / x
        for _ in range(7):
            x = x + weight * x


def einsum(x: Number) -> None:
    for _ in over(2, 3, 5):
        products(x, 4)


def determinant(x: Number) -> None:
    for _ in range(2):
        for k in range(4):
            for _ in range(k + 1, 4):
                factor = x / x
                for _ in range(k + 1, 4):
                    x = x - factor * x
        for _ in range(3):
            x = x * x


def grid_sample(x: Number) -> None:
    """2 images of 3 channels at 6 x 7 positions."""
    for _ in over(2, 6, 7):
        for _ in range(2):
            _ = ((x + 1) * x - 1) / 2
            for _ in range(2):
                _ = (1 - (x - x)).max(0)
        for _ in range(4):
            weight = x * x
            for _ in range(3):
                x = x + weight * x


def cubic_grid_sample(x: Number) -> None:
    """The same with 4 x 4 neighbours, whose weights are cubic polynomials of the distance, of one or the other piece."""
    for _ in over(2, 6, 7):
        for _ in range(2):
            _ = (x + 1) / 2 * x
            for _ in range(4):
                t = (x - x).max(1)
                _ = ((x * t + x) * t + x) * t + x
        for _ in range(16):
            weight = x * x
            for _ in range(3):
                x = x + weight * x


def deformed(x: Number) -> None:
    """2 groups of offsets of 9 places in 3 x 3 windows, each for 2 channels; then a convolution as in `conv`."""
    for _ in over(2, 2, 9, 3, 3):
        for _ in range(2):
            _ = x + x
            for _ in range(2):
                _ = 1 - (x - x)
        for _ in range(4):
            weight = x * x
            for _ in range(2):
                x = x + weight * x
        for _ in range(2):
            x = x * x
    for _ in over(2, 6, 3, 3):
        _ = products(x, 2 * 9) + x


def resize(x: Number) -> None:
    """From 4 x 5 to 8 x 10, first along the one axis, then along the other."""
    for _ in over(8, 5):
        products(x, 2)
    for _ in over(8, 10):
        products(x, 2)


def roi_align(x: Number) -> None:
    """3 regions of 2 channels, 4 x 5 bins of 2 x 2 samples of 4 elements."""
    for _ in over(3, 4, 5):
        for _ in over(4, 4):
            _ = x * x
        for _ in range(2):
            for _ in range(4):
                sample = products(x, 4)
                x = x + sample
            x = x / x


def roi_largest(x: Number) -> None:
    """The same, with the largest of the weighed elements."""
    for _ in over(3, 4, 5):
        for _ in over(4, 4):
            _ = x * x
        for _ in over(2, 4, 4):
            x = x.max(x * x)


def softplus(x: Number) -> None:
    for _ in range(6):
        x.special().special()


def mish(x: Number) -> None:
    for _ in range(6):
        _ = x * x.special().special().special()


def shrink(x: Number) -> None:
    for _ in range(6):
        _ = (x + x).max(x).max(x)


def quantised_product(x: Number) -> None:
    for _ in over(3, 4):
        _ = x - x
    for _ in over(4, 5):
        _ = x - x
    _ = x * x / x
    for _ in over(3, 5):
        _ = (products(x, 4) * x + x).max(x).max(x)


def quantised_convolution(x: Number) -> None:
    """2 channels of 4 x 4, 3 maps of windows of 2 x 2 with a scale each, a bias."""
    for _ in range(2 * 4 * 4 + 3 * 2 * 2 * 2):
        _ = x - x
    for _ in range(3):
        _ = x * x / x
    for _ in over(3, 3, 3):
        _ = ((products(x, 2 * 2 * 2) + x) * x + x).max(x).max(x)


def shifted_convolution(x: Number) -> None:
    for _ in range(2 * 4 * 4):
        _ = x - x
    for _ in over(3, 3, 3):
        products(x, 2 * 2 * 2)


def mel(x: Number) -> None:
    """4 bands over 9 bins; a corner on each side of each."""
    for _ in range(2):
        _ = (x / 700 + 1).special() * 2595
    _ = x - x
    for _ in range(4 + 2):
        _ = ((x + x * x / x) / 2595).special()
        _ = (x - 1) * x / x
    for _ in over(9, 4):
        _ = (x - x) / x, (x - x) / x
        x.max(x).max(x).max(x).max(x)


def cubic_resize(x: Number) -> None:
    """From 8 to 4 with antialiasing: twice the 4 elements."""
    for _ in range(4):
        products(x, 2 * 4)


image = np.ones((1, 2, 4, 4), np.uint8)
kernel = np.ones((3, 2, 2, 2), np.uint8)
f8 = np.array(0.1, np.float32), np.array(3, np.uint8)


@pytest.mark.parametrize(
    ("operator", "inputs", "options", "loops"),
    [
        ("MatMul", [(2, 3, 4), (4, 5)], {}, lambda x: [products(x, 4) for _ in over(2, 3, 5)]),
        ("Gemm", [(3, 4), (4, 5), (3, 5)], {"alpha": 2.0, "beta": 2.0}, gemm),
        ("Einsum", [(2, 3, 4), (2, 4, 5)], {"equation": "bij,bjk->bik"}, einsum),
        ("Einsum", [(2, 3, 4), (4, 5)], {"equation": "...j,jk->...k"}, einsum),
        ("Einsum", [(3,), (4,)], {"equation": "i,j->ij"}, lambda x: [x * x for _ in range(12)]),
        ("Einsum", [(3, 4)], {"equation": "ij->i"}, lambda x: [x + x for _ in range(12)]),
        ("Einsum", [(3, 4)], {"equation": "ij->ji"}, lambda x: None),
        # the last two first would be 100 * 4 * 2 and 3 * 100 * 2
        ("Einsum", [(3, 100), (100, 4), (4, 2)], {"equation": "ij,jk,kl->il"},
         lambda x: [products(x, 3 * 100 * 4), products(x, 3 * 4 * 2)]),
        ("Det", [(2, 4, 4)], {}, determinant),
        ("Conv", [(2, 4, 7, 6), (6, 2, 3, 2), (6,)], {"group": 2, "strides": [2, 1]}, conv),
        ("ConvTranspose", [(2, 4, 5), (4, 3, 3), (3,)], {"strides": [2]}, conv_transpose),
        ("DeformConv", [(2, 4, 5, 5), (6, 2, 3, 3), (2, 36, 3, 3), (6,), (2, 18, 3, 3)],
         {"group": 2, "offset_group": 2}, deformed),
        ("Col2Im", [(1, 6, 4), np.array([4, 4]), np.array([2, 3])], {"strides": [2, 1]},
         lambda x: [x + x for _ in range(24)]),
        ("AveragePool", [(2, 3, 5, 7)], {"kernel_shape": [2, 3]}, average_pool),
        ("MaxPool", [(2, 3, 5, 7)], {"kernel_shape": [2, 3]}, max_pool),
        ("LpPool", [(2, 3, 5, 7)], {"kernel_shape": [2, 3]}, lp_pool),
        ("LRN", [(2, 4, 5)], {"size": 3}, local_response),
        ("Attention", [(2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7), (4, 6)], {}, attention),
        # heads packed into one axis; the first of 4 queries sees one key, the last one four
        ("Attention", [(2, 4, 15), (2, 6, 15), (2, 6, 21), (4, 6)], {"q_num_heads": 3, "kv_num_heads": 3, "is_causal": 1},
         lambda x: attention(x, 2 * 3 * (1 + 2 + 3 + 4))),
        # two heads of keys for four of queries; two keys past
        ("Attention", [(1, 4, 3, 5), (1, 2, 3, 5), (1, 2, 3, 7), (3, 5), (1, 2, 2, 5), (1, 2, 2, 7)], {"is_causal": 1},
         lambda x: attention(x, 4 * (3 + 4 + 5))),
        ("Attention", [(1, 1, 5, 5), (1, 1, 5, 5), (1, 1, 5, 7), (5, 5)], {"left_window_size": 1, "right_window_size": 1},
         lambda x: attention(x, 2 + 3 + 3 + 3 + 2)),
        ("Attention", [(2, 1, 1, 5), (2, 1, 6, 5), (2, 1, 6, 7), (1, 6), None, None, np.array([4, 6])], {},
         lambda x: attention(x, 4 + 6)),
        ("Attention", [(1, 2, 3, 5), (1, 2, 4, 5), (1, 2, 4, 7)], {"softcap": 2.0, "scale": 1.0}, capped_attention),
        ("GridSample", [(2, 3, 4, 5), (2, 6, 7, 2)], {}, grid_sample),
        ("GridSample", [(2, 3, 4, 5), (2, 6, 7, 2)], {"mode": "cubic", "align_corners": 1}, cubic_grid_sample),
        ("GridSample", [(2, 3, 4, 5), (2, 6, 7, 2)], {"mode": "nearest", "align_corners": 1},
         lambda x: [(x + 1) / 2 * x for _ in over(2, 6, 7, 2)]),
        ("Resize", [(1, 1, 4, 5), None, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}, resize),
        ("Resize", [(1, 1, 4, 5), None, np.array([1, 1, 2, 2], np.float32)], {}, lambda x: None),
        ("RoiAlign", [(1, 2, 6, 6), (3, 4), np.array([0, 0, 0])],
         {"sampling_ratio": 2, "output_height": 4, "output_width": 5}, roi_align),
        ("RoiAlign", [(1, 2, 6, 6), (3, 4), np.array([0, 0, 0])],
         {"sampling_ratio": 2, "output_height": 4, "output_width": 5, "mode": "max"}, roi_largest),
        ("Softplus", [(2, 3)], {}, softplus),
        ("Mish", [(2, 3)], {}, mish),
        ("Shrink", [(2, 3)], {"bias": 0.5}, shrink),
        ("QLinearMatMul", [np.ones((3, 4), np.uint8), *f8, np.ones((4, 5), np.uint8), *f8, *f8], {}, quantised_product),
        ("MatMulInteger", [np.ones((3, 4), np.uint8), np.ones((4, 5), np.uint8)], {},
         lambda x: [products(x, 4) for _ in over(3, 5)]),
        ("Range", [np.float32(0), np.float32(5), np.float32(1)], {}, lambda x: [x + x * x for _ in range(5)]),
        ("QLinearConv", [image, *f8, kernel, np.full(3, 0.1, np.float32), f8[1], *f8, np.ones(3, np.int32)], {},
         quantised_convolution),
        ("ConvInteger", [image, kernel, np.array(3, np.uint8)], {}, shifted_convolution),
        ("DequantizeLinear", [image, *f8], {}, lambda x: [(x - x) * x for _ in range(32)]),
        ("DequantizeLinear", [image, f8[0]], {}, lambda x: [x * x for _ in range(32)]),
        ("MelWeightMatrix", [np.int64(4), np.int64(16), np.int64(8000), np.float32(0), np.float32(4000)], {}, mel),
        ("Resize", [(8,), None, np.array([0.5], np.float32)], {"mode": "cubic", "antialias": 1}, cubic_resize),
        ("HammingWindow", [np.int64(8)], {}, lambda x: [x - x * (x * x / x).special() for _ in range(8)]),
        ("BlackmanWindow", [np.int64(8)], {},
         lambda x: [x - x * (x * x / x).special() + x * (2 * x).special() for _ in range(8)]),
        ("NonZero", [(2, 3)], {}, lambda x: [x.max(x) for _ in range(6)]),
        ("OneHot", [np.array([0, 1]), np.array(4), np.array([0.0, 1.0], np.float32)], {},
         lambda x: [x.max(x) for _ in range(8)]),
        ("TopK", [(2, 3), np.array([2])], {}, lambda x: [x.max(x) for _ in range(6)]),
        ("Unique", [(6,)], {}, lambda x: [x.max(x) for _ in range(6)]),
        ("IsInf", [(2, 3)], {}, lambda x: [x.max(x) for _ in range(6)]),
        *((name, [np.ones(3, bool), np.ones(3, bool)], {}, lambda x: None) for name in ("And", "Or", "Xor")),
        *((name, [image, image], {}, lambda x: None) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")),
        ("Not", [np.ones(3, bool)], {}, lambda x: None),
        ("BitwiseNot", [image], {}, lambda x: None),
        ("BitShift", [image, image], {"direction": "LEFT"}, lambda x: None),
        ("MaxUnpool", [(1, 1, 2, 2), np.array([[[[0, 2], [8, 10]]]])], {"kernel_shape": [2, 2], "strides": [2, 2]},
         lambda x: None),
        ("HannWindow", [np.int64(8)], {}, lambda x: [x - x * (x * x / x).special() for _ in range(8)]),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)  # fmt: skip
def test_the_formula_counts_what_the_definition_says(
    operator: str, inputs: list[Any], options: dict[str, Any], loops: Loops
) -> None:
    given = [np.asarray(x) if isinstance(x, np.generic) else x for x in inputs]
    network = one_node(operator, given, 2 if operator == "TopK" else 1, **options)
    found, expected = cost_of(network, inputs=feeds(network)), work(loops)
    assert found is not None
    assert (found.flops, found.special, found.comparisons) == (expected.flops, expected.special, expected.comparisons)


def transform(x: Number, n: int) -> None:
    """Cooley and Tukey: two transforms of half the length, and for each pair a complex product, a sum and a difference."""
    if n > 1:
        transform(x, n // 2)
        transform(x, n // 2)
        for _ in range(n // 2):
            _ = x * x - x * x, x * x + x * x
            _ = x + x, x + x, x - x, x - x


def test_a_fourier_transform_costs_that_of_a_fast_one() -> None:
    network = one_node("DFT", [(3, 16, 2), None, np.array(1)])
    found, expected = cost_of(network), work(lambda x: [transform(x, 16) for _ in range(3)])
    assert found is not None
    assert found.flops == expected.flops == 3 * 5 * 16 * log2(16)
    half = cost_of(one_node("DFT", [(3, 16, 1), None, np.array(1)], onesided=1))
    assert half is not None
    assert half.flops * 2 == found.flops
    frames = cost_of(one_node("STFT", [(1, 64, 1), np.array(16), np.ones(16, np.float32)]))
    assert frames is not None
    assert frames.flops == 4 * (16 * 4 * 2.5 + 16)
