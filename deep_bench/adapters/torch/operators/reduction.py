"""Reductions, positions of extremes, cumulative sums and sorting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.plan import dynamic, ints, kind_of
from deep_bench.adapters.torch.operators._site import Builder, Tensor, listed, torch_type

__all__ = [
    "ArgMax", "ArgMin", "CumProd", "CumSum", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "TopK",
]  # fmt: skip

Axes = tuple[int, ...]
Reduce = Callable[[Tensor, Axes, bool], Tensor]


def _reduction(make: Callable[[Site], Reduce]) -> Builder:
    """An operator with axes as its second input, from a function of the input, its axes and whether to keep them."""

    def builder(site: Site) -> Callable[..., Tensor]:
        reduce, keep = make(site), bool(site.attribute("keepdims", 1))
        empty_means_none = bool(site.attribute("noop_with_empty_axes", 0))

        def everything(x: Tensor) -> Axes:
            return () if empty_means_none else tuple(range(x.dim()))

        if dynamic(site, 1):
            return lambda x, axes: reduce(x, tuple(listed(axes)) or everything(x), keep)
        axes = ints(site, 1)
        if axes:
            return lambda x, _: reduce(x, axes, keep)
        return lambda x, *_: reduce(x, everything(x), keep)

    return builder


def _sum(site: Site) -> Reduce:
    dtype = torch_type(site)

    def total(x: Tensor, axes: Axes, keep: bool) -> Tensor:
        # torch reads an empty list of axes as all of them
        return torch.sum(x, axes, keep, dtype=dtype) if axes else x

    return total


def _mean(site: Site) -> Reduce:
    if kind_of(site) == "float":
        return lambda x, axes, keep: torch.mean(x, axes, keep) if axes else x
    dtype = torch_type(site)
    return lambda x, axes, keep: torch.mean(x.double(), axes, keep).to(dtype) if axes else x


def _extreme(function: Callable[..., Tensor], largest: bool) -> Callable[[Site], Reduce]:
    def make(site: Site) -> Reduce:
        neutral = _limit(torch_type(site), lowest=largest)

        def extreme(x: Tensor, axes: Axes, keep: bool) -> Tensor:
            if not axes:
                return x
            if x.numel() == 0:
                shape = torch.sum(x, axes, keep).shape
                return torch.full(shape, neutral, dtype=x.dtype, device=x.device)
            return function(x, axes, keep)

        return extreme

    return make


def _limit(kind: torch.dtype, lowest: bool) -> Any:
    if kind == torch.bool:
        return not lowest
    if kind.is_floating_point:
        return -torch.inf if lowest else torch.inf
    return torch.iinfo(kind).min if lowest else torch.iinfo(kind).max


def _product(site: Site) -> Reduce:
    dtype = torch_type(site)

    def product(x: Tensor, axes: Axes, keep: bool) -> Tensor:
        for axis in sorted((a % max(x.dim(), 1) for a in axes), reverse=True):
            x = torch.prod(x, axis, keep, dtype=dtype) if x.dim() else x
        return x

    return product


def _l2(site: Site) -> Reduce:
    dtype = torch_type(site)
    if dtype.is_floating_point:
        return lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep) if axes else x.abs()
    return lambda x, axes, keep: torch.linalg.vector_norm(x.double(), 2, axes, keep).to(dtype) if axes else x.abs()


def _log_sum_exp(site: Site) -> Reduce:
    dtype = torch_type(site)
    if dtype.is_floating_point:
        return lambda x, axes, keep: torch.logsumexp(x, axes, keep) if axes else x
    return lambda x, axes, keep: torch.logsumexp(x.double(), axes, keep).to(dtype) if axes else x


def _log_sum(site: Site) -> Reduce:
    total, dtype = _sum(site), torch_type(site)
    return lambda x, axes, keep: torch.log(total(x, axes, keep)).to(dtype)


def _l1(site: Site) -> Reduce:
    total = _sum(site)
    return lambda x, axes, keep: total(x.abs(), axes, keep)


def _squares(site: Site) -> Reduce:
    total = _sum(site)
    return lambda x, axes, keep: total(x * x, axes, keep)


ReduceSum, ReduceMean, ReduceProd = map(_reduction, (_sum, _mean, _product))
ReduceMax, ReduceMin = _reduction(_extreme(torch.amax, largest=True)), _reduction(_extreme(torch.amin, largest=False))
ReduceL1, ReduceL2, ReduceSumSquare = map(_reduction, (_l1, _l2, _squares))
ReduceLogSum, ReduceLogSumExp = map(_reduction, (_log_sum, _log_sum_exp))


def _position(function: Callable[..., Tensor]) -> Builder:
    def builder(site: Site) -> Callable[..., Tensor]:
        axis, keep = site.attribute("axis", 0), bool(site.attribute("keepdims", 1))
        if not site.attribute("select_last_index", 0):
            return lambda x: function(x, axis, keep)
        return lambda x: x.shape[axis] - 1 - function(torch.flip(x, (axis,)), axis, keep)

    return builder


ArgMax, ArgMin = _position(torch.argmax), _position(torch.argmin)


def _cumulative(function: Callable[..., Tensor], neutral: int) -> Builder:
    def builder(site: Site) -> Callable[..., Tensor]:
        exclusive, reverse = bool(site.attribute("exclusive", 0)), bool(site.attribute("reverse", 0))
        dtype, constant = torch_type(site), ints(site, 1)

        def cumulate(x: Tensor, axis: Tensor) -> Tensor:
            along = constant[0] if constant is not None else int(axis.item())
            x = torch.flip(x, (along,)) if reverse else x
            if exclusive:
                first = torch.full_like(x.narrow(along, 0, min(1, x.shape[along])), neutral)
                x = torch.cat([first, x.narrow(along, 0, max(x.shape[along] - 1, 0))], along)
            y = function(x, along, dtype=dtype)
            return torch.flip(y, (along,)) if reverse else y

        return cumulate

    return builder


CumSum, CumProd = _cumulative(torch.cumsum, 0), _cumulative(torch.cumprod, 1)


def TopK(site: Site) -> Callable[..., tuple[Tensor, Tensor]]:
    """The ``k`` largest or smallest values along an axis, and where they were: of equal ones the first comes first."""
    axis, largest = site.attribute("axis", -1), bool(site.attribute("largest", 1))
    constant = ints(site, 1)

    def top(x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        count = constant[0] if constant is not None else int(k.item())
        values, indices = _distinct(x, count, axis, largest) or torch.sort(x, stable=True, dim=axis, descending=largest)
        return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)

    if len(site.outputs) == 1:
        return lambda x, k: top(x, k)[0]  # type: ignore[return-value]
    return top


def _distinct(x: Tensor, count: int, axis: int, largest: bool) -> tuple[Tensor, Tensor] | None:
    """The first values and one more, much faster than a sort, if no two are equal: of those ``torch.topk`` picks any."""
    if torch.compiler.is_compiling() or x.device.type != "cpu" or not x.numel() or not x.is_floating_point():
        return None  # where looking at the values is not cheap
    values, indices = torch.topk(x, min(count + 1, x.shape[axis]), axis, largest)
    if values.shape[axis] < 2:
        return values, indices
    steps = values.detach().diff(dim=axis)  # no number beside a NaN or between infinities, so that neither is ordered
    ordered = steps.max().item() < 0 if largest else steps.min().item() > 0
    return (values, indices) if ordered else None
