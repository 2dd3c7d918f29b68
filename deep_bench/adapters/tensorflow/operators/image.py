"""Images: Resize, for every mode and coordinate transformation, in either layout; GridSample; boxes and "
"what is pooled in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.graph import differentiating
from deep_bench.adapters.tensorflow.layout import channels_last, either
from deep_bench.adapters.tensorflow.operators._site import HALF, in_float, normal_axes, tf_dtype
from deep_bench.tensor import is_float, is_integer

__all__ = ["AffineGrid", "GridSample", "NonMaxSuppression", "Resize", "RoiAlign"]

TIE = 1e-6
"""Coordinates this close to the middle of two elements are meant to be there: a scale such as 2/7 is rounded."""


MANY = 8
"""From this many elements per result on, a product of matrices is used."""


@dataclass(frozen=True)
class ResizeGoal:
    """What one axis becomes; each number is a plain one where it is known when the network is prepared, else a tensor.

    Args:
        size: Its length after, if that is asked for.
        scale: The scale, if that is asked for.
        start, end: The region of interest.
    """

    size: Any
    scale: Any
    start: Any = 0.0
    end: Any = 1.0

    @property
    def known(self) -> bool:
        """Whether all of it is known when the network is prepared."""
        return not any(tf.is_tensor(v) for v in (self.size, self.scale, self.start, self.end))


ResizeGoals = Callable[[Sequence[Any], Any, Any, Any], list[ResizeGoal]]
"""From the lengths of the axes, the region, the scales and the sizes to a goal for each axis."""


def Resize(site: Site) -> Callable[..., Any]:
    """Another resolution: each element from its neighbours' weighted sum, one axis after the other."""
    rank, mode, dtype = rank_of(site), site.attribute("mode", "nearest"), dtype_of(site)
    tf_dtype(dtype)
    if mode != "nearest" and not is_float(dtype) and not (dtype.kind in "iu" and dtype.itemsize < 4):
        raise NotNative(f"TensorFlow does not interpolate {dtype}")
    bilinear = _bilinear_size(site)
    if bilinear is not None:
        return channels_last(lambda x, *_: tf.raw_ops.ResizeBilinear(images=x, size=list(bilinear), half_pixel_centers=True))
    axes = normal_axes(site.attribute("axes") or range(rank), rank)
    scales = site.input(2)
    by_scales = scales is not None and scales.shape != (0,)
    return _resized(site, axes, _by_scales(site) if by_scales or not site.has(3) else _by_sizes(site), rank)


def _bilinear_size(site: Site) -> tuple[int, int] | None:
    """The height and width after, where TensorFlow's kernel for images does the same, several times faster."""
    data, scales, sizes = site.input(0), site.constant(2), site.constant(3)
    plain = {
        "mode": "linear",
        "coordinate_transformation_mode": "half_pixel",
        "antialias": 0,
        "keep_aspect_ratio_policy": "stretch",
    }
    declared = {name: site.attribute(name, default) for name, default in plain.items()}
    if site.attribute("mode") != "linear" or declared != plain or site.attribute("axes") or dtype_of(site) != np.float32:
        return None
    if data is None or data.shape is None or len(data.shape) != 4 or not all(data.shape[2:]):
        return None
    height, width = (float(n or 0) for n in data.shape[2:])
    if sizes is not None and not site.has(2):
        after = [float(n) for n in sizes]
        # the first two lengths must stay
        if list(after[:2]) != [float(n or -1) for n in data.shape[:2]]:
            return None
    elif scales is not None and scales.size == 4 and (scales[:2] == 1).all():
        after = [1.0, 1.0, height * float(scales[2]), width * float(scales[3])]
    else:
        return None
    whole = all(n > 0 and n.is_integer() for n in after[2:])
    return (int(after[2]), int(after[3])) if whole else None


def _regions(site: Site, count: int, roi: Any) -> list[tuple[Any, Any]]:
    if site.attribute("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    constant, slot = site.constant(1), site.input(1)
    if slot is None or slot.shape == (0,) or (constant is not None and constant.size == 0):
        return [(0.0, 1.0)] * count
    if constant is None:
        return list(zip(tf.unstack(roi[:count], count), tf.unstack(roi[count:], count), strict=True))
    starts, ends = np.asarray(constant, np.float64).reshape(2, -1).tolist()
    return list(zip(starts, ends, strict=True))


def _by_scales(site: Site) -> ResizeGoals:
    constant = site.constant(2)
    if not site.has(2):
        raise NotNative("neither scales nor sizes are given")

    def goals(lengths: Sequence[Any], roi: Any, scales: Any, _sizes: Any) -> list[ResizeGoal]:
        count = len(lengths)
        numbers = constant.astype(np.float32).tolist() if constant is not None else tf.unstack(scales, count)
        return [ResizeGoal(None, s, *r) for s, r in zip(numbers, _regions(site, count, roi), strict=True)]

    return goals


def _by_sizes(site: Site) -> ResizeGoals:
    constant, policy = site.constant(3), site.attribute("keep_aspect_ratio_policy", "stretch")

    def goals(lengths: Sequence[Any], roi: Any, _scales: Any, sizes: Any) -> list[ResizeGoal]:
        count = len(lengths)
        requested = constant.tolist() if constant is not None else tf.unstack(tf.cast(sizes, tf.int32), count)
        regions = _regions(site, count, roi)
        if policy == "stretch":
            return [ResizeGoal(s, None, *r) for s, r in zip(requested, regions, strict=True)]
        scale, fitting = _fitting(lengths, requested, policy)
        return [ResizeGoal(s, scale, *r) for s, r in zip(fitting, regions, strict=True)]

    return goals


def _fitting(lengths: Sequence[Any], requested: Sequence[Any], policy: str) -> tuple[Any, list[Any]]:
    """One scale for all axes, and the sizes that follow."""
    if not any(tf.is_tensor(v) for v in (*lengths, *requested)):
        ratios = [s / n if n else 1.0 for s, n in zip(requested, lengths, strict=True)]
        scale = min(ratios) if policy == "not_larger" else max(ratios)
        return scale, [int(np.floor(scale * n + 0.5)) for n in lengths]
    before = tf.stack([tf.cast(n, tf.float64) for n in lengths])
    ratio = tf.where(before > 0, tf.stack([tf.cast(s, tf.float64) for s in requested]) / tf.maximum(before, 1), 1)
    chosen = tf.reduce_min(ratio) if policy == "not_larger" else tf.reduce_max(ratio)
    return chosen, tf.unstack(tf.cast(tf.floor(chosen * before + 0.5), tf.int32), len(lengths))


def _resized(site: Site, axes: list[int], goals: ResizeGoals, rank: int) -> Callable[..., Any]:
    transformation = site.attribute("coordinate_transformation_mode", "half_pixel")
    cropped = transformation == "tf_crop_and_resize"
    outside_value = site.attribute("extrapolation_value", 0.0)
    dtype = dtype_of(site)
    wide = (dtype in HALF or not is_float(dtype)) and site.attribute("mode", "nearest") != "nearest"

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        def run(x: Any, roi: Any = None, scales: Any = None, sizes: Any = None) -> Any:
            y, beyond = tf.cast(x, tf.float32) if wide else x, []
            lengths = [_dim(x, at(a)) for a in axes]
            for axis, length, goal in zip(axes, lengths, goals(lengths, roi, scales, sizes), strict=True):
                if not tf.is_tensor(goal.scale) and goal.scale == 1 and not cropped:
                    continue
                table = ResizeTable(goal, length, transformation)
                if table.unchanged and not cropped:
                    continue
                y = _applied(y, at(axis), table, site) if cropped else _changed(y, at(axis), table, site)
                beyond.append(tf.reshape(table.outside(), [-1 if a == at(axis) else 1 for a in range(rank)]))
            y = _narrowed(y, dtype)
            if cropped:
                for mask in beyond:
                    y = tf.where(mask, tf.cast(outside_value, y.dtype), y)
            return y

        return run

    return either(make)


def _changed(x: Any, axis: int, table: ResizeTable, site: Site) -> Any:
    """The resized tensor; the same one where only the run tells that nothing changes."""
    if table.known or not tf.is_tensor(table.goal.scale):
        return _applied(x, axis, table, site)
    unchanged = tf.logical_and(tf.equal(tf.cast(table.scale, tf.float64), 1), tf.equal(table.resized, table.length))
    return tf.cond(unchanged, lambda: tf.identity(x), lambda: _applied(x, axis, table, site))


def _narrowed(y: Any, dtype: np.dtype) -> Any:
    native = tf_dtype(dtype)
    if y.dtype != native and is_integer(dtype):
        y = tf.clip_by_value(y, float(np.iinfo(dtype).min), float(np.iinfo(dtype).max))
    return tf.cast(y, native)


def _dim(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


class ResizeTable:
    """Where the elements of one resized axis come from; in NumPy where its sizes are known, else in the graph.

    Args:
        goal: What is asked for.
        length: The elements before: a number or a tensor.
        transformation: ONNX's ``coordinate_transformation_mode``.
    """

    def __init__(self, goal: ResizeGoal, length: Any, transformation: str) -> None:
        self.goal, self.length, self.transformation = goal, length, transformation
        self.known = isinstance(length, int) and goal.known
        self.resized = self._scaled_length() if goal.size is None else goal.size
        self.scale = goal.scale if goal.scale is not None else self._ratio()
        self.xp: Any = np if self.known else tf

    def _scaled_length(self) -> Any:
        if self.known:
            return int(np.floor(np.float32(self.length) * np.float32(self.goal.scale)))
        return tf.cast(tf.floor(tf.cast(self.length, tf.float32) * tf.cast(self.goal.scale, tf.float32)), tf.int32)

    def _ratio(self) -> Any:
        if self.known:
            return self.resized / self.length if self.length else 1.0
        return tf.cast(self.resized, tf.float64) / tf.cast(self.length, tf.float64)

    @property
    def unchanged(self) -> bool:
        """Whether it is known that nothing is resized."""
        return self.known and self.length == self.resized and self.scale == 1

    def positions(self, dtype: Any) -> Any:
        """The coordinates, in the original tensor, of the resized axis's elements."""
        if self.known:
            return self._original(np.arange(self.resized, dtype=dtype), lambda v: np.asarray(v, dtype)[()])
        native = tf.as_dtype(dtype)
        return self._original(tf.cast(tf.range(self.resized), native), lambda v: tf.cast(v, native))

    def _original(self, x: Any, number: Callable[[Any], Any]) -> Any:
        half, n, m, scale = number(0.5), number(self.length), number(self.resized), number(self.scale)
        start, end, unit = number(self.goal.start), number(self.goal.end), number(1)
        single = self.xp.equal(m, unit)
        match self.transformation:
            case "asymmetric":
                return x / scale
            case "half_pixel":
                return (x + half) / scale - half
            case "pytorch_half_pixel":
                return self.xp.where(single, x * 0, (x + half) / scale - half)
            case "half_pixel_symmetric":
                return half * n * (unit - m / (n * scale)) + (x + half) / scale - half
            case "align_corners":
                return x * (n - unit) / self.xp.maximum(m - unit, unit)
            case _:
                along = start * (n - unit) + x * (end - start) * (n - unit) / self.xp.maximum(m - unit, unit)
                return self.xp.where(single, x * 0 + half * (start + end) * (n - unit), along)

    def outside(self) -> Any:
        """Which elements lie outside the original axis."""
        place = self.positions(np.float32)
        return (place < 0) | (place > self._number(place, self.length - 1))

    def _number(self, like: Any, value: Any) -> Any:
        return value if self.known else tf.cast(value, like.dtype)

    def nearest(self, rounding: str) -> Any:
        """The element nearest to each coordinate."""
        place = self.positions(np.float32)
        place = place.astype(np.float64) if self.known else tf.cast(place, tf.float64)
        floor, ceil = (np.floor, np.ceil) if self.known else (tf.floor, tf.math.ceil)
        chosen = {
            "round_prefer_floor": lambda: ceil(place - 0.5 - TIE),
            "round_prefer_ceil": lambda: floor(place + 0.5 + TIE),
            "floor": lambda: floor(place),
            "ceil": lambda: ceil(place),
        }[rounding]()
        whole = chosen.astype(np.int64) if self.known else tf.cast(chosen, tf.int32)
        return self.xp.minimum(self.xp.maximum(whole, 0), self.length - 1)

    def weighted(self, mode: str, dtype: Any, *, a: float, antialias: bool, exclude: bool) -> tuple[Any, Any]:
        """The elements around each coordinate, one row each, and their weights."""
        place, reach = self.positions(dtype), 1 if mode == "linear" else 2
        if self.known:
            stretch = max(1.0, 1.0 / self.scale) if antialias else 1.0
            radius = int(np.ceil(reach * stretch))
            taps = np.floor(place).astype(np.int64)[:, None] + np.arange(1 - radius, radius + 1)
            distance = np.abs(taps.astype(dtype) - place[:, None]) / np.asarray(stretch, dtype)
        else:
            stretch, radius = tf.ones([], place.dtype), reach
            if antialias:
                stretch = tf.maximum(stretch, 1 / tf.cast(self.scale, place.dtype))
                radius = tf.cast(tf.math.ceil(reach * stretch), tf.int32)
            taps = tf.cast(tf.floor(place), tf.int32)[:, None] + tf.range(1 - radius, radius + 1)
            distance = tf.abs(tf.cast(taps, place.dtype) - place[:, None]) / stretch
        weights = self.xp.maximum(1 - distance, 0) if mode == "linear" else self._cubic(distance, a)
        inside = self.xp.minimum(self.xp.maximum(taps, 0), self.length - 1)
        if exclude:
            weights = self.xp.where(self.xp.equal(taps, inside), weights, weights * 0)
        if exclude or antialias:
            total = weights.sum(1, keepdims=True) if self.known else tf.reduce_sum(weights, 1, keepdims=True)
            weights = weights / total
        return inside, weights

    def _cubic(self, t: Any, a: float) -> Any:
        near = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        return self.xp.where(t <= 1, near, self.xp.where(t < 2, far, t * 0))


def _applied(x: Any, axis: int, table: ResizeTable, site: Site) -> Any:
    mode = site.attribute("mode", "nearest")
    if mode == "nearest":
        return tf.gather(x, table.nearest(site.attribute("nearest_mode", "round_prefer_floor")), axis=axis)
    taps, weights = table.weighted(
        mode,
        x.dtype.as_numpy_dtype,
        a=site.attribute("cubic_coeff_a", -0.75),
        antialias=bool(site.attribute("antialias", 0)),
        exclude=bool(site.attribute("exclude_outside", 0)),
    )
    if taps.shape[1] is None or taps.shape[1] > MANY:
        matrix = _matrix(table, taps, weights)
        rank = x.shape.rank
        moved = tf.tensordot(x, matrix, [[axis], [0]])
        order = list(range(rank - 1))
        order.insert(axis, rank - 1)
        return tf.transpose(moved, order)
    shape = [-1 if a == axis else 1 for a in range(x.shape.rank)]
    terms = [tf.gather(x, taps[:, k], axis=axis) * tf.reshape(weights[:, k], shape) for k in range(taps.shape[1])]
    return tf.add_n(terms)


def _matrix(table: ResizeTable, taps: Any, weights: Any) -> Any:
    """The weight of each element (a row) in each resized one (a column)."""
    if table.known:
        matrix = np.zeros((table.length, table.resized), weights.dtype)
        np.add.at(matrix, (taps, np.arange(table.resized)[:, None]), weights)
        return tf.constant(matrix)
    columns = tf.broadcast_to(tf.range(table.resized)[:, None], tf.shape(taps))
    return tf.scatter_nd(tf.stack([taps, columns], -1), weights, [table.length, table.resized])


CUBIC_COEFFICIENT = -0.75
"""Of cubic convolution, as ONNX has it."""


def AffineGrid(site: Site) -> Callable[..., Any]:
    """A grid of places from -1 to 1, each transformed by a matrix."""
    corners, constant, n = site.attribute("align_corners", 0), site.constant(1), dims_of(site)[1]
    if n is None:
        raise NotNative("the number of axes is not known when the network is prepared")

    def run(theta: Any, size: Any) -> Any:
        sizes = [int(s) for s in constant[2:]] if constant is not None else tf.unstack(tf.cast(size[2:], tf.int32), n)
        ticks = [tf.cast(_grid_ticks(s, corners), theta.dtype) for s in sizes]
        places = [tf.reshape(t, [-1]) for t in reversed(tf.meshgrid(*ticks, indexing="ij"))]
        grid = tf.matmul(tf.stack([*places, tf.ones_like(places[0])], -1), theta, transpose_b=True)
        return tf.reshape(grid, tf.stack([tf.shape(theta)[0], *sizes, n]))

    return in_float(run, dtype_of(site))


def _grid_ticks(size: Any, corners: int) -> Any:
    steps = tf.cast(tf.range(size), tf.float64)
    count = tf.cast(size, tf.float64)
    if not corners:
        return (2 * steps + 1) / count - 1
    return tf.where(count > 1, 2 * steps / tf.maximum(count - 1, 1) - 1, 0)


def GridSample(site: Site) -> Callable[..., Any]:
    """Each element from the neighbours of the place that a grid gives, in coordinates from -1 to 1."""
    mode, outside = site.attribute("mode", "linear"), site.attribute("padding_mode", "zeros")
    corners, n, dtype = site.attribute("align_corners", 0), rank_of(site) - 2, dtype_of(site)
    if mode != "nearest" and not is_float(dtype):
        raise NotNative(f"TensorFlow does not interpolate {dtype}")
    native, wide = tf_dtype(dtype), tf_dtype(np.result_type(dtype_of(site, 1), np.float32))
    inner = native if mode == "nearest" else tf.float64 if tf.float64 in (native, wide) else tf.float32

    def run(x: Any, grid: Any) -> Any:
        sizes = [tf.shape(x)[i + 1] for i in range(n)]
        flat = tf.reshape(tf.cast(x, inner), tf.stack([tf.shape(x)[0], -1, tf.shape(x)[-1]]))
        axes = []
        for i, size in enumerate(sizes):
            length, at = tf.cast(size, wide), tf.cast(grid[..., n - 1 - i], wide) + 1
            place = at / 2 * (length - 1) if corners else (at * length - 1) / 2
            axes.append([(*_sample_index(t, size), w) for t, w in _sample_taps(place, length, mode, outside, corners)])
        total = None
        for parts in product(*axes):
            samples = tf.gather(flat, _combine_taps(parts, sizes), batch_dims=1)
            if outside == "zeros":
                samples = tf.where(reduce(tf.logical_and, [p[1] for p in parts])[..., None], samples, tf.zeros([], inner))
            if mode == "nearest":
                return samples
            term = tf.cast(reduce(tf.multiply, [p[2] for p in parts]), inner)[..., None] * samples
            total = term if total is None else total + term
        return tf.cast(total, native)

    return channels_last(run)


def _combine_taps(parts: Sequence[tuple[Any, Any, Any]], sizes: Sequence[Any]) -> Any:
    """Where an element lies among all of a picture."""
    place = parts[0][0]
    for (index, *_), size in zip(parts[1:], sizes[1:], strict=True):
        place = place * size + index
    return place


def _sample_taps(place: Any, length: Any, mode: str, outside: str, corners: int) -> list[tuple[Any, Any]]:
    """The whole coordinates around a place along an axis, each with its weight."""
    reflected = outside == "reflection"
    if mode == "nearest":
        return [(tf.round(_reflect(place, length, corners) if reflected else place), None)]
    low, reach = tf.floor(place), 1 if mode == "linear" else 2
    taps = []
    for step in range(1 - reach, reach + 1):
        tap = low + step
        distance = tf.abs(tap - place)
        if mode != "linear":
            weight = _cubic_weights(distance)
        elif differentiating():  # of 1 - distance TensorFlow takes no slope where a place is an element's own
            weight = (1 - (place - low), place - low)[step]
        else:
            weight = tf.maximum(1 - distance, 0)
        taps.append((tf.round(_reflect(tap, length, corners)) if reflected else tap, weight))
    return taps


def _cubic_weights(t: Any) -> Any:
    """The kernel of cubic convolution."""
    a = CUBIC_COEFFICIENT
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return tf.where(t <= 1, near, tf.where(t < 2, far, tf.where(tf.math.is_nan(t), t, tf.zeros_like(t))))


def _reflect(place: Any, length: Any, corners: int) -> Any:
    """A place mirrored at the outermost centres or edges until it is inside."""
    edge = 0.0 if corners else 0.5
    span = length - 1 + 2 * edge
    distance = tf.math.floormod(place + edge, tf.maximum(2 * span, 1))
    return tf.minimum(distance, 2 * span - distance) - edge


def _sample_index(place: Any, size: Any) -> tuple[Any, Any]:
    """A whole coordinate as an index inside an axis, and whether it was inside."""
    near = tf.clip_by_value(place, tf.zeros([], place.dtype), tf.cast(size - 1, place.dtype))
    # What is no number becomes an arbitrary index, which is brought inside once more.
    return tf.clip_by_value(tf.cast(near, tf.int32), 0, size - 1), tf.equal(place, near)


def NonMaxSuppression(site: Site) -> Callable[..., Any]:
    """For each image and class, boxes by falling score, without those that overlap a chosen one too much."""
    centred = site.attribute("center_point_box", 0)

    def run(boxes: Any, scores: Any, limit: Any = None, overlap: Any = None, least: Any = None) -> Any:
        if centred:
            middle, half = boxes[..., :2], boxes[..., 2:] / 2
            boxes = tf.concat([middle - half, middle + half], -1)
        shape = tf.shape(scores)
        labels = shape[1]
        most = tf.zeros([], tf.int64) if limit is None else tf.cast(tf.reshape(limit, []), tf.int64)
        most = tf.cast(tf.clip_by_value(most, 0, tf.cast(shape[2], tf.int64)), tf.int32)
        share = tf.zeros([], scores.dtype) if overlap is None else tf.reshape(overlap, [])
        threshold = tf.constant(float("-inf"), scores.dtype) if least is None else tf.reshape(least, [])
        flat = tf.reshape(scores, [-1, shape[2]])

        def step(i: Any, found: Any) -> Any:
            image, label = i // labels, i % labels
            selected = tf.raw_ops.NonMaxSuppressionV3(
                boxes=boxes[image], scores=flat[i], max_output_size=most, iou_threshold=share, score_threshold=threshold
            )
            rows = tf.stack([tf.fill(tf.shape(selected), image), tf.fill(tf.shape(selected), label), selected], 1)
            return i + 1, found.write(i, rows)

        count = shape[0] * labels
        store = tf.TensorArray(tf.int32, count, infer_shape=False, element_shape=tf.TensorShape([None, 3]))
        _, selections = tf.while_loop(lambda i, _: i < count, step, (tf.constant(0), store))
        return tf.cast(tf.reshape(selections.concat(), [-1, 3]), tf.int64)

    return run


def RoiAlign(site: Site) -> Callable[..., Any]:
    """Each region divided into bins; a bin is the mean (or maximum) of bilinear samples on a regular grid in it."""
    mode, native = site.attribute("mode", "avg"), tf_dtype(dtype_of(site))
    pixel = site.attribute("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    bins = (site.attribute("output_height", 1), site.attribute("output_width", 1))
    ratio, scale = site.attribute("sampling_ratio", 0), site.attribute("spatial_scale", 1.0)
    inner = tf.float32 if dtype_of(site) in HALF else native
    if mode not in ("avg", "max"):
        raise NotNative(f"TensorFlow has no code for the mode {mode!r}")

    def run(x: Any, rois: Any, images: Any) -> Any:
        x, edges = tf.cast(x, inner), tf.cast(rois, inner) * scale - (0.5 if pixel else 0)
        height, width = tf.shape(x)[1], tf.shape(x)[2]
        rows, rows_used = _roi_samples(edges[:, 1], edges[:, 3], bins[0], ratio, height, pixel)
        columns, columns_used = _roi_samples(edges[:, 0], edges[:, 2], bins[1], ratio, width, pixel)
        flat, start = tf.reshape(x, [-1, tf.shape(x)[3]]), tf.reshape(tf.cast(images, tf.int32), [-1, 1, 1]) * height * width
        total: Any = None
        for (row, row_weight), (column, column_weight) in product(rows, columns):
            samples = tf.gather(flat, _outer(start + row * width, column, tf.add))
            term = _outer(row_weight, column_weight, tf.multiply)[..., None] * samples
            total = term if total is None else tf.maximum(total, term) if mode == "max" else total + term
        return tf.cast(_pool_roi(total, _outer(rows_used, columns_used, tf.logical_and)[..., None], mode), native)

    return channels_last(run)


def _roi_samples(start: Any, end: Any, bins: int, ratio: int, size: Any, pixel: bool) -> tuple[list[tuple[Any, Any]], Any]:
    """For each sample of each bin along an axis, the two elements next to it with their weights; and whether it is used.

    Where the number of samples is left to a region's size, each region has as many as the largest one, and uses its own.
    """
    step = (end - start if pixel else tf.maximum(end - start, 1)) / bins
    adaptive = tf.maximum(tf.cast(tf.math.ceil(tf.cast(step, tf.float32)), tf.int32), 0)
    samples = tf.fill(tf.shape(step), ratio) if ratio > 0 else adaptive
    most = tf.constant(ratio) if ratio > 0 else tf.reduce_max(tf.concat([samples, [0]], 0))
    counts = tf.cast(tf.maximum(samples, 1), step.dtype)[:, None]
    offset = (tf.cast(tf.range(most), step.dtype) + 0.5) / counts
    place = start[:, None, None] + step[:, None, None] * (
        tf.reshape(tf.range(bins, dtype=step.dtype), [1, -1, 1]) + offset[:, None, :]
    )
    length, none = tf.cast(size, step.dtype), tf.zeros([], step.dtype)
    valid = (place >= -1) & (place <= length)
    place = tf.clip_by_value(place, none, length - 1)
    low = tf.floor(place)
    if differentiating():  # the last element as the end of a stretch, where the slope is that from inside
        low = tf.minimum(low, tf.maximum(length - 2, none))
    part = place - low
    taps = [tf.clip_by_value(tf.cast(low, tf.int32) + i, 0, size - 1) for i in range(2)]
    weights = [tf.where(valid, w, none) for w in (1 - part, part)]
    used = (tf.range(most) < samples[:, None])[:, None, :]
    return list(zip(taps, weights, strict=True)), tf.broadcast_to(used, tf.shape(place))


def _outer(a: Any, b: Any, function: Callable[[Any, Any], Any]) -> Any:
    """A function of what belongs to the rows and to the columns, for all pairs."""
    return function(a[:, :, :, None, None], b[:, None, None, :, :])


def _roi_maximum(x: Any) -> Any:
    """The largest sample of each bin; the first one of several alone has the gradient, as of every pool."""
    if not differentiating():
        return tf.reduce_max(x, [2, 4])
    samples = tf.transpose(x, [0, 1, 3, 5, 2, 4])
    flat = tf.reshape(samples, tf.concat([tf.shape(samples)[:4], [-1]], 0))
    one_more = tf.pad(flat, [(0, 0)] * 4 + [(0, 1)], constant_values=tf.constant(float("-inf"), x.dtype))
    return tf.gather(one_more, tf.argmax(one_more, -1), batch_dims=4)


def _pool_roi(total: Any, used: Any, mode: str) -> Any:
    if mode == "max":
        lowest = tf.constant(float("-inf"), total.dtype)
        most = _roi_maximum(tf.where(used, total, lowest))
        return tf.where(tf.reduce_any(used, [2, 4]), most, tf.zeros([], total.dtype))
    count = tf.reduce_sum(tf.cast(used, total.dtype), [2, 4])
    return tf.reduce_sum(tf.where(used, total, tf.zeros([], total.dtype)), [2, 4]) / tf.maximum(count, 1)
