"""Convolutions, channels-last, with filters transposed once when the network is prepared.

Col2Im adds up a convolution's columns in an image; the windows of DeformConv are bent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.graph import differentiating
from deep_bench.adapters.tensorflow.layout import channels_last, on_values
from deep_bench.adapters.tensorflow.operators._site import (
    HALF,
    SpatialWindow,
    in_float,
    pad,
    pad_pairs,
    spatial_rank,
    tf_dtype,
    window,
)
from deep_bench.graph.shapes import same_padding
from deep_bench.tensor import is_float

__all__ = ["Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DeformConv"]


def Conv(site: Site) -> Callable[..., Any]:
    """Convolution over one to three spatial axes, with groups, strides, dilations and pads."""
    n = spatial_rank(rank_of(site, 1), "convolution")
    tf_dtype(dtype_of(site))
    if not is_float(dtype_of(site)):
        raise NotNative("TensorFlow convolves floats only")
    shape = _filter_shape(site)
    dims = site.inputs[0].shape if site.inputs[0] is not None and site.inputs[0].shape is not None else (None,) * (n + 2)
    w = window(site, shape[2:], dims[2:])
    group = site.attribute("group", 1)
    channels = dims[1] or shape[1] * group
    depthwise = n <= 2 and group > 1 and shape[1] == 1 and channels == group and len(set(w.strides)) == 1
    if depthwise:
        return _depthwise(w, shape, n, channels, tf.float32 if dtype_of(site) in HALF else tf_dtype(dtype_of(site)))
    convolve = _convolution(w, n, group)
    return channels_last(lambda x, f, b=None: _biased(_of_any_batch(convolve, x, f), b), {1: (*range(2, n + 2), 1, 0)})


def _of_any_batch(convolve: Callable[[Any, Any], Any], x: Any, f: Any) -> Any:
    """TensorFlow's convolution of an empty batch has its input's shape: none of a batch of one has the right one."""
    if x.shape[0] == 0:
        return convolve(tf.zeros([1, *x.shape[1:]], x.dtype), f)[:0]
    return convolve(x, f)


def _filter_shape(site: Site) -> tuple[int, ...]:
    shape = dims_of(site, 1)
    kernel = site.attribute("kernel_shape")
    dims = shape if kernel is None else (*shape[:2], *kernel)
    if any(d is None for d in dims):
        raise NotNative("the size of the filter is not known when the network is prepared")
    return tuple(int(d or 0) for d in dims)


def _biased(y: Any, bias: Any) -> Any:
    return y if bias is None else tf.nn.bias_add(y, bias)


def _convolution(w: SpatialWindow, n: int, group: int) -> Callable[[Any, Any], Any]:
    if n == 3:
        return lambda x, f: _grouped(lambda a, b: _conv3d(a, b, w), x, f, group)
    strides, plain = (1,) * (2 - n) + w.strides, (1,) * 2
    dilations = (1,) * (2 - n) + w.dilations

    def run(x: Any, f: Any) -> Any:
        if differentiating() and (group > 1 or max(w.dilations) > 1):  # TensorFlow's CPU kernels have no such gradients
            return _grouped(lambda a, b: convolved(a, b, plain), x, dilated(f, w.dilations), group)
        return convolved(x, f, dilations)

    def convolved(x: Any, f: Any, dilations: tuple[int, ...]) -> Any:
        padding: Any
        pairs = pad_pairs(w, x)
        # With explicit pads the gradients take half as long again.
        if differentiating() and w.padded and _is_same(x, pairs, w):
            padding = "SAME"
        elif differentiating() or w.begin is None or min(p for pair in pairs for p in pair) < 0:
            x, padding = pad(x, pairs), "VALID"
        else:
            padding = [(0, 0), *[(0, 0)] * (2 - n), *pairs, (0, 0)] if w.padded else "VALID"
        if n == 1:
            y = tf.nn.conv2d(tf.expand_dims(x, 1), tf.expand_dims(f, 0), strides, padding, dilations=dilations)
            return tf.squeeze(y, [1])
        return tf.nn.conv2d(x, f, strides, padding, dilations=dilations)

    return run


def _is_same(x: Any, pairs: Sequence[Any], w: SpatialWindow) -> bool:
    """Whether pads are those that TensorFlow calls ``SAME``."""
    if w.begin is None or (max(w.strides) > 1 and None in x.shape[1:-1]):
        return False
    axes = zip(x.shape[1:-1], w.reach, w.strides, pairs, strict=True)
    # With a stride of one they do not depend on the size.
    return all(same_padding(n or 1, reach, stride, upper=True) == tuple(pair) for n, reach, stride, pair in axes)


def _conv3d(x: Any, f: Any, w: SpatialWindow) -> Any:
    x = pad(x, pad_pairs(w, x))
    return tf.nn.conv3d(x, dilated(f, w.dilations), (1, *w.strides, 1), "VALID")


def dilated(f: Any, dilations: tuple[int, ...]) -> Any:
    """A filter with zeros between its elements, which convolves as the dilated filter does."""
    for axis, d in enumerate(dilations):
        if d > 1 and f.shape[axis] > 1:
            spread = tf.expand_dims(f, axis + 1)
            pads = [(0, 0)] * spread.shape.rank
            pads[axis + 1] = (0, d - 1)
            shape = f.shape.as_list()
            shape[axis] *= d
            f = tf.reshape(tf.pad(spread, pads), shape)
            f = tf.gather(f, range(shape[axis] - d + 1), axis=axis)
    return f


def _grouped(convolve: Callable[[Any, Any], Any], x: Any, f: Any, group: int) -> Any:
    """Each group of channels with its own filters (which lie along the last axis)."""
    if group == 1:
        return convolve(x, f)
    parts = zip(tf.split(x, group, -1), tf.split(f, group, -1), strict=True)
    return tf.concat([convolve(a, b) for a, b in parts], -1)


def _depthwise(w: SpatialWindow, shape: tuple[int, ...], n: int, channels: int, inner: tf.DType) -> Callable[..., Any]:
    """One filter or several for each channel alone, computed in ``inner``: the kernel adds 16-bit floats up in 16 bits."""
    stride, dilations = w.strides[0], (1,) * (2 - n) + w.dilations
    centred = stride == 1 and all(r % 2 for r in w.reach)

    def run(x: Any, f: Any, b: Any = None) -> Any:
        native = x.dtype
        x, f = tf.cast(x, inner), tf.cast(f, inner)
        if n == 1:
            x, f = tf.expand_dims(x, 1), tf.expand_dims(f, 0)
        # TensorFlow 2.21's graph optimiser aborts the process on explicit pads of depthwise convolutions.
        pairs = [*[(0, 0)] * (2 - n), *pad_pairs(w, x if n == 2 else tf.squeeze(x, [1]))]
        same_padding = centred and pairs == [*[(0, 0)] * (2 - n), *((r // 2, r // 2) for r in w.reach)]
        x = x if same_padding else pad(x, pairs)
        if max(dilations) > 1 and stride > 1:
            f, step = dilated(f, dilations), None
        else:
            step = dilations if max(dilations) > 1 else None
        padding = "SAME" if same_padding else "VALID"
        y = _of_any_batch(lambda a, k: tf.nn.depthwise_conv2d(a, k, (1, stride, stride, 1), padding, dilations=step), x, f)
        return _biased(tf.cast(tf.squeeze(y, [1]) if n == 1 else y, native), b)

    apart = (channels, shape[0] // channels, *shape[2:])
    return channels_last(run, {1: (*range(2, n + 2), 0, 1)}, shapes={1: apart})


def ConvTranspose(site: Site) -> Callable[..., Any]:
    """Transposed convolution, with groups, output padding and output shape."""
    n = spatial_rank(rank_of(site), "transposed convolution")
    if not is_float(dtype_of(site)):
        raise NotNative("TensorFlow convolves floats only")
    tf_dtype(dtype_of(site))
    shape = _filter_shape(site)
    w = SpatialWindow(
        shape[2:], tuple(site.attribute("strides") or (1,) * n), tuple(site.attribute("dilations") or (1,) * n), None, None
    )
    extra = tuple(site.attribute("output_padding") or (0,) * n)
    group = site.attribute("group", 1)
    pads = _transposed_pads(site, w, extra)

    def transposed_convolution(x: Any, f: Any) -> Any:
        return _spread(x, f, w, n)

    def run(x: Any, f: Any, b: Any = None) -> Any:
        y = _grouped(transposed_convolution, x, f, group)
        begin, end = pads(x)
        y = pad(y, [(-a, e - c) for a, e, c in zip(begin, extra, end, strict=True)])
        return _biased(y, b)

    return channels_last(run, {1: (*range(2, n + 2), 1, 0)})


def _transposed_pads(site: Site, w: SpatialWindow, extra: tuple[int, ...]) -> Callable[[Any], tuple[Any, Any]]:
    n, mode, output_shape = len(extra), site.attribute("auto_pad", "NOTSET"), site.attribute("output_shape")
    if output_shape is None and mode in ("NOTSET", "VALID"):
        pads = tuple(site.attribute("pads") or (0,) * (2 * n)) if mode == "NOTSET" else (0,) * (2 * n)
        return lambda _: (pads[:n], pads[n:])
    sizes = dims_of(site)[2:]
    if any(s is None for s in sizes):
        raise NotNative("the pads depend on sizes that are not known when the network is prepared")
    goal = (
        tuple(output_shape)[-n:]
        if output_shape is not None
        else tuple(int(s or 0) * t for s, t in zip(sizes, w.strides, strict=True))
    )
    parts = zip(sizes, w.strides, extra, w.reach, goal, strict=True)
    totals = [t * (int(s or 0) - 1) + e + r - g for s, t, e, r, g in parts]
    less, larger = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return lambda _: (less, larger) if mode == "SAME_UPPER" else (larger, less)


def _spread(x: Any, f: Any, w: SpatialWindow, n: int) -> Any:
    """Every element of ``x`` spread over its window: the full output, before any pad is cut off."""
    f = dilated(f, w.dilations)
    batch, channels = tf.shape(x)[0], f.shape[-2]
    full = [(_dim(x, i + 1) - 1) * t + r for i, (t, r) in enumerate(zip(w.strides, w.reach, strict=True))]
    if n == 3:
        return tf.nn.conv3d_transpose(x, f, tf.stack([batch, *full, channels]), (1, *w.strides, 1), "VALID")
    if n == 2:
        return tf.nn.conv2d_transpose(x, f, tf.stack([batch, *full, channels]), w.strides, "VALID")
    shape = tf.stack([batch, 1, *full, channels])
    y = tf.nn.conv2d_transpose(tf.expand_dims(x, 1), tf.expand_dims(f, 0), shape, (1, *w.strides), "VALID")
    return tf.squeeze(y, [1])


def _dim(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def ConvInteger(site: Site) -> Callable[..., Any]:
    """Convolution of 8-bit integers less their zero points, in int32; computed in float64, which is exact for them."""
    n = spatial_rank(rank_of(site), "convolution")
    shape = _filter_shape(site)
    if int(np.prod(shape[1:])) * 2**18 > 2**53:
        raise NotNative("the sums might not be exact in float64")
    w, group = window(site, shape[2:], dims_of(site)[2:]), site.attribute("group", 1)
    inner = _convolution(w, n, group)
    convolve = channels_last(lambda x, f: _of_any_batch(inner, x, f), {1: (*range(2, n + 2), 1, 0)})

    @on_values
    def run(x: Any, f: Any, zero_x: Any = None, zero_f: Any = None) -> Any:
        from deep_bench.adapters.tensorflow.layout import Value

        a, b = (tf.cast(v.first, tf.float64) for v in (x, f))
        if zero_x is not None:
            a = a - tf.cast(zero_x.first, tf.float64)
        if zero_f is not None:
            zero = tf.cast(zero_f.first, tf.float64)
            b = b - tf.reshape(zero, [-1] + [1] * (n + 1))
        (y,) = convolve(Value(a), Value(b))
        return (Value(tf.cast(y.tensor, tf.int32), last=True),)

    return run


def _column_numbers(site: Site, index: int, value: Any, count: int) -> list[Any]:
    """Integers that are given as a tensor: plain ones if they are known."""
    constant = site.constant(index)
    return [int(v) for v in constant] if constant is not None else tf.unstack(tf.cast(value, tf.int32), count)


def _column_steps(site: Site, n: int) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Strides, dilations and pads."""
    strides, dilations = site.attribute("strides") or (1,) * n, site.attribute("dilations") or (1,) * n
    return strides, dilations, site.attribute("pads") or (0,) * (2 * n)


def Col2Im(site: Site) -> Callable[..., Any]:
    """Blocks put back where they lie in an image, added where they overlap."""
    n = dims_of(site, 1)[0]
    if n is None:
        raise NotNative("the number of axes is not known when the network is prepared")
    strides, dilations, pads = _column_steps(site, n)
    tf_dtype(dtype_of(site))

    def run(x: Any, image_shape: Any, block_shape: Any) -> Any:
        image, block = _column_numbers(site, 1, image_shape, n), _column_numbers(site, 2, block_shape, n)
        padded = [image[i] + pads[i] + pads[n + i] for i in range(n)]
        place: Any = tf.zeros([1] * (2 * n), tf.int32)
        for i in range(n):
            count = (padded[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
            inside = tf.reshape(tf.range(block[i]) * dilations[i], [-1 if a == i else 1 for a in range(2 * n)])
            start = tf.reshape(tf.range(count) * strides[i], [-1 if a == n + i else 1 for a in range(2 * n)])
            place = place * padded[i] + inside + start
        positions = tf.reduce_prod(tf.stack(block))
        batch, channels = tf.shape(x)[0], tf.shape(x)[1] // positions
        columns = tf.transpose(tf.reshape(x, tf.stack([batch * channels, positions * tf.shape(x)[2]])))
        total = tf.math.unsorted_segment_sum(columns, tf.reshape(place, [-1]), tf.reduce_prod(tf.stack(padded)))
        y = tf.reshape(tf.transpose(total), tf.stack([batch, channels, *padded]))
        return y[(slice(None), slice(None), *(slice(pads[i], pads[i] + image[i]) for i in range(n)))]

    return in_float(run, dtype_of(site))


def DeformConv(site: Site) -> Callable[..., Any]:
    """A convolution whose windows' elements are each moved by an offset and weighed by a mask."""
    n, shape = rank_of(site) - 2, dims_of(site, 1)
    if None in shape:
        raise NotNative("the size of the filter is not known when the network is prepared")
    kernel = [int(d or 0) for d in shape[2:]]
    strides, dilations, pads = _column_steps(site, n)
    group, parts, positions = site.attribute("group", 1), site.attribute("offset_group", 1), int(np.prod(kernel))
    inside = np.stack([k.reshape(-1) for k in np.meshgrid(*map(np.arange, kernel), indexing="ij")], 1) * np.array(dilations)

    native = tf_dtype(dtype_of(site))
    inner = tf.float32 if dtype_of(site) in HALF else native

    def run(*tensors: Any) -> Any:
        return tf.cast(convolve(*(None if t is None else tf.cast(t, inner) for t in tensors)), native)

    def convolve(x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
        batch = tf.shape(x)[0]
        out = tf.unstack(tf.shape(offset)[2:], n)
        cells = tf.reduce_prod(tf.stack(out))
        moved = tf.reshape(offset, tf.stack([batch, parts, positions, n, *out]))
        places = []
        for i in range(n):
            start = tf.reshape(tf.range(out[i]) * strides[i] - pads[i], [-1 if a == i + 1 else 1 for a in range(n + 1)])
            grid = tf.cast(start + inside[:, i].reshape(-1, *[1] * n), x.dtype)
            places.append(tf.reshape(moved[:, :, :, i] + grid, tf.stack([batch, parts, positions * cells])))
        columns = _sampled(x, places, parts)
        if mask is not None:
            columns = columns * tf.reshape(mask, tf.stack([batch, parts, positions * cells, 1]))
        columns = tf.reshape(tf.transpose(columns, [0, 1, 3, 2]), tf.stack([batch, group, -1, cells]))
        filters = tf.reshape(w, [group, (shape[0] or 0) // group, -1])
        y = tf.reshape(tf.matmul(filters, columns), tf.stack([batch, shape[0] or 0, *out]))
        return y if bias is None else y + tf.reshape(bias, [-1] + [1] * n)

    return run


def _sampled(x: Any, places: Sequence[Any], parts: int) -> Any:
    """Elements between those of a tensor, interpolated along each axis, zero outside: one row of channels for each place."""
    n, sizes = len(places), tf.unstack(tf.shape(x)[2:], len(places))
    flat = tf.reshape(x, tf.stack([tf.shape(x)[0], parts, tf.shape(x)[1] // parts, tf.reduce_prod(tf.stack(sizes))]))
    rows = tf.transpose(flat, [0, 1, 3, 2])
    lows = [tf.floor(p) for p in places]
    total: Any = None
    for corner in product((0, 1), repeat=n):
        weight, index, valid = tf.ones([], x.dtype), tf.zeros([], tf.int32), tf.constant(True)
        for place, low, step, size in zip(places, lows, corner, sizes, strict=True):
            at = low + step
            if differentiating():  # of 1 - |place - at| TensorFlow takes no slope where a place is an element's own
                weight = weight * (place - low if step else 1 - (place - low))
            else:
                weight = weight * (1 - tf.abs(place - at))
            valid = valid & (at >= 0) & (at < tf.cast(size, at.dtype))
            near = tf.clip_by_value(at, tf.zeros([], at.dtype), tf.cast(size - 1, at.dtype))
            index = index * size + tf.clip_by_value(tf.cast(near, tf.int32), 0, size - 1)
        term = tf.where(valid, weight, tf.zeros([], x.dtype))[..., None] * tf.gather(rows, index, batch_dims=2)
        total = term if total is None else total + term
    return total
