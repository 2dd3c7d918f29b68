"""Operators on images, feature maps and boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, prod

import numpy as np

from deep_bench.facts.row import OperatorFacts, Shape, Unknown, Work
from deep_bench.facts.rules import ShapedCase, below, named, several


def Resize(
    x: Shape,
    roi: Shape | None = None,
    scales: Shape | None = None,
    sizes: Shape | None = None,
    *,
    y: Shape,
    values: Sequence[np.ndarray | None] = (),
    mode: str = "nearest",
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
) -> Work:
    """One axis after the other, a product and a sum for each element that a result reads; nothing for ``nearest``.

    Along an axis that changes, 2 elements are read (``linear``) or 4 (``cubic``), and as many times more as the axis shrinks
    if ``antialias`` is set. Coordinates and weights are found once for each axis, and not counted.

    Source:
        ONNX Resize, opset 19.
    """
    if mode == "nearest":
        return Work()
    radius = 1 if mode == "linear" else 2
    over = list(range(len(x))) if axes is None else [axis % len(x) for axis in axes]
    scaled = scales is not None and prod(scales) > 0
    scale_values = values[2] if scaled else None
    if scaled and scale_values is None:
        raise Unknown
    work, shape = Work(), [*x]
    for position, axis in enumerate(over):
        scale = float(scale_values[position]) if scale_values is not None else y[axis] / x[axis] if x[axis] else 1.0
        if x[axis] == y[axis] and scale == 1 and coordinate_transformation_mode != "tf_crop_and_resize":
            continue
        stretch = max(1.0, 1.0 / scale) if antialias and scale else 1.0
        shape[axis] = y[axis]
        work += Work(flops=2 * 2 * ceil(radius * stretch)) * prod(shape)
    return work


def AffineGrid(theta: Shape, *, y: Shape) -> Work:
    """``theta[n] @ (x, y, z, 1)`` for each position. Source: ONNX AffineGrid, opset 20."""
    return Work(flops=2 * theta[2]) * prod(y)


def GridSample(
    x: Shape, grid: Shape, *, y: Shape, mode: str = "linear", padding_mode: str = "zeros", align_corners: int = 0
) -> Work:
    """For each channel of each position a product and a sum for each of its ``2^rank`` (``cubic``: ``4^rank``) neighbours.

    Beside them, once for all channels: 4 operations for a coordinate (3 with ``align_corners``); the distance and the weight
    of each neighbour along each axis (2; ``cubic``: 7, a cubic polynomial by Horner's rule); and the product of its weights.
    For ``nearest`` only the coordinates. Reflecting is not counted.

    Source:
        ONNX GridSample, opset 22; Jaderberg et al., *Spatial Transformer Networks*, 2015, section 3.3; Keys, 1981.
    """
    rank, positions = len(x) - 2, prod(grid[:-1])
    coordinates = Work(flops=rank * (3 if align_corners else 4)) * positions
    if mode == "nearest":
        return coordinates
    taps, each = (2, Work(flops=2, comparisons=1)) if mode == "linear" else (4, Work(flops=7, comparisons=1))
    weights = (each * (rank * taps) + Work(flops=(rank - 1) * taps**rank)) * positions
    return coordinates + weights + Work(flops=2 * taps**rank) * prod(y)


def RoiAlign(x: Shape, rois: Shape, *, y: Shape, mode: str = "avg", sampling_ratio: int = 0) -> Work:
    """Each bin the mean (or maximum) of ``sampling_ratio^2`` bilinear samples of 4 elements.

    For each sample and channel 4 products and 4 sums (or comparisons), and for each bin and channel a division; for each
    sample 4 products of weights. Corners and weights along each axis are few, and not counted.

    With ``sampling_ratio`` 0 the number of samples depends on the contents of ``rois``: unknown.

    Source:
        ONNX RoiAlign, opset 22; He et al., *Mask R-CNN*, 2017, section 3.
    """
    if sampling_ratio <= 0:
        raise Unknown
    samples = sampling_ratio**2
    bins = prod(y[:1]) * prod(y[2:])
    weights = Work(flops=4 * samples) * bins
    if mode == "max":
        return weights + Work(flops=4 * samples, comparisons=4 * samples) * prod(y)
    return weights + Work(flops=9 * samples + 1) * prod(y)


def NonMaxSuppression() -> Work:
    """How many pairs of boxes are compared depends on their contents: unknown. Source: ONNX NonMaxSuppression, opset 11."""
    raise Unknown


def ImageDecoder() -> Work:
    """The arithmetic is that of the file's format: unknown. Source: ONNX ImageDecoder, opset 20."""
    raise Unknown


def _rois(case: ShapedCase) -> str:
    height, width = named(case, "X").shape[-2:]
    scale = case.attributes.get("spatial_scale", 1.0)
    return f"boxes:{width / scale}:{height / scale}"


OPERATORS: Mapping[str, OperatorFacts] = {
    "AffineGrid": OperatorFacts(cost=AffineGrid, settings=(1,), constants=("size",), interpolates=True),
    "GridSample": OperatorFacts(
        cost=GridSample,
        choices={"mode": "cubic linear nearest", "padding_mode": "border reflection zeros"},
        draws={"grid": "between:-1.2:1.2"},
        row_axes=several(0, 1),
        interpolates=True,
    ),
    "ImageDecoder": OperatorFacts(cost=ImageDecoder),
    "NonMaxSuppression": OperatorFacts(
        cost=NonMaxSuppression,
        settings=(2,),
        constants=("max_output_boxes_per_class", "iou_threshold", "score_threshold"),
        draws={"boxes": "boxes:1:1", "scores": "between:0:1"},
    ),
    "Resize": OperatorFacts(
        cost=Resize,
        settings=(1, 2, 3),
        constants=("roi", "scales", "sizes"),
        initializer_settings=(1, 2),
        choices={
            "coordinate_transformation_mode": (
                "align_corners asymmetric half_pixel half_pixel_symmetric pytorch_half_pixel tf_crop_and_resize"
            ),
            "keep_aspect_ratio_policy": "not_larger not_smaller stretch",
            "mode": "cubic linear nearest",
            "nearest_mode": "ceil floor round_prefer_ceil round_prefer_floor",
        },
        interpolates=True,
        grows=True,
    ),
    "RoiAlign": OperatorFacts(
        cost=RoiAlign,
        settings=(2,),
        choices={"coordinate_transformation_mode": "half_pixel output_half_pixel", "mode": "avg max"},
        draws={"batch_indices": below("X", 0), "rois": _rois},
        interpolates=True,
    ),
    "Upsample": OperatorFacts(settings=(1,), initializer_settings=(1,), interpolates=True),
}
"""The rows, by operator."""
