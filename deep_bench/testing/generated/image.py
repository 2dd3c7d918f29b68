"""Images, feature maps and boxes: every mode of interpolation, coordinates inside and outside, boxes in any order."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deep_bench.tensor import STRING, is_float
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

Generator = Callable[[Draw], GeneratedProblem]

_TRANSFORMATIONS = (
    None,
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_SCALES = (0.5, 2.0, 1.5, 0.25, 3.0, 0.75, 0.5, 2.5, 0.625, 1.0)
"""Without rounding, so that it decides on no element."""


def Resize(draw: Draw) -> GeneratedProblem:
    """Left open, and avoided: interpolated integers, a single element with aligned corners, sizes of 0.

    Nearest neighbours are asked for only where their positions are exact: at scales that are sums of powers of two.
    """
    mode = draw.pick((None, "nearest", "linear", "cubic"))
    blurred = mode in ("linear", "cubic")
    transformation = draw.pick(draw.pick((_TRANSFORMATIONS, (None, "half_pixel"))))
    dtype = draw.pick([d for d in dtypes("Resize") if is_float(d) or not blurred])
    shape = [draw.pick((4, 1, 2, 3, 5, 8)) for _ in range(draw.integer(1, 4))]
    axes = draw.maybe(_some(draw, len(shape)))
    named = range(len(shape)) if axes is None else axes
    least = 2 if transformation == "align_corners" else 1
    scales = [_scale(draw, shape[a], least) for a in named]
    scaled, sized = _amounts(draw, [shape[a] for a in named], scales, exact=not blurred)
    settings = {
        "axes": axes,
        "coordinate_transformation_mode": transformation,
        "keep_aspect_ratio_policy": None if sized is None else _policy(draw, [shape[a] for a in named], sized),
        "mode": mode,
        **_kernel(draw, mode),
    }
    roi = None
    if transformation == "tf_crop_and_resize":
        corners = [draw.pick((0.0, 0.25, -0.5)) for _ in named] + [draw.pick((1.0, 0.5, 1.25)) for _ in named]
        roi = np.array(corners, draw.pick(dtypes("Resize", 1)))
        settings["extrapolation_value"] = draw.pick((None, 7.5)) if is_float(dtype) else None
    x = draw.array(shape, dtype, "normal" if is_float(dtype) else None)
    return GeneratedProblem("Resize", [x, roi, scaled, sized], settings)


def _some(draw: Draw, rank: int) -> tuple[int, ...]:
    return draw.axes(rank) or (draw.axis(rank),)


def _scale(draw: Draw, size: int, least: int) -> float:
    return draw.pick([s for s in _SCALES if int(size * s) >= least or s == 3.0])


def _amounts(
    draw: Draw, lengths: Sequence[int], scales: Sequence[float], exact: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Scales, or sizes; exact ones are such that the scales that follow from them are."""
    if draw.boolean() or (exact and any(n * s % 1 for n, s in zip(lengths, scales, strict=True))):
        return np.array(scales, np.float32), None
    sizes = [int(n * s) + (0 if exact else draw.integer(0, 2)) for n, s in zip(lengths, scales, strict=True)]
    return None, np.array(sizes, np.int64)


def _policy(draw: Draw, lengths: Sequence[int], sizes: np.ndarray) -> str | None:
    """None that leaves an axis without elements, or with one where there were more."""
    policy: str | None = draw.pick((None, "stretch", "not_larger", "not_smaller"))
    ratios = [int(m) / n for m, n in zip(sizes, lengths, strict=True)]
    return policy if min(n * min(ratios) for n in lengths) >= 2 else draw.pick((None, "stretch"))


def _kernel(draw: Draw, mode: str | None) -> dict[str, Any]:
    """The attributes of a mode."""
    if mode in (None, "nearest"):
        return {"nearest_mode": draw.pick((None, None, None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))}
    smooth = {"antialias": draw.pick((None, 0, 1)), "exclude_outside": draw.pick((None, 0, 1))}
    return {**smooth, "cubic_coeff_a": draw.pick((None, -0.5, -0.75))} if mode == "cubic" else smooth


def AffineGrid(draw: Draw) -> GeneratedProblem:
    """In two and three dimensions; a single position with aligned corners is left open."""
    rank, aligned = draw.integer(2, 3), draw.pick((None, 0, 1))
    batch = draw.integer(1, 3)
    sizes = [batch, draw.integer(1, 3), *(draw.integer(2 if aligned else 1, 5) for _ in range(rank))]
    theta = draw.array((batch, rank, rank + 1), draw.pick(dtypes("AffineGrid")), draw.pick(("normal", "ties")))
    return GeneratedProblem("AffineGrid", [theta, np.array(sizes, np.int64)], {"align_corners": aligned})


def GridSample(draw: Draw) -> GeneratedProblem:
    """In one to three dimensions, positions inside and outside; interpolated integers and padded strings are left open.

    Where the nearest element is asked for no position is in the middle of two, unless rounding puts it there.
    """
    mode = draw.pick((None, "linear", "nearest", "cubic"))
    dtype = draw.pick([d for d in dtypes("GridSample") if is_float(d) or (mode == "nearest" and d != STRING)])
    rank = draw.pick((2, 3, 2, 1))
    batch = draw.integer(1, 2)
    x = draw.array((batch, draw.integer(1, 3), *draw.full_shape(rank, rank)), dtype, "normal" if is_float(dtype) else None)
    spatial = draw.full_shape(rank, rank)
    kind = draw.pick([d for d in dtypes("GridSample", 1) if mode != "nearest" or d.itemsize > 2])
    grid = (draw.array((batch, *spatial, rank), np.float64, "normal") * draw.pick((0.5, 1.5))).astype(kind)
    settings = {
        "align_corners": draw.pick((None, 0, 1)),
        "mode": mode,
        "padding_mode": draw.pick((None, "zeros", "border", "reflection")),
    }
    return GeneratedProblem("GridSample", [x, grid], settings)


def RoiAlign(draw: Draw) -> GeneratedProblem:
    """Regions inside and across the borders; lengths such that the number of samples in a bin is exact."""
    dtype = draw.pick(dtypes("RoiAlign"))
    n, h, w, count = draw.integer(1, 3), draw.integer(3, 8), draw.integer(3, 8), draw.integer(1, 4)
    x = draw.array((n, draw.integer(1, 3), h, w), dtype, draw.pick(("normal", "ties")))
    scale = draw.pick((None, 1.0, 0.5, 0.25, 2.0))
    corners = [[draw.integer(-4, 4 * side) / 4 for side in (w, h)] for _ in range(count)]
    lengths = [[draw.integer(2, 4 * side) / 4 for side in (w, h)] for _ in range(count)]
    rois = np.array([[*c, *np.add(c, s)] for c, s in zip(corners, lengths, strict=True)]) / (scale or 1)
    images = np.array([draw.integer(0, n - 1) for _ in range(count)], np.int64)
    settings = {
        "coordinate_transformation_mode": draw.pick((None, "half_pixel", "output_half_pixel")),
        "mode": draw.pick((None, "avg", "max")),
        "output_height": draw.pick((None, 1, 2, 4)),
        "output_width": draw.pick((None, 1, 2, 4)),
        "sampling_ratio": draw.pick((None, 0, 1, 2, 3)),
        "spatial_scale": scale,
    }
    return GeneratedProblem("RoiAlign", [x, rois.astype(dtype), images], settings)


def NonMaxSuppression(draw: Draw) -> GeneratedProblem:
    """Scores are distinct, thresholds between them, and overlaps not as large as the threshold."""
    batch, classes, count = draw.integer(1, 2), draw.integer(1, 3), draw.integer(1, 8)
    centred = draw.pick((None, 0, 1))
    boxes = [[_box(draw, centred) for _ in range(count)] for _ in range(batch)]
    order = [[sorted(range(count), key=lambda _: draw.integer(0, 99)) for _ in range(classes)] for _ in range(batch)]
    scores = np.array(order, np.float32).reshape(batch, classes, count) / 8 - draw.pick((0, 0.5))
    limit = draw.pick((np.array(2), np.array([3]), np.array(9), np.array(1), np.array(0), None))
    overlap, low = draw.pick((0.503, 0.307, 0.1003, 0.97, None)), draw.maybe(draw.pick((0.0625, 0.3125, -1.0)))
    shape = draw.pick(((), (1,)))
    thresholds = [None if v is None else np.full(shape, v, np.float32) for v in (overlap, low)]
    inputs = [np.array(boxes, np.float32), scores, None if limit is None else limit.astype(np.int64), *thresholds]
    return GeneratedProblem("NonMaxSuppression", inputs, {"center_point_box": centred})


def _box(draw: Draw, centred: int | None) -> list[float]:
    """Corners in either order, or centre and lengths."""
    (a, b), (c, d) = ((draw.integer(0, 16) / 4, draw.integer(1, 16) / 4) for _ in range(2))
    if centred:
        return [a, c, b, d]
    return [*draw.pick(((a, c, a + b, c + d), (a + b, c + d, a, c), (a, c + d, a + b, c)))]


def ImageDecoder(draw: Draw) -> GeneratedProblem:
    """Lossless files in several formats. Others' decoders, and how colours become grey, are left open, and avoided."""
    from PIL import Image

    grey = bool(draw.boolean())
    shape = (draw.integer(1, 9), draw.integer(1, 9))
    pixels = draw.array(shape if grey else (*shape, 3), np.uint8, "extreme" if draw.boolean() else "small")
    kind = draw.pick(("PNG", "BMP", "TIFF", "PPM", "WEBP", "JPEG2000"))
    file = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    formats = ("RGB", "BGR", "Grayscale", None) if grey else ("RGB", "BGR", None)
    return GeneratedProblem("ImageDecoder", [np.frombuffer(file.getvalue(), np.uint8)], {"pixel_format": draw.pick(formats)})


_NEEDS_PILLOW = (ImageDecoder,) if importlib.util.find_spec("PIL") else ()

GENERATORS: dict[str, Generator] = {
    f.__name__: f for f in (AffineGrid, GridSample, NonMaxSuppression, Resize, RoiAlign, *_NEEDS_PILLOW)
}
