"""Fourier transforms against NumPy's, which the reference does not use."""

from __future__ import annotations

import numpy as np
import pytest

from deep_bench.errors import InvalidInput
from deep_bench.reference.operators.signal import DFT, STFT

RNG = np.random.default_rng(0)


def as_complex(x):
    return x[..., 0] + 1j * x[..., 1]


@pytest.mark.parametrize("length", [None, 3, 7, 12])
@pytest.mark.parametrize("axis", [0, 1, -2, -3])
@pytest.mark.parametrize("parts", [1, 2])
def test_dft(length, axis, parts):
    x = RNG.standard_normal((5, 7, parts))
    signal = as_complex(x) if parts == 2 else x[..., 0]
    where = axis if axis >= 0 else axis + 1
    n = None if length is None else np.array(length)
    assert np.allclose(as_complex(DFT(x, n, np.array(axis))), np.fft.fft(signal, length, where))
    assert np.allclose(as_complex(DFT(x, n, np.array(axis), inverse=1)), np.fft.ifft(signal, length, where))


@pytest.mark.parametrize("length", [None, 4, 5, 12, 13])
def test_one_sided_there_and_back(length):
    x = RNG.standard_normal((2, 9, 1))
    n = None if length is None else np.array(length)
    half = DFT(x, n, onesided=1)
    assert np.allclose(as_complex(half), np.fft.rfft(x[..., 0], length))
    back = DFT(half, n, onesided=1, inverse=1)
    assert np.allclose(back[..., 0], np.fft.irfft(as_complex(half), length))


def test_a_long_signal_is_transformed_in_blocks():
    x = RNG.standard_normal((1, 3000, 1))
    assert np.allclose(as_complex(DFT(x)), np.fft.fft(x[..., 0]))


def test_an_empty_signal():
    assert DFT(np.zeros((2, 0, 1))).shape == (2, 0, 2)
    assert DFT(np.zeros((0, 4, 1))).shape == (0, 4, 2)


def test_one_sided_refuses_what_has_no_half():
    with pytest.raises(InvalidInput, match="complex signal"):
        DFT(np.zeros((1, 4, 2)), onesided=1)
    with pytest.raises(InvalidInput, match="real signal"):
        DFT(np.zeros((1, 4, 1)), onesided=1, inverse=1)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dft_keeps_the_type(dtype):
    assert DFT(np.ones((1, 4, 1), dtype)).dtype == dtype


@pytest.mark.parametrize("onesided", [0, 1])
def test_stft(onesided):
    x, window = RNG.standard_normal((2, 20, 1)), RNG.random(6)
    y = STFT(x, np.array(4), window, onesided=onesided)
    transform = np.fft.rfft if onesided else np.fft.fft
    expected = [transform(x[:, i : i + 6, 0] * window) for i in (0, 4, 8, 12)]
    assert np.allclose(as_complex(y), np.stack(expected, 1))


def test_stft_of_defaults_and_of_too_short_a_signal():
    x = RNG.standard_normal((1, 8, 1))
    assert STFT(x, np.array(3)).shape == (1, 1, 5, 2)
    assert STFT(x, np.array(3), None, np.array(9)).shape == (1, 0, 5, 2)
    assert STFT(RNG.standard_normal((1, 8, 2)), np.array(2), None, np.array(4), onesided=0).shape == (1, 3, 4, 2)
