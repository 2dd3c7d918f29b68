"""Operators on images, feature maps and boxes."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from deep_bench.errors import FrameworkMissing, InvalidInput
from deep_bench.reference.operators._arguments import check_choice, in_float32, integer, integers, ints64
from deep_bench.tensor import is_float, is_integer

__all__ = ["AffineGrid", "GridSample", "ImageDecoder", "NonMaxSuppression", "Resize", "RoiAlign"]


def triangle(t):
    """The kernel of linear interpolation, ``max(1 - |t|, 0)``; its support is ``|t| < 1``."""
    return np.maximum(1 - np.absolute(t), 0)


def cubic(t, a):
    """The kernel of cubic convolution with coefficient ``a``; its support is ``|t| < 2``.

    Source:
        Keys, *Cubic convolution interpolation for digital image processing*, 1981, equation 4.
    """
    t = np.absolute(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, np.zeros_like(t)))


def neighbours(position, radius):
    """The ``2 * radius`` integers around each position, along a new last axis."""
    return np.floor(position).astype(np.int64)[..., np.newaxis] + np.arange(1 - radius, radius + 1)


def like(x, values, dtype=None):
    """Plain numbers as an array of ``x``'s class, so that rounding errors in what follows from them are estimated too.

    The element type is ``dtype``, by default ``x``'s.
    """
    return np.zeros_like(x, dtype=dtype, shape=np.shape(values)) + np.asarray(values, dtype=dtype or x.dtype)


_TIE = 1e-6
"""Coordinates this close to the middle of two elements are meant to be there: a scale such as 2/7 is rounded."""


_ROUND: dict[str, Callable[[Any], Any]] = {
    "round_prefer_floor": lambda c: np.ceil(c - 0.5 - _TIE),
    "round_prefer_ceil": lambda c: np.floor(c + 0.5 + _TIE),
    "floor": np.floor,
    "ceil": np.ceil,
}


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """One axis that is resized.

    Args:
        index: Which axis.
        length: Its elements before.
        resized: Its elements after.
        scale: The scale that was asked for; ``length * scale`` may have a fraction.
        start: Where the region of interest begins, as a share of the axis.
        end: Where it ends.
    """

    index: int
    length: int
    resized: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    def original(self, x: Any, transformation: str) -> Any:
        """The coordinates ``x`` of resized elements, in the original tensor.

        Source: ONNX Resize, opset 19, ``coordinate_transformation_mode``.
        """
        n, m, scale = self.length, self.resized, x.dtype.type(self.scale)
        half = x.dtype.type(0.5)
        match transformation:
            case "asymmetric":
                return x / scale
            case "pytorch_half_pixel" if m <= 1:
                return x * 0
            case "half_pixel" | "pytorch_half_pixel":
                return (x + half) / scale - half
            case "half_pixel_symmetric":
                offset = half * n * (1 - m / (n * scale))
                return offset + (x + half) / scale - half
            case "align_corners":
                return x * (n - 1) / max(m - 1, 1)
            case _:  # tf_crop_and_resize
                start, end = x.dtype.type(self.start), x.dtype.type(self.end)
                if m <= 1:
                    return x * 0 + half * (start + end) * (n - 1)
                return start * (n - 1) + x * (end - start) * (n - 1) / (m - 1)


def nearest(axis: ResizedAxis, position: Any, rounding: str) -> np.ndarray:
    """The element nearest to each position."""
    check_choice("Resize", "nearest_mode", rounding, _ROUND)
    exact = position.astype(np.float64)  # so that half an element is added without rounding
    return np.clip(_ROUND[rounding](exact).astype(np.int64), 0, axis.length - 1)


def weighted(
    axis: ResizedAxis, position: Any, mode: str, *, a: float, antialias: bool, exclude_outside: bool
) -> tuple[np.ndarray, Any]:
    """The elements around each position and their weights, one row per position.

    The weight of element ``i`` is ``kernel((i - position) / stretch)``, where ``stretch`` is 1, or ``1 / scale`` for an
    antialiased reduction. Elements outside the tensor repeat its first or last one; with ``exclude_outside`` they weigh 0.
    """
    radius = 1 if mode == "linear" else 2
    stretch = position.dtype.type(max(1.0, 1.0 / axis.scale) if antialias else 1.0)
    taps = neighbours(position, int(np.ceil(radius * stretch)))
    distance = (taps.astype(position.dtype) - position[:, np.newaxis]) / stretch
    weights = triangle(distance) if mode == "linear" else cubic(distance, a)
    inside = np.clip(taps, 0, axis.length - 1)
    if exclude_outside:
        weights = np.where(taps == inside, weights, np.zeros_like(weights))
    if exclude_outside or antialias:
        weights = weights / np.sum(weights, axis=1, keepdims=True)
    return inside, weights


_TRANSFORMATIONS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)


def Resize(
    x,
    roi=None,
    scales=None,
    sizes=None,
    *,
    antialias=0,
    axes=None,
    coordinate_transformation_mode="half_pixel",
    cubic_coeff_a=-0.75,
    exclude_outside=0,
    extrapolation_value=0.0,
    keep_aspect_ratio_policy="stretch",
    mode="nearest",
    nearest_mode="round_prefer_floor",
):
    """``y[i] = Σ_k weight[i, k] * x[neighbour[i, k]]``, one axis after the other.

    Coordinates of nearest neighbours are computed in float32, in which the standard has scales: another precision would
    choose other elements. All others are computed in the element type, but not in one narrower than float32.

    Source: ONNX Resize, opset 19.
    """
    check_choice("Resize", "mode", mode, ("nearest", "linear", "cubic"))
    check_choice("Resize", "coordinate_transformation_mode", coordinate_transformation_mode, _TRANSFORMATIONS)
    check_choice("Resize", "keep_aspect_ratio_policy", keep_aspect_ratio_policy, ("stretch", "not_larger", "not_smaller"))
    cropped = coordinate_transformation_mode == "tf_crop_and_resize"
    axes = tuple(range(x.ndim)) if axes is None else tuple(axis % x.ndim for axis in axes)
    y, outside = x, []
    for axis in _resized_axes(x.shape, axes, roi if cropped else None, scales, sizes, keep_aspect_ratio_policy):
        if axis.length == axis.resized and axis.scale == 1 and not cropped:
            continue
        plain = axis.original(np.arange(axis.resized, dtype=np.float32), coordinate_transformation_mode)
        if mode == "nearest":
            y = np.take(y, nearest(axis, plain, nearest_mode), axis.index)
        else:
            wide = np.result_type(x.dtype, np.float32) if is_float(x.dtype) else np.float32
            position = axis.original(like(x, np.arange(axis.resized), wide), coordinate_transformation_mode)
            taps, weights = weighted(
                axis, position, mode, a=cubic_coeff_a, antialias=bool(antialias), exclude_outside=bool(exclude_outside)
            )
            # ``y[i] = Σ_k weights[i, k] * x[taps[i, k]]`` along an axis
            shape = (-1,) + (1,) * (y.ndim - 1 - axis.index)
            terms = (np.reshape(w, shape) * np.take(y, t, axis.index) for t, w in zip(taps.T, weights.T, strict=True))
            y = sum(terms, next(terms))
        beyond = (plain < 0) | (plain > axis.length - 1)
        outside.append(np.reshape(beyond, (-1,) + (1,) * (x.ndim - 1 - axis.index)))
    y = _as_dtype(y, x.dtype)
    if cropped:
        for beyond in outside:
            y = np.where(beyond, np.full_like(y, extrapolation_value, shape=()), y)
    return y


def _as_dtype(y, dtype):
    """``y`` in another element type; for integers without its fraction, and within their range."""
    if y.dtype != dtype and is_integer(dtype):
        limits = ml_dtypes.iinfo(dtype)
        y = np.clip(y, limits.min, limits.max)
    return y.astype(dtype, copy=False)


def _resized_axes(shape, axes, roi, scales, sizes, policy):
    """The `Axis` of each axis in ``axes``, from either ``scales`` or ``sizes``."""
    starts, ends = (0.0,) * len(axes), (1.0,) * len(axes)
    if roi is not None and np.size(roi):
        starts, ends = np.reshape(np.asarray(roi), (2, -1)).tolist()
    lengths = [shape[axis] for axis in axes]
    if sizes is not None and np.size(sizes):
        sizes = integers(sizes)
        scales = [s / n if n else 1.0 for s, n in zip(sizes, lengths, strict=True)]
        if policy != "stretch":
            scales = [min(scales) if policy == "not_larger" else max(scales)] * len(axes)
            sizes = [int(np.floor(s * n + 0.5)) for s, n in zip(scales, lengths, strict=True)]
    elif scales is not None and np.size(scales):
        # The standard has scales in float32: the product in float64 can fall just short of the integer that is meant. Its
        # text multiplies by the extent of the region too; its shape inference and all known implementations do not.
        scales = np.ravel(np.asarray(scales)).astype(np.float32)
        sizes = np.floor(np.array(lengths, np.float32) * scales).astype(int).tolist()
        scales = scales.tolist()
    else:
        raise InvalidInput("Resize with neither scales nor sizes", "one of the two")
    return [ResizedAxis(*fields) for fields in zip(axes, lengths, sizes, scales, starts, ends, strict=True)]


@in_float32
def AffineGrid(theta, size, *, align_corners=0):
    """``grid[n, …] = theta[n] @ (x, y, z, 1)`` at positions evenly spaced in ``[-1, 1]``, of which ``x`` varies fastest.

    -1 and 1 are the centres of the outermost elements if ``align_corners``, else their outer edges.

    Source: ONNX AffineGrid, opset 20.
    """
    spatial = integers(size)[2:]
    ticks = [_ticks(n, align_corners) for n in spatial]
    axes = [np.broadcast_to(t, spatial) for t in np.meshgrid(*ticks, indexing="ij", sparse=True)]
    position = np.stack([*reversed(axes), np.ones(spatial)], axis=-1).astype(theta.dtype)
    return np.einsum("nij,...j->n...i", theta, position)


def _ticks(n: int, align_corners: int) -> np.ndarray:
    if align_corners:
        return np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
    return (2 * np.arange(n) + 1) / n - 1


def GridSample(x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """``y[n, c, …] = Σ_k weight[n, …, k] * x[n, c, neighbour[n, …, k]]`` around the positions in ``grid``.

    -1 and 1 are the centres of the outermost elements if ``align_corners``, else their outer edges; a position's first
    coordinate belongs to the last axis. Elements outside are 0, the nearest inside (``border``), or mirrored
    (``reflection``). The coefficient of cubic convolution is -0.75.

    Source: ONNX GridSample, opset 22; Jaderberg et al., *Spatial Transformer Networks*, 2015.
    """
    check_choice("GridSample", "mode", mode, ("linear", "nearest", "cubic"))
    check_choice("GridSample", "padding_mode", padding_mode, ("zeros", "border", "reflection"))
    wide = np.result_type(grid.dtype, np.float32)
    taps, weights = [], []
    for axis, size in enumerate(x.shape[2:]):
        position = grid[..., -1 - axis].astype(wide, copy=False) + 1
        position = position / 2 * (size - 1) if align_corners else (position * size - 1) / 2
        t, w = _grid_taps(position, mode, size, padding_mode, align_corners)
        taps.append(t)
        weights.append(w)
    sample = np.reshape(np.arange(x.shape[0]), (-1,) + (1,) * (grid.ndim - 2))
    y = like(x, np.zeros((*grid.shape[:-1], x.shape[1])), np.result_type(x.dtype, wide))
    for corner in itertools.product(*(range(t.shape[-1]) for t in taps)):
        index = tuple(t[..., k] for t, k in zip(taps, corner, strict=True))
        weight = 1
        for w, k in zip(weights, corner, strict=True):
            weight = weight * w[..., k, np.newaxis]
        y = y + weight * x[(sample, slice(None), *index)]
    return np.moveaxis(_as_dtype(y, x.dtype), -1, 1)


def _grid_taps(position, mode, size, padding, align_corners):
    """The elements of an axis around each position and their weights, along a new last axis."""
    if mode == "nearest":
        if padding == "reflection":
            position = _reflected(position, size, align_corners)
        taps = np.rint(position).astype(np.int64)[..., np.newaxis]
        weights = np.ones_like(position)[..., np.newaxis]
    else:
        taps = neighbours(position, 1 if mode == "linear" else 2)
        distance = taps.astype(position.dtype) - position[..., np.newaxis]
        weights = triangle(distance) if mode == "linear" else cubic(distance, -0.75)
    if padding == "reflection":
        taps = np.rint(_reflected(taps, size, align_corners)).astype(np.int64)
    inside = np.clip(taps, 0, size - 1)
    if padding == "zeros":
        weights = np.where(taps == inside, weights, np.zeros_like(weights))
    return inside, weights


def _reflected(position, size, align_corners):
    """Positions mirrored at the centres (``align_corners``) or the outer edges of the outermost elements until inside."""
    edge = 0 if align_corners else 0.5
    length = size - 1 + 2 * edge
    distance = np.mod(position + edge, max(2 * length, 1))
    return np.minimum(distance, 2 * length - distance) - edge


@in_float32
def RoiAlign(
    x,
    rois,
    batch_indices,
    *,
    coordinate_transformation_mode="half_pixel",
    mode="avg",
    output_height=1,
    output_width=1,
    sampling_ratio=0,
    spatial_scale=1.0,
):
    """Each region, divided into bins; a bin is the mean (or maximum) of bilinear samples on a regular grid in it.

    Source: ONNX RoiAlign, opset 22; He et al., *Mask R-CNN*, 2017, section 3.
    """
    check_choice("RoiAlign", "mode", mode, ("avg", "max"))
    check_choice(
        "RoiAlign",
        "coordinate_transformation_mode",
        coordinate_transformation_mode,
        ("half_pixel", "output_half_pixel"),
    )
    half_pixel = coordinate_transformation_mode == "half_pixel"
    scale, offset = x.dtype.type(spatial_scale), x.dtype.type(0.5 if half_pixel else 0)
    y = np.zeros_like(x, shape=(len(rois), x.shape[1], output_height, output_width))
    for r, (roi, image) in enumerate(zip(rois, integers(batch_indices), strict=True)):
        left_edge, top, right, bottom = np.split(roi * scale - offset, 4)
        rows = _bin_samples(top, bottom, output_height, sampling_ratio, x.shape[2], half_pixel)
        columns = _bin_samples(left_edge, right, output_width, sampling_ratio, x.shape[3], half_pixel)
        y[r] = _pooled_samples(x[image], rows, columns, mode)
    return y


def _bin_samples(start, end, bins, ratio, size, half_pixel):
    """The two elements next to each sample of each bin along an axis, and their weights: ``(bins, samples, 2)``."""
    step = (end - start if half_pixel else np.maximum(end - start, 1)) / bins
    # Their number is decided in float32: what another precision adds behind an integer would add a sample.
    samples = ratio if ratio > 0 else max(integer(np.ceil(np.asarray(step).astype(np.float32))), 0)
    bin_offsets = (np.arange(samples) + 0.5) / max(samples, 1)
    position = start + step * (np.arange(bins)[:, np.newaxis] + bin_offsets).astype(step.dtype)
    valid = (position >= -1) & (position <= size)
    position = np.clip(position, 0, size - 1)
    low = np.floor(position).astype(np.int64)
    fraction = position - low.astype(position.dtype)
    taps = np.stack([low, np.minimum(low + 1, size - 1)], axis=-1)
    weights = np.stack([1 - fraction, fraction], axis=-1)
    return taps, np.where(valid[..., np.newaxis], weights, np.zeros_like(weights))


def _pooled_samples(image, rows, columns, mode):
    (row, row_weight), (column, column_weight) = rows, columns
    if row.size == 0 or column.size == 0:
        return np.zeros_like(image, shape=(len(image), len(row), len(column)))
    corners = image[:, row[:, :, :, np.newaxis, np.newaxis, np.newaxis], column]
    weighted_corners = corners * (row_weight[:, :, :, np.newaxis, np.newaxis, np.newaxis] * column_weight)
    if mode == "max":
        # The standard's own cases take the maximum over weighted corners, not over interpolated samples.
        return np.max(weighted_corners, axis=(2, 3, 5, 6))
    return np.mean(np.sum(weighted_corners, axis=(3, 6)), axis=(2, 4))


def NonMaxSuppression(
    boxes,
    scores,
    max_output_boxes_per_class=None,
    iou_threshold=None,
    score_threshold=None,
    *,
    center_point_box=0,
):
    """For each image and class, boxes by falling score, without those that overlap a chosen one by more than a threshold.

    Returns:
        ``(image, class, box)`` of every chosen box.

    Source: ONNX NonMaxSuppression, opset 11.
    """
    limit = 0 if max_output_boxes_per_class is None else integer(max_output_boxes_per_class)
    most_overlap = 0.0 if iou_threshold is None else np.reshape(iou_threshold, ())
    # the lower and the upper corner of each box
    a, b = boxes[..., :2], boxes[..., 2:]
    low, high = (a - b / 2, a + b / 2) if center_point_box else (np.minimum(a, b), np.maximum(a, b))
    chosen = []
    for image, label in np.ndindex(scores.shape[:2]):
        score = scores[image, label]
        order = np.argsort(-score, kind="stable")
        if score_threshold is not None:
            # The text removes lower scores only; the standard's own implementation and all known ones remove equal ones too.
            order = order[score[order] > np.reshape(score_threshold, ())]
        selected: list[int] = []
        for box in order.tolist():
            if len(selected) == limit:
                break
            if not np.any(
                _overlap(low[image, selected], high[image, selected], low[image, box], high[image, box]) > most_overlap
            ):
                selected.append(box)
        chosen += [(image, label, box) for box in selected]
    return np.reshape(ints64(chosen), (-1, 3))


def _overlap(low, high, other_low, other_high):
    """Intersection over union of boxes with another one; 0 where they do not intersect."""
    sides = np.maximum(np.minimum(high, other_high) - np.maximum(low, other_low), 0)
    intersection = sides[..., 0] * sides[..., 1]
    areas = np.prod(high - low, axis=-1) + np.prod(other_high - other_low)
    return np.where(intersection > 0, intersection / np.where(intersection > 0, areas - intersection, 1), 0)


def ImageDecoder(stream, *, pixel_format="RGB"):
    """The picture in a file's bytes, as ``(height, width, channels)``; empty if it cannot be decoded.

    Source: ONNX ImageDecoder, opset 20. The formats are those of Pillow.
    """
    check_choice("ImageDecoder", "pixel_format", pixel_format, ("RGB", "BGR", "Grayscale"))
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise FrameworkMissing(
            "ImageDecoder needs Pillow, which is not installed here", advice="pip install pillow"
        ) from error
    try:
        with Image.open(io.BytesIO(stream.tobytes())) as image:
            pixels = np.array(image.convert("L" if pixel_format == "Grayscale" else "RGB"))
    except (UnidentifiedImageError, OSError, ValueError):
        return np.zeros((0, 0, 0), np.uint8)  # as the standard asks for
    if pixel_format == "Grayscale":
        return pixels[:, :, np.newaxis]
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels
