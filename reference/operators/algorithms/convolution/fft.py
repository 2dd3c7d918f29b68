"""Convolution through Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from deep_bench.reference.operators.algorithms.convolution._conv import by_group, conv_by


def correlate(x, w, at, group):
    """A convolution as a product of spectra, ``F(y) = sum over c of F(x) * conj(F(w))``, with ``F`` the Fourier transform.

    The transforms are as long as the padded input, so that no window wraps around its end. Dilated weights have zeros
    between them; with a stride all outputs are computed and most left out. Errors are relative to the largest elements, not
    to each element's own terms, and an infinity or a NaN spreads over its whole image.

    Source:
        Mathieu, Henaff and LeCun, Fast Training of Convolutional Networks through FFTs, 2014.
    """
    n, m = x.shape[0], w.shape[0]
    x, w = by_group(x, w, group)
    if not n * m * np.prod(at.outputs) or not x.size:
        return np.zeros_like(x, shape=(n, m, *at.outputs))
    sizes, axes = x.shape[3:], tuple(range(-len(at.kernel), 0))
    spread = np.zeros_like(w, shape=(*w.shape[:3], *sizes))
    spread[_every(at.dilations, at.kernel)] = w
    spectra = np.fft.rfftn(x, axes=axes), np.conj(np.fft.rfftn(spread, axes=axes))
    products = np.einsum("ngc...,gmc...->ngm...", *spectra)
    y = np.fft.irfftn(products, s=sizes, axes=axes).reshape(n, m, *sizes)
    return np.ascontiguousarray(y[_every(at.strides, at.outputs)])


def _every(steps: Sequence[int], counts: Sequence[int]) -> tuple[Any, ...]:
    """The index of elements that lie so far apart along the last axes, and of so many of them."""
    return (..., *(slice(0, count * step, step) for step, count in zip(steps, counts, strict=True)))


Conv = conv_by(correlate)
