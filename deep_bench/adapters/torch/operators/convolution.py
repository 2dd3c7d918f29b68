"""Convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.torch.operators._site import Tensor, static_shape, torch_type
from deep_bench.adapters.torch.operators._window import Window, kernel_shape, window

__all__ = ["Col2Im", "Conv", "ConvInteger", "ConvTranspose"]

_CONV = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}
_TRANSPOSED = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}


def Conv(site: Site) -> Callable[..., Tensor]:
    """The cross-correlation of an input ``[N, C, ...]`` with weights ``[M, C / group, ...]``."""
    shape = window(site, kernel_shape(site, 1))
    return convolve(shape, site.attribute("group", 1))


def convolve(shape: Window, group: int) -> Callable[..., Tensor]:
    """A convolution with this window."""
    conv = _of_rank(_CONV, len(shape.kernel))
    strides, dilations, symmetric = shape.strides, shape.dilations, shape.symmetric
    if symmetric is not None and min(symmetric, default=0) >= 0:

        def plain(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
            return conv(x, w, b, strides, symmetric, dilations, group)

        return plain

    def padded(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        return conv(shape.padded(x, 0), w, b, strides, 0, dilations, group)

    return padded


def _of_rank(functions: dict[int, Any], rank: int) -> Any:
    if rank not in functions:
        raise NotNative(f"torch convolves over 1 to 3 axes, not {rank}")
    return functions[rank]


def ConvInteger(site: Site) -> Callable[..., Tensor]:
    """The convolution of 8-bit numbers less their zero points, in int32; float64 holds every sum exactly."""
    conv = convolve(window(site, kernel_shape(site, 1)), site.attribute("group", 1))

    def integer(x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None) -> Tensor:
        values = x.double() if x_zero is None else x.double() - x_zero.double()
        weights = w.double()
        if w_zero is not None:
            weights = weights - w_zero.double().reshape(-1, *[1] * (w.dim() - 1))
        return conv(values, weights).round().to(torch.int32)

    return integer


def ConvTranspose(site: Site) -> Callable[..., Tensor]:
    """The transpose of a convolution, cropped by its padding."""
    kernel = kernel_shape(site, 1)
    n = len(kernel)
    transposed = _of_rank(_TRANSPOSED, n)
    strides = tuple(site.attribute("strides", (1,) * n))
    dilations = tuple(site.attribute("dilations", (1,) * n))
    extra = tuple(site.attribute("output_padding", (0,) * n))
    group = site.attribute("group", 1)
    pads = _transposed_pads(site, kernel, strides, dilations, extra)
    shape = static_shape(site)
    known = pads(shape[2:]) if shape is not None else pads(None)
    fits = all(e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True))
    if known is not None and fits and all(before == after >= 0 for before, after in known):
        padding = tuple(before for before, _ in known)

        def plain(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
            return transposed(x, w, b, strides, padding, extra, group, dilations)

        return plain

    def cropped(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        full = transposed(x, w, None, strides, 0, 0, group, dilations)
        found = known if known is not None else pads(x.shape[2:])
        assert found is not None
        changes = list(itertools.chain(*((-a, e - z) for (a, z), e in zip(found[::-1], extra[::-1], strict=True))))
        full = torch.constant_pad_nd(full, changes, 0)
        return full if b is None else full + b.reshape(-1, *[1] * n)

    return cropped


def _transposed_pads(
    site: Site, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], extra: Sequence[int]
) -> Callable[[Sequence[int] | None], tuple[tuple[int, int], ...] | None]:
    """A function from the input's sizes to what is cropped before and after; ``None`` if it needs unknown sizes."""
    n, auto = len(kernel), site.attribute("auto_pad", "NOTSET")
    stated = tuple(site.attribute("pads", (0,) * 2 * n))
    asked = site.attribute("output_shape")
    asked = None if asked is None else tuple(asked)[-n:]

    def pads(sizes: Sequence[int] | None) -> tuple[tuple[int, int], ...] | None:
        if asked is None and auto in ("NOTSET", "VALID"):
            return tuple(zip(stated[:n], stated[n:], strict=True)) if auto == "NOTSET" else ((0, 0),) * n
        if sizes is None:
            return None
        found = []
        for i in range(n):
            target = sizes[i] * strides[i] if asked is None else asked[i]
            total = strides[i] * (sizes[i] - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1 - target
            half = total // 2
            found.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
        return tuple(found)

    return pads


def Col2Im(site: Site) -> Callable[..., Tensor]:
    """Columns added up into the image that they were cut from; two spatial axes, equal pads on both sides."""
    image, block = site.constant(1), site.constant(2)
    if image is None or block is None or len(image) != 2:
        raise NotNative("torch folds images of two axes and of known size")
    pads = tuple(site.attribute("pads", (0, 0, 0, 0)))
    if pads[:2] != pads[2:]:
        raise NotNative("torch folds with equal padding on both sides")
    size, kernel = [int(v) for v in image], [int(v) for v in block]
    dilations, strides = site.attribute("dilations", (1, 1)), site.attribute("strides", (1, 1))
    if not torch_type(site).is_floating_point:
        raise NotNative("torch folds floating-point columns")
    return lambda x, *_: torch._C._nn.col2im(x, size, kernel, dilations, pads[:2], strides)
