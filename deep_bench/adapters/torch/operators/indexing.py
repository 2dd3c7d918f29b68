"""Reading and writing by index."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, ints, static_shape
from deep_bench.adapters.torch.operators._site import Tensor
from deep_bench.tensor import is_float

__all__ = [
    "Compress", "Gather", "GatherElements", "GatherND", "NonZero", "OneHot", "ReverseSequence", "ScatterElements",
    "ScatterND", "TensorScatter", "Trilu", "Unique",
]  # fmt: skip

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def Gather(site: Site) -> Callable[..., Tensor]:
    """Slices of an axis by index; negative ones count from its end."""
    axis, indices = site.attribute("axis", 0), site.constant(1)
    shape = site.input(0)
    if indices is not None and indices.ndim == 0:
        place = int(indices)
        return lambda x, _: x.select(axis, place)
    if indices is not None and indices.ndim == 1 and indices.size and (indices >= 0).all() and indices.dtype == np.int64:
        return lambda x, i: x.index_select(axis, i)
    if axis < 0 and shape is not None and shape.rank is not None:
        axis += shape.rank
    if axis < 0:
        return lambda x, i: x[(*(slice(None),) * (axis + x.dim()), i)]
    before = (slice(None),) * axis
    return lambda x, i: x[(*before, i.long() if i.dim() == 0 else i)]


def _positive(site: Site) -> Callable[[Tensor, int], Tensor]:
    """A function of the indices and the size they run over that counts all of them from the start, as int64."""
    indices = site.constant(1)
    if indices is not None and (not indices.size or int(indices.min()) >= 0):
        return (lambda i, _: i) if indices.dtype == np.int64 else (lambda i, _: i.long())
    return _from_start


def _from_start(indices: Tensor, size: int) -> Tensor:
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices)


def GatherElements(site: Site) -> Callable[..., Tensor]:
    """Single elements by their index along an axis."""
    axis = site.attribute("axis", 0)
    positive = _positive(site)
    return lambda x, i: torch.gather(x, axis, positive(i, x.shape[axis]))


def GatherND(site: Site) -> Callable[..., Tensor]:
    """Slices by several leading indices at once."""
    batch = site.attribute("batch_dims", 0)
    if batch == 0:
        return lambda x, i: x[i.unbind(-1)] if i.shape[-1] else x.expand(*i.shape[:-1], *x.shape)

    def gather(x: Tensor, indices: Tensor) -> Tensor:
        grids = []
        for axis in range(batch):
            shape = [1] * (indices.dim() - 1)
            shape[axis] = x.shape[axis]
            grids.append(torch.arange(x.shape[axis], device=x.device).reshape(shape))
        return x[(*grids, *indices.unbind(-1))]

    return gather


def ScatterElements(site: Site) -> Callable[..., Tensor]:
    """A copy with single elements replaced, or combined with updates."""
    axis, reduction = site.attribute("axis", 0), site.attribute("reduction", "none")
    positive = _positive(site)
    if reduction == "none":
        return lambda x, i, u: torch.scatter(x, axis, positive(i, x.shape[axis]), u)
    if reduction == "add":
        return lambda x, i, u: torch.scatter_add(x, axis, positive(i, x.shape[axis]), u)
    how = _REDUCTIONS[reduction]
    return lambda x, i, u: torch.scatter_reduce(x, axis, positive(i, x.shape[axis]), u, how)


def ScatterND(site: Site) -> Callable[..., Tensor]:
    """A copy with slices replaced, or combined with updates."""
    reduction = site.attribute("reduction", "none")
    if reduction in ("none", "add"):
        added = reduction == "add"

        def put(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
            return x.index_put(indices.unbind(-1), updates, added)

        return put
    how = _REDUCTIONS[reduction]

    def combine(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        depth = indices.shape[-1]
        sizes = x.shape[:depth]
        place = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=x.device)
        for axis, size in enumerate(sizes):
            place = place * size + _from_start(indices[..., axis], size)
        rows = x.reshape(math.prod(sizes), -1)
        updates = updates.reshape(-1, rows.shape[1])
        where = place.reshape(-1, 1).expand_as(updates)
        return rows.scatter_reduce(0, where, updates, how).reshape(x.shape)

    return combine


def NonZero(_: Site) -> Callable[..., Tensor]:
    """The positions of the elements that are not zero, one column each."""
    return lambda x: torch.nonzero(x).t()


def OneHot(site: Site) -> Callable[..., Tensor]:
    """Rows that are "off", but "on" at an index; one that is out of range leaves its row off."""
    axis, depth = site.attribute("axis", -1), ints(site, 1)

    def one_hot(indices: Tensor, size: Tensor, values: Tensor) -> Tensor:
        count = depth[0] if depth is not None else int(size.reshape(-1)[0].item())
        at = axis if axis >= 0 else axis + indices.dim() + 1
        shape = [1] * (indices.dim() + 1)
        shape[at] = count
        classes = torch.arange(count, device=indices.device).reshape(shape)
        on = _from_start(indices, count).unsqueeze(at) == classes
        return torch.where(on, values[1], values[0])

    return one_hot


def ReverseSequence(site: Site) -> Callable[..., Tensor]:
    """The first elements of each sequence in reverse order."""
    batch, time = site.attribute("batch_axis", 1), site.attribute("time_axis", 0)

    def reverse(x: Tensor, lengths: Tensor) -> Tensor:
        steps = torch.arange(x.shape[time], device=x.device)
        lengths = lengths[:, None]
        places = torch.where(steps < lengths, lengths - 1 - steps, steps)
        places = places if batch < time else places.t()
        shape = [1] * x.dim()
        shape[batch], shape[time] = x.shape[batch], x.shape[time]
        return torch.gather(x, time, places.reshape(shape).expand_as(x))

    return reverse


def Trilu(site: Site) -> Callable[..., Tensor]:
    """The upper or lower triangle of the last two dimensions."""
    triangle = torch.triu if site.attribute("upper", 1) else torch.tril
    shift = 0 if not site.has(1) else ints(site, 1)
    if shift is None:
        return lambda x, k: triangle(x, int(k.item()))
    offset = shift[0] if isinstance(shift, tuple) else 0
    return lambda x, *_: triangle(x, offset)


def Compress(site: Site) -> Callable[..., Tensor]:
    """The slices of an axis, or of the flattened input, where a condition holds."""
    axis = site.attribute("axis")

    def compress(x: Tensor, condition: Tensor) -> Tensor:
        places = torch.nonzero(condition).reshape(-1)
        return x.reshape(-1).index_select(0, places) if axis is None else x.index_select(axis, places)

    return compress


def Unique(site: Site) -> Callable[..., Any]:
    """The distinct elements or slices, sorted or by first occurrence, with where they are first, their places and counts."""
    axis, ordered, outputs = site.attribute("axis"), bool(site.attribute("sorted", 1)), len(site.outputs)
    if axis is not None and static_shape(site) is not None and 0 in (static_shape(site) or ()):
        raise NotNative("torch finds no unique slices of nothing")

    def unique(x: Tensor) -> Any:
        outcome = torch.unique(x.detach(), return_inverse=True, return_counts=True, dim=axis)
        values, inverse, counts = outcome[0], outcome[1].reshape(-1), outcome[2]
        positions = torch.arange(inverse.numel(), device=x.device)
        first = torch.full_like(counts, inverse.numel()).scatter_reduce(0, inverse, positions, "amin")
        if not ordered:
            order = torch.argsort(first)
            values = values.index_select(0 if axis is None else axis, order)
            first, counts = first[order], counts[order]
            inverse = torch.argsort(order)[inverse]
        if x.requires_grad:  # torch's own values have no derivatives; the first ones to be equal do
            values = x.reshape(-1)[first] if axis is None else x.index_select(axis, first)
        return (values, first, inverse, counts)[:outputs] if outputs > 1 else values

    return unique


def TensorScatter(site: Site) -> Callable[..., Tensor]:
    """A cache with an update written along an axis, from each sample's own index on; a circular one starts again."""
    axis, circular = site.attribute("axis", -2), site.attribute("mode", "linear") == "circular"
    if is_float(dtype_of(site)) and dtype_of(site).itemsize == 1:
        raise NotNative("torch does not write into 8-bit floating-point tensors by index")

    def scatter(past: Tensor, update: Tensor, starts: Tensor | None = None) -> Tensor:
        along = axis % past.dim()
        shape = [1] * past.dim()
        shape[along] = -1
        index = torch.arange(update.shape[along], device=past.device).reshape(shape)
        if starts is not None:
            index = index + starts.long().reshape(-1, *[1] * (past.dim() - 1))
        if circular:
            index = index % past.shape[along]
        return torch.scatter(past, along, index.expand(update.shape), update)

    return scatter
