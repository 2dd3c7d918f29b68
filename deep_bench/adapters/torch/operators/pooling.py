"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import rank_of
from deep_bench.adapters.torch.operators._site import Tensor, Window, kernel_shape, listed, torch_type, window

__all__ = ["AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool", "MaxUnpool"]

_MAX = {1: torch.max_pool1d, 2: torch.max_pool2d, 3: torch.max_pool3d}
_MAX_WITH_INDICES = {2: torch._C._nn.max_pool2d_with_indices, 3: torch._C._nn.max_pool3d_with_indices}
_AVERAGE = {1: torch.avg_pool1d, 2: torch._C._nn.avg_pool2d, 3: torch._C._nn.avg_pool3d}
_CONV = {1: torch.conv1d, 2: torch.conv2d, 3: torch.conv3d}


def _window(site: Site) -> Window:
    shape = window(site, kernel_shape(site))
    if len(shape.kernel) > 3:
        raise NotNative(f"torch pools over 1 to 3 axes, not {len(shape.kernel)}")
    return shape


def _inside(shape: Window) -> tuple[int, ...] | None:
    """The padding that torch accepts: equal on both sides, at most half a window."""
    pads = shape.symmetric
    if pads is None or any(not 0 <= p <= k // 2 for p, k in zip(pads, shape.kernel, strict=True)):
        return None
    return pads


def MaxPool(site: Site) -> Callable[..., Any]:
    """The largest element in each window, and where it is in the flattened input."""
    shape, dtype = _window(site), torch_type(site)
    if len(site.outputs) > 1:
        return _max_with_indices(site, shape)
    pool, pads, computed = _MAX[len(shape.kernel)], _inside(shape), _computed(dtype)
    arguments = (shape.kernel, shape.strides)
    if pads is not None and computed is None:
        return lambda x: pool(x, *arguments, pads, shape.dilations, shape.ceil)
    lowest = -math.inf if computed or dtype.is_floating_point else torch.iinfo(dtype).min

    def pooled(x: Tensor) -> Tensor:
        x = x if computed is None else x.to(computed)
        return pool(shape.padded(x, lowest), *arguments, 0, shape.dilations, False).to(dtype)

    return pooled


def _computed(kind: torch.dtype) -> torch.dtype | None:
    """The type to pool in, where torch does not pool ``kind`` itself: one that holds it exactly."""
    if kind.is_floating_point:
        return None
    return torch.float32 if kind.itemsize < 4 else torch.float64


def _max_with_indices(site: Site, shape: Window) -> Callable[..., tuple[Tensor, Tensor]]:
    n, dtype = len(shape.kernel), torch_type(site)
    pool = _MAX_WITH_INDICES[max(n, 2)]
    by_column = bool(site.attribute("storage_order", 0))

    def flat(x: Tensor) -> tuple[Tensor, Tensor]:
        sizes, before = x.shape[2:], [a for a, _ in shape.padding(x.shape[2:])]
        padded = shape.padded(x.to(_computed(dtype) or dtype), -math.inf)
        if n == 1:
            values, where = pool(
                padded.unsqueeze(2), (1, *shape.kernel), (1, *shape.strides), 0, (1, *shape.dilations), False
            )
            values, where = values.squeeze(2), where.squeeze(2)
        else:
            values, where = pool(padded, shape.kernel, shape.strides, 0, shape.dilations, False)
        places = torch.unravel_index(where, padded.shape[2:])
        plane = _ravel([p - a for p, a in zip(places, before, strict=True)], sizes, by_column)
        planes = torch.arange(math.prod(x.shape[:2]), device=x.device).reshape(*x.shape[:2], *[1] * n)
        return values.to(dtype), plane + planes * math.prod(sizes)

    return flat


def _ravel(places: Sequence[Tensor], sizes: Sequence[int], by_column: bool) -> Tensor:
    order = list(zip(places, sizes, strict=True))
    order = order[::-1] if by_column else order
    total = torch.zeros_like(places[0])
    for place, size in order:
        total = total * size + place
    return total


def AveragePool(site: Site) -> Callable[..., Tensor]:
    """The mean of each window, of its padding too if asked for."""
    shape, with_pads = _window(site), bool(site.attribute("count_include_pad", 0))
    pool, pads = _AVERAGE[len(shape.kernel)], _inside(shape)
    if pads is not None and all(d == 1 for d in shape.dilations):
        if len(shape.kernel) == 3 and torch_type(site).itemsize == 2:  # which torch averages over 1 and 2 axes only
            dtype = torch_type(site)
            return lambda x: pool(x.float(), shape.kernel, shape.strides, pads, shape.ceil, with_pads).to(dtype)
        return lambda x: pool(x, shape.kernel, shape.strides, pads, shape.ceil, with_pads)
    total = _window_sums(shape, torch_type(site))

    def pooled(x: Tensor) -> Tensor:
        return total(x) / _members(shape, x.shape[2:], with_pads).to(x)

    return pooled


def _window_sums(shape: Window, kind: torch.dtype) -> Callable[[Tensor], Tensor]:
    n = len(shape.kernel)
    conv = _CONV[n]

    def total(x: Tensor) -> Tensor:
        padded = shape.padded(x, 0)
        planes = padded.reshape(-1, 1, *padded.shape[2:])
        ones = torch.ones((1, 1, *shape.kernel), dtype=kind, device=x.device)
        y = conv(planes, ones, None, shape.strides, 0, shape.dilations)
        return y.reshape(*x.shape[:2], *y.shape[2:])

    return total


def _members(shape: Window, sizes: Sequence[int], with_pads: bool) -> Tensor:
    """The number of elements that each window averages over."""
    total = torch.ones((), dtype=torch.int64)
    for axis, (size, (before, after), count) in enumerate(
        zip(sizes, shape.padding(sizes), shape.counts(sizes), strict=True)
    ):
        first = torch.arange(count) * shape.strides[axis] - before
        places = first[:, None] + torch.arange(shape.kernel[axis]) * shape.dilations[axis]
        low, high = (-before, size + after) if with_pads else (0, size)
        members = ((places >= low) & (places < high)).sum(1)
        total = total[..., None] * members
    return total


def LpPool(site: Site) -> Callable[..., Tensor]:
    """The p-norm of each window."""
    shape, p = _window(site), site.attribute("p", 2)
    total = _window_sums(shape, torch_type(site))
    return lambda x: total(x.abs().pow(p)).pow(1 / p)


def _spatial(site: Site) -> tuple[int, ...]:
    return tuple(range(2, rank_of(site)))


def GlobalAveragePool(site: Site) -> Callable[..., Tensor]:
    """The mean over all spatial axes."""
    axes = _spatial(site)
    return lambda x: torch.mean(x, axes, True)


def GlobalMaxPool(site: Site) -> Callable[..., Tensor]:
    """The largest element over all spatial axes."""
    axes = _spatial(site)
    return lambda x: torch.amax(x, axes, True)


def GlobalLpPool(site: Site) -> Callable[..., Tensor]:
    """The p-norm over all spatial axes."""
    axes, p = _spatial(site), site.attribute("p", 2)
    return lambda x: torch.linalg.vector_norm(x, p, axes, True)


def MaxUnpool(site: Site) -> Callable[..., Tensor]:
    """Zeros, but for the values at the places that ``MaxPool`` reported."""
    shape = _window(site)

    def unpool(x: Tensor, indices: Tensor, output_shape: Tensor | None = None) -> Tensor:
        pads = shape.padding(x.shape[2:])
        sizes = [
            (count - 1) * stride - before - after + kernel
            for count, stride, kernel, (before, after) in zip(x.shape[2:], shape.strides, shape.kernel, pads, strict=True)
        ]
        natural = [*x.shape[:2], *sizes]
        flat = torch.zeros(math.prod(natural), dtype=x.dtype, device=x.device)
        y = flat.scatter(0, indices.reshape(-1), x.reshape(-1)).reshape(natural)
        if output_shape is None:
            return y
        growth = [b - a for a, b in zip(natural, listed(output_shape), strict=True)]
        return torch.constant_pad_nd(y, [v for g in growth[::-1] for v in (0, g)], 0)

    return unpool
