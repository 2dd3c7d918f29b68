"""Correct convolutions: direct, by transforms, by Winograd's tiles, in other orders of channels and taps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import signal

from ..patches import NormWise, algorithm, batch_folded, in_double
from ..subjects import Patch


def _direct(f: Any, x: Any, a: Any) -> Any:
    """A direct convolution: tap by tap, channel by channel."""
    left, top, right, bottom = (a["pads"][k] for k in (0, 1, 2, 3))
    padded = np.pad(x[0], ((0, 0), (0, 0), (left, right), (top, bottom)))
    (kh, kw), (sh, sw) = x[1].shape[2:], a.get("strides", (1, 1))
    oh, ow = (padded.shape[2] - kh) // sh + 1, (padded.shape[3] - kw) // sw + 1
    y = np.zeros((x[0].shape[0], x[1].shape[0], oh, ow), x[0].dtype)
    for c, i, j in itertools.product(range(x[1].shape[1]), range(kh), range(kw)):
        window = padded[:, c, i : i + sh * oh : sh, j : j + sw * ow : sw]
        y += x[1][:, c, i, j][:, None, None] * window[:, None]
    return y + x[2].reshape(-1, 1, 1)


def _channels_reversed(f: Any, x: Any, a: Any) -> Any:
    """The channels in reverse order, so that the same terms are added from the other end."""
    return f(x[0][:, ::-1].copy(), x[1][:, ::-1].copy(), *x[2:], **a)


def _split_channels(f: Any, x: Any, a: Any) -> Any:
    half = x[0].shape[1] // 2
    return f(x[0][:, :half], x[1][:, :half], **a) + f(x[0][:, half:], x[1][:, half:], *x[2:], **a)


def _by_transform(f: Any, x: Any, a: Any) -> Any:
    """A convolution through Fourier transforms in float64, as a library of signal processing does it."""
    pads = a["pads"]
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    flipped = x[1][:, :, ::-1, ::-1].astype(np.float64)
    y = [[sum(signal.fftconvolve(n[c], m[c], "valid") for c in range(len(n))) for m in flipped] for n in padded]
    return np.array(y) + x[2].reshape(-1, 1, 1)


def _one_by_one(f: Any, x: Any, a: Any) -> Any:
    """A convolution with windows of one element as a matrix product."""
    n, c, h, w = x[0].shape
    flat = np.swapaxes(x[0].reshape(n, c, h * w), 1, 2)
    y = np.matmul(flat, x[1][:, :, 0, 0].T) + x[2]
    return np.swapaxes(y, 1, 2).reshape(n, -1, h, w)


def _images_apart(f: Any, x: Any, a: Any) -> Any:
    return np.concatenate([f(x[0][k : k + 1], *x[1:], **a) for k in range(len(x[0]))])


def _groups_apart(f: Any, x: Any, a: Any) -> Any:
    group = a["group"]
    parts = zip(np.split(x[0], group, 1), np.split(x[1], group), np.split(x[2], group), strict=True)
    return np.concatenate([f(*part, **{**a, "group": 1}) for part in parts], axis=1)


def _by_upsampling(f: Any, x: Any, a: Any) -> Any:
    """A transposed convolution as a convolution of an image with zeros between its elements."""
    n, c, h, w = x[0].shape
    (sh, sw), (kh, kw) = a["strides"], x[1].shape[2:]
    wide = np.zeros((n, c, (h - 1) * sh + 1, (w - 1) * sw + 1), x[0].dtype)
    wide[:, :, ::sh, ::sw] = x[0]
    p = [kh - 1 - a["pads"][0], kw - 1 - a["pads"][1]]
    kernel = np.swapaxes(x[1][..., ::-1, ::-1], 0, 1)
    from deep_bench.reference.operators import find

    conv = find("", "Conv")
    assert conv is not None
    return conv(wide, np.ascontiguousarray(kernel), x[2], pads=(*p, *p))


_WINOGRAD = {2: NormWise(algorithm("Conv", "winograd_2")), 4: NormWise(algorithm("Conv", "winograd_4"))}
_WHERE = ("Conv large", "Conv deep", "Conv 3d", "Conv depthwise")

VARIANTS: Mapping[tuple[str, str], Patch | NormWise] = {
    ("Conv", "Conv direct"): _direct,
    ("Conv", "Conv channels reversed"): _channels_reversed,
    ("Conv", "Conv channels split"): _split_channels,
    ("Conv", "Conv in float64"): in_double,
    ("Conv", "Conv image by image"): _images_apart,
    **{
        (where, "Conv by the algorithm direct"): algorithm("Conv", "direct")
        for where in ("Conv", "Conv 1d", "Conv 3d", "Conv depthwise", "Conv grouped", "Conv pointwise", "digits-cnn")
    },
    **{
        (where, "Conv by the algorithm fft"): NormWise(algorithm("Conv", "fft"))
        for where in ("Conv large", "Conv deep", "Conv 1d", "Conv 3d", "Conv depthwise", "conv-bn-relu-pool")
    },
    **{(where, f"Conv by Winograd's tiles of {n}"): patch for where in _WHERE for n, patch in _WINOGRAD.items()},
    ("Conv large", "Conv by Fourier transform"): _by_transform,
    ("Conv large", "Conv direct"): _direct,
    ("Conv deep", "Conv direct"): _direct,
    ("Conv deep", "Conv channels split"): _split_channels,
    ("Conv deep", "Conv channels reversed"): _channels_reversed,
    ("Conv pointwise", "Conv as a matrix product"): _one_by_one,
    ("Conv pointwise", "Conv channels split"): _split_channels,
    ("Conv grouped", "Conv group by group"): _groups_apart,
    ("Conv depthwise", "Conv group by group"): _groups_apart,
    ("ConvTranspose", "ConvTranspose by upsampling"): _by_upsampling,
    ("ConvTranspose", "ConvTranspose in float64"): in_double,
    ("digits-cnn", "Conv in float64"): in_double,
    ("digits-cnn", "BatchNormalization folded"): batch_folded,
    ("conv-bn-relu-pool", "BatchNormalization folded"): batch_folded,
    ("conv-bn-relu-pool", "Conv direct"): _direct,
}
