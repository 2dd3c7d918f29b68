"""Convolutions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import ints, static_shape
from deep_bench.adapters.torch.operators._site import Tensor, Window, kernel_shape, listed, torch_type, window
from deep_bench.graph.shapes import span, window_count

__all__ = ["Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv"]

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
    fixed_crops = pads(shape[2:]) if shape is not None else pads(None)
    fits = all(e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True))
    if fixed_crops is not None and fits and all(before == after >= 0 for before, after in fixed_crops):
        padding = tuple(before for before, _ in fixed_crops)

        def plain(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
            return transposed(x, w, b, strides, padding, extra, group, dilations)

        return plain

    def cropped(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        full = transposed(x, w, None, strides, 0, 0, group, dilations)
        crops = fixed_crops if fixed_crops is not None else pads(x.shape[2:])
        assert crops is not None
        changes = list(itertools.chain(*((-a, e - z) for (a, z), e in zip(crops[::-1], extra[::-1], strict=True))))
        full = torch.constant_pad_nd(full, changes, 0)
        return full if b is None else full + b.reshape(-1, *[1] * n)

    return cropped


def _transposed_pads(
    site: Site, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], extra: Sequence[int]
) -> Callable[[Sequence[int] | None], tuple[tuple[int, int], ...] | None]:
    """A function from the input's sizes to what is cropped before and after; ``None`` if it needs unknown sizes."""
    n, auto = len(kernel), site.attribute("auto_pad", "NOTSET")
    declared = tuple(site.attribute("pads", (0,) * 2 * n))
    requested = site.attribute("output_shape")
    requested = None if requested is None else tuple(requested)[-n:]

    def pads(sizes: Sequence[int] | None) -> tuple[tuple[int, int], ...] | None:
        if requested is None and auto in ("NOTSET", "VALID"):
            return tuple(zip(declared[:n], declared[n:], strict=True)) if auto == "NOTSET" else ((0, 0),) * n
        if sizes is None:
            return None
        crops = []
        for i in range(n):
            target = sizes[i] * strides[i] if requested is None else requested[i]
            total = strides[i] * (sizes[i] - 1) + extra[i] + span(kernel[i], dilations[i]) - target
            half = total // 2
            crops.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
        return tuple(crops)

    return pads


def Col2Im(site: Site) -> Callable[..., Tensor]:
    """Columns added up into the image that they were cut from."""
    image, block = ints(site, 1), ints(site, 2)
    pads, dilations, strides = (site.attribute(n) for n in ("pads", "dilations", "strides"))
    even = pads is None or pads[: len(pads) // 2] == pads[len(pads) // 2 :]
    if image is not None and block is not None and len(image) == 2 and even and torch_type(site).is_floating_point:
        padding, dilation, stride = (pads or (0, 0))[:2], dilations or (1, 1), strides or (1, 1)
        return lambda x, *_: torch._C._nn.col2im(x, image, block, dilation, padding, stride)

    def fold(x: Tensor, size: Tensor, kernel: Tensor) -> Tensor:
        image_size = image if image is not None else tuple(listed(size))
        block_size = block if block is not None else tuple(listed(kernel))
        n = len(image_size)
        return folded(x, image_size, block_size, dilations or (1,) * n, pads or (0,) * 2 * n, strides or (1,) * n)

    return fold


def folded(
    x: Tensor,
    image: Sequence[int],
    block: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    strides: Sequence[int],
) -> Tensor:
    """The sum of all columns in an image of any number of axes: one strided addition per element of the block."""
    n, count = len(image), math.prod(block)
    padded = [size + pads[i] + pads[n + i] for i, size in enumerate(image)]
    steps = [window_count(p, 0, 0, span(k, d), s) for p, d, k, s in zip(padded, dilations, block, strides, strict=True)]
    columns = x.reshape(x.shape[0], x.shape[1] // count, count, *steps)
    y = x.new_zeros((x.shape[0], x.shape[1] // count, *padded))
    for index, place in enumerate(itertools.product(*map(range, block))):
        places = zip(place, dilations, strides, steps, strict=True)
        at: tuple[Any, ...] = (..., *(slice(p * d, p * d + s * m, s) for p, d, s, m in places))
        y[at] += columns[:, :, index]
    inside: tuple[Any, ...] = (..., *(slice(pads[i], pads[i] + size) for i, size in enumerate(image)))
    return y[inside].contiguous()


def DeformConv(site: Site) -> Callable[..., Tensor]:
    """A convolution whose windows are bent: each of their elements is moved by its own offset and weighed by a mask."""
    dtype = torch_type(site)
    wide = dtype if dtype.itemsize >= 4 else torch.float32  # positions in half precision are too coarse
    shape = window(site, kernel_shape(site, 1))
    n, positions = len(shape.kernel), math.prod(shape.kernel)
    group, offset_group = site.attribute("group", 1), site.attribute("offset_group", 1)

    def convolution(x: Tensor, w: Tensor, offset: Tensor, b: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        sizes = shape.counts(x.shape[2:])
        batch, channels = x.shape[:2]
        x, w, offset = x.to(wide), w.to(wide), offset.to(wide)
        points = offset.reshape(batch, offset_group, positions, n, *sizes) + _grid(shape, x)
        columns = _sampled(x.reshape(batch, offset_group, channels // offset_group, *x.shape[2:]), points)
        if mask is not None:
            columns = columns * mask.reshape(batch, offset_group, 1, positions, *sizes)
        columns = columns.reshape(batch, group, channels // group * positions, math.prod(sizes))
        weights = w.reshape(group, w.shape[0] // group, -1)
        y = torch.matmul(weights, columns).reshape(batch, w.shape[0], *sizes)
        return (y if b is None else y + b.reshape(-1, *[1] * n)).to(dtype)

    return convolution


def _grid(shape: Window, x: Tensor) -> Tensor:
    """Where each element of each window lies in ``x`` without an offset: ``(positions, axes, *counts)``."""
    sizes, padding = shape.counts(x.shape[2:]), shape.padding(x.shape[2:])
    n, axes = len(sizes), []
    for axis, (kernel, dilation, stride) in enumerate(zip(shape.kernel, shape.dilations, shape.strides, strict=True)):
        inside = torch.arange(kernel, dtype=x.dtype, device=x.device) * dilation
        start = torch.arange(sizes[axis], dtype=x.dtype, device=x.device) * stride - padding[axis][0]
        inside = inside.reshape([-1 if a == axis else 1 for a in range(n)] + [1] * n)
        start = start.reshape([-1 if a == axis else 1 for a in range(n)])
        axes.append((inside + start).expand(*shape.kernel, *sizes).reshape(-1, *sizes))
    return torch.stack(axes, 1)


def _sampled(x: Tensor, points: Tensor) -> Tensor:
    """``x[n, g, c]`` at ``points[n, g, :, axis]``, interpolated linearly along each axis; zero outside."""
    spatial, tail = x.shape[3:], points.shape[4:]
    flat, total = x.flatten(3), x.new_zeros(())
    low = points.floor()
    for corner in itertools.product((0, 1), repeat=len(spatial)):
        weight, valid, index = x.new_ones(()), torch.tensor(True, device=x.device), torch.tensor(0, device=x.device)
        for axis, step in enumerate(corner):
            at = low[:, :, :, axis] + step
            beyond = points[:, :, :, axis] - low[:, :, :, axis]
            weight = weight * (beyond if step else 1 - beyond)
            valid = valid & (at >= 0) & (at < spatial[axis])
            index = index * spatial[axis] + at.clamp(0, spatial[axis] - 1).nan_to_num().long()
        places = index.flatten(2).unsqueeze(2).expand(-1, -1, x.shape[2], -1)
        value = torch.gather(flat, 3, places).reshape(*x.shape[:3], points.shape[2], *tail)
        total = total + torch.where(valid, weight, 0).unsqueeze(2) * value
    return total
