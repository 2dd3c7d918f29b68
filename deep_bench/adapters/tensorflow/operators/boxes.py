"""Boxes in pictures: their suppression, and what is pooled in them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dtype_of
from deep_bench.adapters.tensorflow.differentiation import differentiating
from deep_bench.adapters.tensorflow.layout import channels_last
from deep_bench.adapters.tensorflow.operators._common import HALF, tf_dtype

__all__ = ["NonMaxSuppression", "RoiAlign"]


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
        rows, rows_used = _samples(edges[:, 1], edges[:, 3], bins[0], ratio, height, pixel)
        columns, columns_used = _samples(edges[:, 0], edges[:, 2], bins[1], ratio, width, pixel)
        flat, start = tf.reshape(x, [-1, tf.shape(x)[3]]), tf.reshape(tf.cast(images, tf.int32), [-1, 1, 1]) * height * width
        total: Any = None
        for (row, row_weight), (column, column_weight) in product(rows, columns):
            samples = tf.gather(flat, _crossed(start + row * width, column, tf.add))
            term = _crossed(row_weight, column_weight, tf.multiply)[..., None] * samples
            total = term if total is None else tf.maximum(total, term) if mode == "max" else total + term
        return tf.cast(_pooled(total, _crossed(rows_used, columns_used, tf.logical_and)[..., None], mode), native)

    return channels_last(run)


def _samples(start: Any, end: Any, bins: int, ratio: int, size: Any, pixel: bool) -> tuple[list[tuple[Any, Any]], Any]:
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


def _crossed(a: Any, b: Any, function: Callable[[Any, Any], Any]) -> Any:
    """A function of what belongs to the rows and to the columns, for all pairs."""
    return function(a[:, :, :, None, None], b[:, None, None, :, :])


def _maximum(x: Any) -> Any:
    """The largest sample of each bin; the first one of several alone has the gradient, as of every pool."""
    if not differentiating():
        return tf.reduce_max(x, [2, 4])
    samples = tf.transpose(x, [0, 1, 3, 5, 2, 4])
    flat = tf.reshape(samples, tf.concat([tf.shape(samples)[:4], [-1]], 0))
    one_more = tf.pad(flat, [(0, 0)] * 4 + [(0, 1)], constant_values=tf.constant(float("-inf"), x.dtype))
    return tf.gather(one_more, tf.argmax(one_more, -1), batch_dims=4)


def _pooled(total: Any, used: Any, mode: str) -> Any:
    if mode == "max":
        lowest = tf.constant(float("-inf"), total.dtype)
        most = _maximum(tf.where(used, total, lowest))
        return tf.where(tf.reduce_any(used, [2, 4]), most, tf.zeros([], total.dtype))
    count = tf.reduce_sum(tf.cast(used, total.dtype), [2, 4])
    return tf.reduce_sum(tf.where(used, total, tf.zeros([], total.dtype)), [2, 4]) / tf.maximum(count, 1)
