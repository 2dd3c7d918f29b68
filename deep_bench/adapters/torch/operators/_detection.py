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
        selected = []
        for image in range(scores.shape[0]):
            for label in range(scores.shape[1]):
                score = scores[image, label]
                order = torch.argsort(score, descending=True, stable=True)
                if least is not None:
                    order = order[score[order] > least.reshape(())]
                survivors = _kept(low[image], high[image], order, limit, threshold)
                selected += [(image, label, box) for box in survivors]
        return torch.tensor(selected, dtype=torch.int64, device=boxes.device).reshape(-1, 3)

    return suppress


def _kept(low: Tensor, high: Tensor, order: Tensor, limit: int, threshold: float) -> list[int]:
    """The chosen boxes among those in ``order``: each removes what overlaps it from the rest."""
    survivors: list[int] = []
    while len(survivors) < limit and order.numel():
        best, order = order[0], order[1:]
        survivors.append(int(best.item()))
        order = order[~(_overlap(low[order], high[order], low[best], high[best]) > threshold)]
    return survivors


def _overlap(low: Tensor, high: Tensor, other_low: Tensor, other_high: Tensor) -> Tensor:
    """Intersection over union of boxes with another one; 0 where they do not intersect."""
    sides = (torch.minimum(high, other_high) - torch.maximum(low, other_low)).clamp(min=0)
    intersection = sides[..., 0] * sides[..., 1]
    areas = torch.prod(high - low, -1) + torch.prod(other_high - other_low)
    return torch.where(intersection > 0, intersection / (areas - intersection), 0)


def RoiAlign(site: Site) -> Callable[..., Tensor]:
    """Each region, divided into bins; a bin is the mean, or the maximum, of bilinear samples on a regular grid in it."""
    mode = site.attribute("mode", "avg")
    if mode not in ("avg", "max"):
        raise NotNative(f"there is no mode {mode!r}")
    half = site.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    bins = (site.attribute("output_height", 1), site.attribute("output_width", 1))
    ratio, scale = site.attribute("sampling_ratio", 0), site.attribute("spatial_scale", 1.0)
    dtype, pool = torch_type(site), _means if mode == "avg" else _maxima
    wide = dtype if dtype.itemsize >= 4 else torch.float32

    def align(x: Tensor, rois: Tensor, images: Tensor) -> Tensor:
        y = torch.zeros((rois.shape[0], x.shape[1], *bins), dtype=wide, device=x.device)
        corners = rois.to(wide) * scale - (0.5 if half else 0.0)
        for r, image in enumerate(images.tolist()):
            left_edge, top, right, bottom = corners[r]
            rows = _samples(top, bottom, bins[0], ratio, x.shape[2], half)
            columns = _samples(left_edge, right, bins[1], ratio, x.shape[3], half)
            if rows[0].numel() and columns[0].numel():
                y[r] = pool(x[image].to(wide), rows, columns)
        return y.to(dtype)

    return align


Samples = tuple[Tensor, Tensor]
"""The two elements next to each sample of each bin along an axis, and their weights: ``[bins, samples, 2]``."""


def _samples(start: Tensor, end: Tensor, bins: int, ratio: int, size: int, half: bool) -> Samples:
    step = (end - start if half else (end - start).clamp(min=1)) / bins
    count = ratio if ratio > 0 else max(int(torch.ceil(step.float()).item()), 0)
    offsets = (torch.arange(count, dtype=start.dtype, device=start.device) + 0.5) / max(count, 1)
    position = start + step * (torch.arange(bins, dtype=start.dtype, device=start.device)[:, None] + offsets)
    inside = ((position >= -1) & (position <= size)).unsqueeze(-1)
    position = position.clamp(0, size - 1)
    low = position.floor()
    first, fraction = low.long(), position - low
    places = torch.stack([first, (first + 1).clamp(max=size - 1)], -1)
    return places, torch.where(inside, torch.stack([1 - fraction, fraction], -1), 0)


def _means(image: Tensor, rows: Samples, columns: Samples) -> Tensor:
    """Bilinear samples are linear in the image: each element of an axis counts so much in each bin."""
    down, across = (_dense(*samples, size) for samples, size in zip((rows, columns), image.shape[1:], strict=True))
    return down @ image @ across.t()


def _dense(places: Tensor, weights: Tensor, size: int) -> Tensor:
    total = weights.new_zeros((places.shape[0], size))
    return total.scatter_add(1, places.flatten(1), weights.flatten(1)) / places.shape[1]


def _maxima(image: Tensor, rows: Samples, columns: Samples) -> Tensor:
    """Of the weighted elements around the samples, not of the samples: so the standard's own cases have it."""
    (row, row_weight), (column, column_weight) = ((t[..., None, None, None] for t in rows), columns)
    weighted = image[:, row, column] * (row_weight * column_weight)
    if weighted.requires_grad:  # of equal ones, the first has the derivative
        return weighted.permute(0, 1, 4, 2, 3, 5, 6).flatten(3).max(3).values
    return weighted.amax((2, 3, 5, 6))
