"""Operators that real networks use seldom: TensorFlow against the reference."""

from __future__ import annotations

import numpy as np
import pytest

from .agreement import agrees, i64, noise, same


@pytest.mark.long
@pytest.mark.parametrize("mode", ["linear", "nearest"])
@pytest.mark.parametrize("outside", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [0, 1])
def test_grid_sample(run, mode, outside, corners):
    options = {"mode": mode, "padding_mode": outside, "align_corners": corners}
    agrees(run, "GridSample", [noise(2, 3, 4, 5), 1.2 * noise(2, 6, 7, 2, seed=1)], fixed=2, **options)
    agrees(run, "GridSample", [noise(1, 2, 3, 4, 5), 1.2 * noise(1, 2, 3, 4, 3, seed=1)], fixed=2, **options)


@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize("axis", [1, -2])
def test_fourier_transform(run, length, axis):
    size = None if length is None else np.array(length)
    agrees(run, "DFT", [noise(2, 8, 3, 1), size, np.array(axis)])
    agrees(run, "DFT", [noise(2, 8, 3, 1), size, np.array(axis)], onesided=1)
    agrees(run, "DFT", [noise(2, 8, 3, 2), size, np.array(axis)], inverse=1)


def test_short_time_fourier_transform(run):
    window = np.hanning(6).astype(np.float32)
    agrees(run, "STFT", [noise(2, 20, 1), np.array(3), window, np.array(6)])
    agrees(run, "STFT", [noise(2, 20, 2), np.array(4), None, np.array(5)], onesided=0)


def quantised(*shape, seed=0, dtype=np.uint8):
    return np.random.default_rng(seed).integers(0, 127, shape).astype(dtype)


def test_quantised_convolution(run):
    x, w = quantised(1, 4, 6, 6), quantised(6, 2, 3, 3, seed=1, dtype=np.int8)
    scales = [np.float32(0.02), (0.01 + 0.001 * np.arange(6)).astype(np.float32), np.float32(0.7)]
    zeros = [np.uint8(60), quantised(6, seed=2, dtype=np.int8), np.uint8(100)]
    inputs = [x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], zeros[2], np.arange(-300, 300, 100, dtype=np.int32)]
    agrees(run, "QLinearConv", inputs, group=2, pads=[1, 0, 1, 2], strides=[2, 1])
    agrees(run, "ConvInteger", [x, w, zeros[0], zeros[1]], group=2, pads=[1, 1, 1, 1])


def test_quantised_product(run):
    a, b = quantised(2, 3, 4), quantised(4, 5, seed=1)
    scale, zero = np.float32(0.05), np.uint8(40)
    agrees(run, "QLinearMatMul", [a, scale, zero, b, scale, zero, np.float32(0.2), np.uint8(3)])
    agrees(run, "MatMulInteger", [a, b, zero, quantised(5, seed=3)])


def test_quantisation_by_axis_and_block(run):
    x, scale = 10 * noise(2, 6, 4), np.abs(noise(6, seed=1)) + 0.1
    agrees(run, "QuantizeLinear", [x, scale, quantised(6)], axis=1)
    agrees(run, "DequantizeLinear", [quantised(2, 6, 4), scale, quantised(6, seed=2)], axis=1)
    blocks = np.abs(noise(2, 3, 4, seed=1)) + 0.1
    agrees(run, "QuantizeLinear", [x, blocks, quantised(2, 3, 4, dtype=np.int8)], axis=1, block_size=2)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(run, mode):
    agrees(run, "DepthToSpace", [noise(2, 12, 3, 4)], blocksize=2, mode=mode)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(run, approximate):
    agrees(run, "Gelu", [3 * noise(5, 7)], approximate=approximate)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_normalisations(run, axis):
    x = noise(3, 4, 5)
    scale = noise(*x.shape[axis % 3 :], seed=1)
    agrees(run, "LayerNormalization", [x, scale, scale], axis=axis)
    agrees(run, "LpNormalization", [x], axis=axis, p=1)
    agrees(run, "Softmax", [x], axis=axis)
    agrees(run, "LogSoftmax", [x], axis=axis)
    agrees(run, "Hardmax", [x], axis=axis)


def test_statistics_of_a_batch(run):
    x, (scale, shift, mean, variance) = noise(4, 3, 5), (noise(3, seed=s) for s in range(1, 5))
    agrees(run, "BatchNormalization", [x, scale, shift, mean, variance], outputs=3, training_mode=1, momentum=0.8)


@pytest.mark.parametrize("given", [{"axis": 0}, {"axis": 1}])
def test_selections(run, given):
    x = noise(3, 4)
    keep = np.array([True, False, True])
    same(run("Compress", [x, keep], **given), np.compress(keep, x, **given))
    agrees(run, "CumSum", [x, np.array(given["axis"])], exclusive=1, reverse=1)
    agrees(run, "OneHot", [i64(0, -1, 7), np.array(4), np.array([2, 5], np.float32)], axis=given["axis"])


def test_unique(run):
    x = np.array([3, 1, 1, 2, 3, 0], np.float32)
    for ordered in (0, 1):
        agrees(run, "Unique", [x], outputs=4, sorted=ordered)


def test_trilu(run):
    for k in (-2, 0, 1):
        agrees(run, "Trilu", [noise(2, 4, 5), np.array(k)], upper=0)
        agrees(run, "Trilu", [noise(2, 4, 5), np.array(k)], upper=1)
