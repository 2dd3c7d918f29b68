"""Resizing and sampling of images, boxes in them and regions of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of, rank_of, static_shape
from deep_bench.adapters.torch.operators._site import Tensor, torch_type
from deep_bench.tensor import is_float

__all__ = ["AffineGrid", "GridSample", "NonMaxSuppression", "Resize", "RoiAlign"]

_ROUND: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True)
class ResizeRule:
    """The attributes of a ``Resize`` node.

    Args:
        mode: ``"nearest"``, ``"linear"`` or ``"cubic"``.
        coordinates: How a place in the result is one in the input.
        nearest: How it is rounded.
        a: The coefficient of the cubic kernel.
        exclude_outside: Whether places beyond the border weigh nothing.
        antialias: Whether the kernel is stretched when shrinking.
    """

    mode: str
    coordinates: str
    nearest: str
    a: float
    exclude_outside: bool
    antialias: bool


@dataclass(frozen=True, slots=True)
class ResizeTaps:
    """For each element of a resized axis: the input's elements, their weights, and whether it lies outside.

    ``index`` and ``weight`` have the shape ``[result, taps]``.
    """

    index: np.ndarray
    weight: np.ndarray
    outside: np.ndarray


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """One resized axis.

    Args:
        size: Its length in the input.
        result: Its length in the result.
        scale: The factor between them as the node states it; ``size * scale`` need not be an integer.
        region: Start and end of the region of interest, from 0 to 1.
    """

    size: int
    result: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)


def places(rule: ResizeRule, axis: ResizedAxis, kind: Any = np.float32) -> np.ndarray:
    """Where in the input each element of the result lies, computed in an element type."""
    size, result, scale, region = axis.size, axis.result, axis.scale, axis.region
    i = np.arange(result, dtype=kind)
    s = kind(scale)
    unit, half = kind(1), kind(0.5)
    if rule.coordinates == "half_pixel":
        return (i + half) / s - half
    if rule.coordinates == "half_pixel_symmetric":
        adjustment = kind(result) / (s * kind(size))
        centre = kind(size) / 2
        return centre * (unit - adjustment) + (i + half) / s - half
    if rule.coordinates == "pytorch_half_pixel":
        return (i + half) / s - half if result > 1 else np.zeros_like(i)
    if rule.coordinates == "align_corners":
        return i * kind(size - 1) / kind(result - 1) if result > 1 else np.zeros_like(i)
    if rule.coordinates == "asymmetric":
        return i / s
    if rule.coordinates == "tf_crop_and_resize":
        start, end = (kind(v) for v in region)
        if result > 1:
            return start * kind(size - 1) + i * (end - start) * kind(size - 1) / kind(result - 1)
        return np.full_like(i, half * (start + end) * kind(size - 1))
    raise NotNative(f"torch has no coordinates {rule.coordinates!r}")


def taps(rule: ResizeRule, axis: ResizedAxis, kind: Any = np.float32) -> ResizeTaps:
    """The taps of one axis, with weights in an element type; decisions are taken in float32, as everywhere."""
    size, result, scale = axis.size, axis.result, axis.scale
    x = places(rule, axis)
    outside = (x < 0) | (x > size - 1) if rule.coordinates == "tf_crop_and_resize" else np.zeros(result, bool)
    if rule.mode == "nearest":
        index = np.clip(_ROUND[rule.nearest](x), 0, size - 1).astype(np.int64)
        return ResizeTaps(index[:, None], np.ones((result, 1), np.float32), outside)
    x = places(rule, axis, kind)
    first = np.floor(x).astype(np.int64)
    stretch = max(1.0, 1.0 / scale) if rule.antialias else 1.0
    reach = int(np.ceil((1 if rule.mode == "linear" else 2) * stretch))
    index = first[:, None] + np.arange(1 - reach, reach + 1)
    distance = (x[:, None] - index.astype(kind)) / kind(stretch)
    weight = np.maximum(0, 1 - np.abs(distance)) if rule.mode == "linear" else _cubic(distance, rule.a)
    if rule.exclude_outside:
        weight = np.where((index < 0) | (index >= size), 0, weight)
    if rule.exclude_outside or rule.antialias:
        weight = weight / weight.sum(1, keepdims=True)
    return ResizeTaps(np.clip(index, 0, size - 1), weight.astype(kind), outside)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    t = np.abs(distance.astype(np.float64))
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


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
                survivors = _chosen_boxes(low[image], high[image], order, limit, threshold)
                selected += [(image, label, box) for box in survivors]
        return torch.tensor(selected, dtype=torch.int64, device=boxes.device).reshape(-1, 3)

    return suppress


def _chosen_boxes(low: Tensor, high: Tensor, order: Tensor, limit: int, threshold: float) -> list[int]:
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
    dtype, pool = torch_type(site), _roi_means if mode == "avg" else _roi_maxima
    wide = dtype if dtype.itemsize >= 4 else torch.float32

    def align(x: Tensor, rois: Tensor, images: Tensor) -> Tensor:
        y = torch.zeros((rois.shape[0], x.shape[1], *bins), dtype=wide, device=x.device)
        corners = rois.to(wide) * scale - (0.5 if half else 0.0)
        for r, image in enumerate(images.tolist()):
            left_edge, top, right, bottom = corners[r]
            rows = _roi_samples(top, bottom, bins[0], ratio, x.shape[2], half)
            columns = _roi_samples(left_edge, right, bins[1], ratio, x.shape[3], half)
            if rows[0].numel() and columns[0].numel():
                y[r] = pool(x[image].to(wide), rows, columns)
        return y.to(dtype)

    return align


RoiSamples = tuple[Tensor, Tensor]
"""The two elements next to each sample of each bin along an axis, and their weights: ``[bins, samples, 2]``."""


def _roi_samples(start: Tensor, end: Tensor, bins: int, ratio: int, size: int, half: bool) -> RoiSamples:
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


def _roi_means(image: Tensor, rows: RoiSamples, columns: RoiSamples) -> Tensor:
    """Bilinear samples are linear in the image: each element of an axis counts so much in each bin."""
    down, across = (_dense_samples(*samples, size) for samples, size in zip((rows, columns), image.shape[1:], strict=True))
    return down @ image @ across.t()


def _dense_samples(places: Tensor, weights: Tensor, size: int) -> Tensor:
    total = weights.new_zeros((places.shape[0], size))
    return total.scatter_add(1, places.flatten(1), weights.flatten(1)) / places.shape[1]


def _roi_maxima(image: Tensor, rows: RoiSamples, columns: RoiSamples) -> Tensor:
    """Of the weighted elements around the samples, not of the samples: so the standard's own cases have it."""
    (row, row_weight), (column, column_weight) = ((t[..., None, None, None] for t in rows), columns)
    weighted = image[:, row, column] * (row_weight * column_weight)
    if weighted.requires_grad:  # of equal ones, the first has the derivative
        return weighted.permute(0, 1, 4, 2, 3, 5, 6).flatten(3).max(3).values
    return weighted.amax((2, 3, 5, 6))


Apply = Callable[[Tensor], Tensor]


def Resize(site: Site) -> Callable[..., Tensor]:
    """The input resized along some axes, in any of ONNX's modes.

    What to do is worked out once for each input shape and target, and kept.
    """
    plan = _ResizePlan(site)
    cache: dict[tuple[Any, ...], Apply] = {}

    def resize(x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None) -> Tensor:
        region = plan.roi if roi is None or plan.roi is not None else tuple(roi.tolist())
        factor = plan.scales if scales is None or plan.scales is not None else tuple(scales.tolist())
        target = plan.sizes if sizes is None or plan.sizes is not None else tuple(sizes.tolist())
        key = (x.shape, x.device, region, factor, target)
        apply = cache.get(key)
        if apply is None:
            apply = cache[key] = plan.apply(tuple(x.shape), x.device, region, factor, target)
        return apply(x)

    if static_shape(site) is not None and all(not site.has(i) or site.constant(i) is not None for i in (1, 2, 3)):
        fixed = plan.apply(static_shape(site) or (), torch.device("cpu"), plan.roi, plan.scales, plan.sizes)
        if fixed in plan.needs_no_tensor:
            return lambda x, *_: fixed(x)
    return resize


def _floats(array: np.ndarray | None) -> tuple[float, ...] | None:
    return None if array is None or not array.size else tuple(float(v) for v in array.reshape(-1))


class _ResizePlan:
    """A ``Resize`` node, ready to be worked out for an input shape."""

    def __init__(self, site: Site) -> None:
        get = site.attribute
        self.rule = ResizeRule(
            mode=get("mode", "nearest"),
            coordinates=get("coordinate_transformation_mode", "half_pixel"),
            nearest=get("nearest_mode", "round_prefer_floor"),
            a=get("cubic_coeff_a", -0.75),
            exclude_outside=bool(get("exclude_outside", 0)),
            antialias=bool(get("antialias", 0)),
        )
        self.policy = get("keep_aspect_ratio_policy", "stretch")
        self.extrapolation = get("extrapolation_value", 0.0)
        total = rank_of(site)
        self.axes = tuple(a % total for a in get("axes", range(total)))
        self.roi, self.scales = _floats(site.constant(1)), _floats(site.constant(2))
        sizes = site.constant(3)
        self.sizes = None if sizes is None or not sizes.size else tuple(int(v) for v in sizes.reshape(-1))
        self.kind = torch_type(site)
        self.exact = is_float(dtype_of(site))
        if not self.exact and self.rule.mode != "nearest":
            raise NotNative("torch interpolates floating-point images")
        self.needs_no_tensor: set[Apply] = set()

    def apply(
        self,
        shape: tuple[int, ...],
        device: torch.device,
        roi: tuple[float, ...] | None,
        scales: tuple[float, ...] | None,
        sizes: tuple[int, ...] | None,
    ) -> Apply:
        """The function for inputs of one shape."""
        scale, target = self._targets(shape, scales or None, sizes or None)
        changed = [a for a in range(len(shape)) if scale[a] != 1 or target[a] != shape[a]]
        if self.rule.coordinates == "tf_crop_and_resize":
            changed = list(self.axes)
        if not changed:
            return lambda x: x
        native = self._native(shape, scale, target, changed)
        if native is not None:
            self.needs_no_tensor.add(native)
            return native
        wide = np.float64 if self.kind == torch.float64 else np.float32
        by_axis = {
            a: taps(self.rule, ResizedAxis(shape[a], target[a], scale[a], self._region(a, roi)), wide) for a in changed
        }
        return _tapped(by_axis, target, self, device)

    def _region(self, axis: int, roi: tuple[float, ...] | None) -> tuple[float, float]:
        if not roi or axis not in self.axes:
            return (0.0, 1.0)
        at, n = self.axes.index(axis), len(self.axes)
        return (roi[at], roi[at + n])

    def _targets(
        self, shape: Sequence[int], scales: Sequence[float] | None, sizes: Sequence[int] | None
    ) -> tuple[list[float], list[int]]:
        factor, target = [1.0] * len(shape), list(shape)
        if scales is not None:
            for axis, scale in zip(self.axes, scales, strict=True):
                factor[axis] = scale
                target[axis] = math.floor(np.float32(shape[axis]) * np.float32(scale))
        elif sizes is not None:
            ratios = [size / shape[axis] for axis, size in zip(self.axes, sizes, strict=True)]
            if self.policy != "stretch":
                common = min(ratios) if self.policy == "not_larger" else max(ratios)
                ratios = [common] * len(ratios)
                sizes = [math.floor(common * shape[axis] + 0.5) for axis in self.axes]
            for axis, ratio, size in zip(self.axes, ratios, sizes, strict=True):
                factor[axis], target[axis] = ratio, size
        return factor, target

    def _native(
        self, shape: Sequence[int], scale: Sequence[float], target: Sequence[int], changed: Sequence[int]
    ) -> Apply | None:
        """torch's own interpolation, where it computes the same."""
        n = len(shape) - 2
        spatial = range(2, len(shape))
        plain = self.exact and not self.rule.exclude_outside and not self.rule.antialias
        if n not in (1, 2, 3) or min(changed) < 2 or not plain:
            return None
        size, factors = list(target[2:]), [float(scale[a]) for a in spatial]
        functions = torch._C._nn
        if self.rule.mode == "nearest":
            for offset, name in ((0.0, "upsample_nearest"), (0.5, "_upsample_nearest_exact")):
                if all(_nearest_agrees(self.rule, ResizedAxis(shape[a], target[a], scale[a]), offset) for a in spatial):
                    function = getattr(functions, f"{name}{n}d")
                    return lambda x: function(x, size, *factors)
            return None
        if self.rule.mode != "linear":
            return None
        corners = self.rule.coordinates == "align_corners"
        half = self.rule.coordinates == "half_pixel" or (
            self.rule.coordinates == "pytorch_half_pixel" and all(target[a] > 1 for a in spatial)
        )
        if not corners and not half:
            return None
        function = getattr(functions, f"upsample_{('linear', 'bilinear', 'trilinear')[n - 1]}{n}d")
        return lambda x: function(x, size, corners, *factors)


def _nearest_agrees(rule: ResizeRule, axis: ResizedAxis, offset: float) -> bool:
    """Whether torch's nearest neighbours are the ones that the rule asks for, whether computed in float32 or in float64."""
    expected = taps(rule, axis).index[:, 0]
    step = np.float32(1.0) / np.float32(axis.scale)
    narrow = np.floor((np.arange(axis.result, dtype=np.float32) + np.float32(offset)) * step)
    wide = np.floor((np.arange(axis.result) + offset) / axis.scale)
    return all(bool((np.minimum(indices, axis.size - 1) == expected).all()) for indices in (narrow, wide))


def _tapped(by_axis: dict[int, ResizeTaps], target: Sequence[int], plan: _ResizePlan, device: torch.device) -> Apply:
    """Weighted sums of slices, one axis after another."""
    prepared = []
    nearest = plan.rule.mode == "nearest"
    work = plan.kind if plan.exact and plan.kind.itemsize >= 4 else torch.float32
    for axis, tap in by_axis.items():
        shape = [1] * len(target)
        shape[axis] = target[axis]
        columns = [
            (torch.from_numpy(i.copy()).to(device), torch.from_numpy(w.copy()).to(device, work).reshape(shape))
            for i, w in zip(tap.index.T, tap.weight.T, strict=True)
        ]
        prepared.append((axis, columns))
    outside = None
    for axis, tap in by_axis.items():
        if tap.outside.any():
            shape = [1] * len(target)
            shape[axis] = target[axis]
            mask = torch.from_numpy(tap.outside.copy()).to(device).reshape(shape)
            outside = mask if outside is None else outside | mask
    fill = plan.extrapolation if plan.exact else int(plan.extrapolation)  # a float would take large integers along

    def apply(x: Tensor) -> Tensor:
        y = x if nearest else x.to(work)
        for axis, columns in prepared:
            parts = [y.index_select(axis, i) if nearest else y.index_select(axis, i) * w for i, w in columns]
            y = parts[0] if len(parts) == 1 else torch.stack(parts).sum(0) if len(parts) > 4 else sum(parts[1:], parts[0])
        if outside is not None:
            y = torch.where(outside, fill, y)
        return y.to(plan.kind)

    return apply


def GridSample(site: Site) -> Callable[..., Tensor]:
    """The input sampled at the places that a grid names."""
    modes = {"linear": 0, "nearest": 1, "cubic": 2}
    borders = {"zeros": 0, "border": 1, "reflection": 2}
    mode = modes[site.attribute("mode", "linear")]
    border = borders[site.attribute("padding_mode", "zeros")]
    corners = bool(site.attribute("align_corners", 0))
    axes = rank_of(site) - 2
    if axes not in (2, 3) or (axes == 3 and mode == 2):
        raise NotNative("torch samples grids over 2 axes, and over 3 without cubic interpolation")
    if not is_float(dtype_of(site)):
        raise NotNative("torch samples floating-point grids")
    if torch_type(site) == torch_type(site, 1):
        return lambda x, grid: torch.grid_sampler(x, grid, mode, border, corners)
    wide = torch.promote_types(torch.promote_types(torch_type(site), torch_type(site, 1)), torch.float32)
    return lambda x, grid: torch.grid_sampler(x.to(wide), grid.to(wide), mode, border, corners).to(x.dtype)


def AffineGrid(site: Site) -> Callable[..., Tensor]:
    """The grid of an affine map, for ``GridSample``."""
    corners = bool(site.attribute("align_corners", 0))
    if torch_type(site).itemsize < 4:
        dtype = torch_type(site)
        return lambda theta, size: torch.affine_grid_generator(theta.float(), size.tolist(), corners).to(dtype)
    return lambda theta, size: torch.affine_grid_generator(theta, size.tolist(), corners)
