"""Resampling: each result hands its gradient back to the pixels it came from."""

from __future__ import annotations

import numpy as np

from deep_bench.network.gradient.rules._regions import averaged, largest
from deep_bench.network.gradient.rules._resize import applied, matrix, repeated, resized_axes
from deep_bench.network.gradient.rules._sampling import Sampling, taps_around
from deep_bench.network.gradient.rules._windows import dim, product, shaped, size

__all__ = ["AffineGrid", "GridSample", "Resize", "RoiAlign"]


def Resize(
    at,
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
    """Along each axis ``y = A x``, hence ``dx = A^T dy``; the rows of ``A`` are computed as the operator defines them."""
    if coordinate_transformation_mode != "tf_crop_and_resize":
        roi = None
    elif mode != "nearest" and at.wants(1):
        raise at.refusal("the gradient of its region of interest is not written")
    axis_specs = resized_axes(at, x, axes, roi, scales, sizes, keep_aspect_ratio_policy)
    factors = repeated(at, axis_specs, mode, coordinate_transformation_mode, nearest_mode)
    if factors is not None:
        # The sum over the copies of each element; pools run faster than sums over inner axes.
        mean = at.op.AveragePool(at.dy, kernel_shape=factors, strides=factors)
        return mean * float(np.prod(factors)), None, None, None
    wide = np.result_type(x.dtype, np.float32)
    dx = at.dy.cast(wide)
    for axis in axis_specs:
        rows = matrix(
            at.op,
            axis,
            wide,
            mode,
            coordinate_transformation_mode,
            nearest_mode,
            cubic_coeff_a,
            antialias,
            exclude_outside,
        )
        dx = applied(at, dx, rows, axis, x)
    return dx.cast(x), None, None, None


def GridSample(at, x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    """``dx`` adds up ``weight * dy`` at the elements that were read; ``dgrid = Σ dy * x * d weight / d position``.

    Source:
        Jaderberg et al., *Spatial Transformer Networks*, 2015, equations 6 and 7.
    """
    op, rank = at.op, x.rank - 2
    wide = np.result_type(grid.dtype, np.result_type(x.dtype, np.float32))
    n, points = dim(grid, 0), product(op, *(dim(grid, axis) for axis in range(1, 1 + rank)))
    flat = shaped(grid.cast(wide), n, points, rank)
    taps, stretches = [], []
    for axis in range(rank):
        extent = size(x, 2 + axis)
        shifted = flat.slice(2, rank - 1 - axis, rank - axis).squeeze(2) + 1
        length = (extent - 1 if align_corners else extent).cast(wide)
        position = shifted * length / 2 if align_corners else (shifted * length - 1) / 2
        taps.append(taps_around(op, position, extent, mode, padding_mode, align_corners))
        stretches.append(length / 2)
    sampling = Sampling(op, x.cast(wide), taps)
    dy = shaped(at.dy.cast(wide), n, dim(x, 1), points).transpose([0, 2, 1])
    dx = sampling.to_elements(dy).cast(x) if at.wants(0) else None
    if not at.wants(1) or mode == "nearest":
        return dx, None
    moved = [(d * s).unsqueeze(2) for d, s in zip(sampling.to_positions(dy), stretches, strict=True)]
    return dx, op.concat(moved[::-1], axis=2).reshape(grid.shape).cast(grid)


def AffineGrid(at, theta, size, *, align_corners=0):
    """``dtheta = Σ dy ⊗ (x, y, z, 1)`` over the positions, which are the grid of the identity."""
    op, rank = at.op, at.y.rank - 2
    wide = np.result_type(theta.dtype, np.float32)
    unit_size = op.Concat([1, 1], op.Slice(size, [2], [2 + rank]), axis=0)
    identity = op.constant(np.eye(rank, rank + 1)[np.newaxis], wide)
    places = op.AffineGrid(identity, unit_size, align_corners=align_corners)
    area = product(op, *(dim(at.y, axis) for axis in range(1, 1 + rank)))
    places = op.Pad(shaped(places, area, rank), [0, 0, 0, 1], op.constant(1, wide))
    dy = shaped(at.dy.cast(wide), dim(theta, 0), area, rank)
    return (dy.transpose([0, 2, 1]) @ places).cast(theta), None


def RoiAlign(
    at,
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
    """For means ``y = A x B^T`` in each region, hence ``dx = A^T dy B``; for maxima ``dy`` goes to the first largest corner.

    The regions' gradients follow from the slopes of ``A`` and ``B``.

    Source:
        He et al., *Mask R-CNN*, 2017, section 3.
    """
    rule = averaged if mode == "avg" else largest
    half_pixel = coordinate_transformation_mode == "half_pixel"
    bins = (output_height, output_width)
    return *rule(at, x, rois, batch_indices, half_pixel, bins, sampling_ratio, spatial_scale), None
