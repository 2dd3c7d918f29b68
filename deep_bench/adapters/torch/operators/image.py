"""Resizing and sampling of images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dtype_of, rank_of, static_shape
from deep_bench.adapters.torch.operators._detection import NonMaxSuppression, RoiAlign
from deep_bench.adapters.torch.operators._resize import Axis, Rule, Taps, taps
from deep_bench.adapters.torch.operators._site import Tensor, torch_type
from deep_bench.tensor import is_float

__all__ = ["AffineGrid", "GridSample", "NonMaxSuppression", "Resize", "RoiAlign"]

Apply = Callable[[Tensor], Tensor]


def Resize(site: Site) -> Callable[..., Tensor]:
    """The input resized along some axes, in any of ONNX's modes.

    What to do is worked out once for each input shape and target, and kept.
    """
    plan = _Plan(site)
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


class _Plan:
    """A ``Resize`` node, ready to be worked out for an input shape."""

    def __init__(self, site: Site) -> None:
        get = site.attribute
        self.rule = Rule(
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
        by_axis = {a: taps(self.rule, Axis(shape[a], target[a], scale[a], self._region(a, roi)), wide) for a in changed}
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
                if all(_nearest_agrees(self.rule, Axis(shape[a], target[a], scale[a]), offset) for a in spatial):
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


def _nearest_agrees(rule: Rule, axis: Axis, offset: float) -> bool:
    """Whether torch's nearest neighbours are the ones that the rule asks for, whether computed in float32 or in float64."""
    expected = taps(rule, axis).index[:, 0]
    step = np.float32(1.0) / np.float32(axis.scale)
    narrow = np.floor((np.arange(axis.result, dtype=np.float32) + np.float32(offset)) * step)
    wide = np.floor((np.arange(axis.result) + offset) / axis.scale)
    return all(bool((np.minimum(indices, axis.size - 1) == expected).all()) for indices in (narrow, wide))


def _tapped(by_axis: dict[int, Taps], target: Sequence[int], plan: _Plan, device: torch.device) -> Apply:
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
