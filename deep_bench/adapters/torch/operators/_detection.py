"""Boxes and regions of images."""

from __future__ import annotations

from collections.abc import Callable

import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.torch.operators._site import Tensor, torch_type


def NonMaxSuppression(site: Site) -> Callable[..., Tensor]:
    """The boxes by falling score, without those that overlap a chosen one by more than a threshold."""
    centred = bool(site.attribute("center_point_box", 0))

    def suppress(
        boxes: Tensor,
        scores: Tensor,
        most: Tensor | None = None,
        overlap: Tensor | None = None,
        least: Tensor | None = None,
    ) -> Tensor:
        limit = 0 if most is None else int(most.item())
        threshold = 0.0 if overlap is None else float(overlap.item())
        a, b = boxes[..., :2], boxes[..., 2:]
        low, high = (a - b / 2, a + b / 2) if centred else (torch.minimum(a, b), torch.maximum(a, b))
        found = []
        for image in range(scores.shape[0]):
            for label in range(scores.shape[1]):
                score = scores[image, label]
                order = torch.argsort(score, descending=True, stable=True)
                if least is not None:
                    order = order[score[order] > least.reshape(())]
                kept = _kept(low[image], high[image], order, limit, threshold)
                found += [(image, label, box) for box in kept]
        return torch.tensor(found, dtype=torch.int64, device=boxes.device).reshape(-1, 3)

    return suppress


def _kept(low: Tensor, high: Tensor, order: Tensor, limit: int, threshold: float) -> list[int]:
    """The chosen boxes among those in ``order``: each removes what overlaps it from the rest."""
    kept: list[int] = []
    while len(kept) < limit and order.numel():
        best, order = order[0], order[1:]
        kept.append(int(best.item()))
        order = order[~(_overlap(low[order], high[order], low[best], high[best]) > threshold)]
    return kept


def _overlap(low: Tensor, high: Tensor, other_low: Tensor, other_high: Tensor) -> Tensor:
    """Intersection over union of boxes with another one; 0 where they do not intersect."""
    sides = (torch.minimum(high, other_high) - torch.maximum(low, other_low)).clamp(min=0)
    intersection = sides[..., 0] * sides[..., 1]
    areas = torch.prod(high - low, -1) + torch.prod(other_high - other_low)
    return torch.where(intersection > 0, intersection / (areas - intersection), 0)


def RoiAlign(site: Site) -> Callable[..., Tensor]:
    """Each region, divided into bins; a bin is the mean of bilinear samples on a regular grid in it."""
    if site.attribute("mode", "avg") != "avg" or torch_type(site).itemsize < 4:
        raise NotNative("torch's code for RoiAlign takes means in float32 and float64")
    half = site.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    bins = (site.attribute("output_height", 1), site.attribute("output_width", 1))
    ratio, scale = site.attribute("sampling_ratio", 0), site.attribute("spatial_scale", 1.0)

    def align(x: Tensor, rois: Tensor, images: Tensor) -> Tensor:
        y = torch.zeros((rois.shape[0], x.shape[1], *bins), dtype=x.dtype, device=x.device)
        corners = rois * scale - (0.5 if half else 0.0)
        for r, image in enumerate(images.tolist()):
            left, top, right, bottom = corners[r]
            rows = _weights(top, bottom, bins[0], ratio, x.shape[2], half)
            columns = _weights(left, right, bins[1], ratio, x.shape[3], half)
            y[r] = rows @ x[image] @ columns.t()
        return y

    return align


def _weights(start: Tensor, end: Tensor, bins: int, ratio: int, size: int, half: bool) -> Tensor:
    """How much each element of an axis counts in each bin, ``[bins, size]``: bilinear samples are linear in the image."""
    step = (end - start if half else (end - start).clamp(min=1)) / bins
    samples = ratio if ratio > 0 else max(int(torch.ceil(step.float()).item()), 0)
    weights = torch.zeros((bins, size), dtype=start.dtype, device=start.device)
    if samples == 0:
        return weights
    offsets = (torch.arange(samples, dtype=start.dtype, device=start.device) + 0.5) / samples
    position = start + step * (torch.arange(bins, dtype=start.dtype, device=start.device)[:, None] + offsets)
    inside = ((position >= -1) & (position <= size)).to(start.dtype) / samples
    position = position.clamp(0, size - 1)
    low = position.floor()
    fraction = position - low
    first = low.long()
    weights = weights.scatter_add(1, first, (1 - fraction) * inside)
    return weights.scatter_add(1, (first + 1).clamp(max=size - 1), fraction * inside)
