"""Normalizations and dropout."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import Site
from deep_bench.adapters.lowering.plan import static_shape
from deep_bench.adapters.torch.arrays import torch_dtype
from deep_bench.adapters.torch.operators._site import Tensor, number, torch_type

__all__ = [
    "LRN",
    "BatchNormalization",
    "Dropout",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "LpNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
]  # fmt: skip


def BatchNormalization(site: Site) -> Callable[..., Any]:
    """``scale (x - mean) / sqrt(var + epsilon) + b`` per channel; in training mode with the batch's own moments."""
    epsilon = site.attribute("epsilon", 1e-5)
    types = {s.dtype for s in site.inputs if s is not None}
    if site.attribute("training_mode", 0):
        return _trained_batch_normalization(epsilon, site.attribute("momentum", 0.9), len(site.outputs))
    normalize = _normalized_by_moments(site, epsilon, {t for t in types if t is not None})
    if all(site.constant(i) is not None for i in (3, 4)):
        return _unless_empty(site, normalize)

    def unless_differentiated(x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        if mean.requires_grad or var.requires_grad:
            return _by_computed_moments(epsilon, x, w, b, mean, var)
        return normalize(x, w, b, mean, var)

    return _unless_empty(site, unless_differentiated)


def _normalized_by_moments(site: Site, epsilon: float, types: Set[np.dtype]) -> Callable[..., Tensor]:
    if len(types) == 1:
        return lambda x, w, b, mean, var: torch.batch_norm(x, w, b, mean, var, False, 0.0, epsilon, True)
    dtype = torch_type(site)
    wide = max((torch.float32, *map(torch_dtype, types)), key=_width)

    def mixed(x: Tensor, *moments: Tensor) -> Tensor:
        w, b, mean, var = (m.to(wide) for m in moments)
        return torch.batch_norm(x.to(wide), w, b, mean, var, False, 0.0, epsilon, False).to(dtype)

    return mixed


def _by_computed_moments(epsilon: float, x: Tensor, *parameters: Tensor) -> Tensor:
    """torch's own function has no derivatives with respect to the moments."""
    wide = max((torch.float32, x.dtype, *(t.dtype for t in parameters)), key=_width)
    w, b, mean, var = (t.to(wide).reshape(-1, *[1] * (x.dim() - 2)) for t in parameters)
    return ((x.to(wide) - mean) * (w / torch.sqrt(var + epsilon)) + b).to(x.dtype)


def _unless_empty(site: Site, normalize: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """torch cannot normalize no channels."""
    slot = site.input(0)
    if slot is not None and slot.shape is not None and len(slot.shape) > 1 and slot.shape[1]:
        return normalize
    return lambda x, *moments: normalize(x, *moments) if x.numel() else x.clone()


def _trained_batch_normalization(epsilon: float, momentum: float, outputs: int) -> Callable[..., Any]:
    def normalize(x: Tensor, w: Tensor, b: Tensor, mean: Tensor, var: Tensor) -> Any:
        axes = [0, *range(2, x.dim())]
        along = (1, -1, *[1] * (x.dim() - 2))
        wide = max((torch.float32, *(t.dtype for t in (x, w, b, mean, var))), key=_width)
        batch_var, batch_mean = torch.var_mean(x.to(wide), axes, correction=0)
        scale = w.to(wide) / torch.sqrt(batch_var + epsilon)
        y = ((x.to(wide) - batch_mean.reshape(along)) * scale.reshape(along) + b.to(wide).reshape(along)).to(x.dtype)
        running = (old * momentum + new * (1 - momentum) for old, new in ((mean, batch_mean), (var, batch_var)))
        return (y, *(r.to(mean.dtype) for r in running))[:outputs] if outputs > 1 else y

    return normalize


def InstanceNormalization(site: Site) -> Callable[..., Tensor]:
    """``scale (x - mean) / sqrt(var + epsilon) + b`` with the moments of each channel of each example."""
    epsilon = site.attribute("epsilon", 1e-5)
    return lambda x, w, b: torch.instance_norm(x, w, b, None, None, True, 0.0, epsilon, True)


def LayerNormalization(site: Site) -> Callable[..., Any]:
    """``scale (x - mean) / sqrt(var + epsilon) + b`` with moments over the last axes."""
    axis, epsilon = site.attribute("axis", -1), site.attribute("epsilon", 1e-5)
    x, w, b = static_shape(site), static_shape(site, 1), static_shape(site, 2)
    stash = torch_dtype(site.attribute("stash_type", 1))
    if x is not None and w == x[axis:] and (not site.has(2) or b == w) and len(site.outputs) == 1:
        normalized = list(w)
        if torch_type(site).itemsize >= stash.itemsize or stash == torch.float32:
            return lambda x, w, b=None: torch.layer_norm(x, normalized, w, b, epsilon)
    outputs = len(site.outputs)

    def normalize(x: Tensor, w: Tensor, b: Tensor | None = None) -> Any:
        wide = x.to(max(x.dtype, stash, key=_width))
        var, mean = torch.var_mean(wide, list(range(axis % x.dim(), x.dim())), correction=0, keepdim=True)
        inverse = torch.reciprocal(torch.sqrt(var + epsilon))
        y = (wide - mean) * inverse * w
        y = (y if b is None else y + b).to(x.dtype)
        return (y, mean.to(stash), inverse.to(stash))[:outputs] if outputs > 1 else y

    return normalize


def RMSNormalization(site: Site) -> Callable[..., Tensor]:
    """``scale x / sqrt(mean(x^2) + epsilon)`` over the last axes."""
    axis, epsilon = site.attribute("axis", -1), site.attribute("epsilon", 1e-5)
    x, w = static_shape(site), static_shape(site, 1)
    stash = torch_dtype(site.attribute("stash_type", 1))
    if x is not None and w == x[axis:] and torch_type(site) == torch_type(site, 1) == stash:
        normalized = list(w)
        return lambda x, w: torch.rms_norm(x, normalized, w, epsilon)

    def normalize(x: Tensor, w: Tensor) -> Tensor:
        wide = x.to(max(x.dtype, stash, key=_width))
        square = torch.mean(wide * wide, list(range(axis % x.dim(), x.dim())), keepdim=True)
        return (wide * torch.reciprocal(torch.sqrt(square + epsilon)) * w).to(w.dtype)

    return normalize


def _width(kind: torch.dtype) -> int:
    return kind.itemsize


def MeanVarianceNormalization(site: Site) -> Callable[..., Tensor]:
    """``(x - mean) / (sqrt(var) + 1e-9)``; in half precision, the small number would be nothing."""
    axes = list(site.attribute("axes", (0, 2, 3)))

    def normalize(x: Tensor) -> Tensor:
        wide = x.to(max(x.dtype, torch.float32, key=_width))
        var, mean = torch.var_mean(wide, axes, correction=0, keepdim=True)
        return ((wide - mean) / (torch.sqrt(var) + 1e-9)).to(x.dtype)

    return normalize


def GroupNormalization(site: Site) -> Callable[..., Tensor]:
    """``scale (x - mean) / sqrt(var + epsilon) + b`` with the moments of each group of channels."""
    groups, epsilon = site.attribute("num_groups"), site.attribute("epsilon", 1e-5)
    return lambda x, w, b: torch.group_norm(x, groups, w, b, epsilon, False)


def LRN(site: Site) -> Callable[..., Tensor]:
    """``x / (bias + alpha / size * sum of squares over neighbouring channels)^beta``."""
    alpha, beta = site.attribute("alpha", 1e-4), site.attribute("beta", 0.75)
    bias, size = site.attribute("bias", 1.0), site.attribute("size")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2

    def normalize(x: Tensor) -> Tensor:
        pads = [0, 0] * (x.dim() - 2) + [before, after]
        sums = torch.constant_pad_nd(x * x, pads, 0).unfold(1, size, 1).sum(-1)
        return x / torch.pow(bias + alpha / size * sums, beta)

    return normalize


def LpNormalization(site: Site) -> Callable[..., Tensor]:
    """``x`` over its p-norm along an axis; zero where that is zero."""
    axis, p = site.attribute("axis", -1), site.attribute("p", 2)

    def normalize(x: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(x, p, axis, True)
        nothing = norm == 0
        return torch.where(nothing, 0, x / torch.where(nothing, 1, norm))  # what is not chosen must have a derivative too

    return normalize


def Dropout(site: Site) -> Callable[..., Any]:
    """The input; in training mode with elements zeroed at random and the others scaled up."""
    masked = len(site.outputs) > 1
    if not site.has(2) or (site.constant(2) is not None and not number(site, 2)):
        return lambda x, *_: (x, torch.ones_like(x, dtype=torch.bool)) if masked else x
    seed = site.attribute("seed")
    # without a seed torch's own stream goes on, so that two executors differ and torch.manual_seed has its effect
    generator = None if seed is None else torch.Generator().manual_seed(seed & (2**63 - 1))

    def drop(x: Tensor, ratio: Tensor | None, training: Tensor) -> Any:
        share = 0.5 if ratio is None else float(ratio.item())
        followed = None if ratio is None or not ratio.requires_grad else ratio
        if not training.item() or (share == 0 and followed is None):
            return (x, torch.ones_like(x, dtype=torch.bool)) if masked else x
        mask = (torch.rand(x.shape, generator=generator) >= share).to(x.device)
        keep_rate = 1 - (share if followed is None else followed.to(x.device, x.dtype).reshape(()))
        y = torch.where(mask, x / keep_rate, 0)
        return (y, mask) if masked else y

    return drop
