"""Convolutions, channels-last, with filters transposed once when the network is prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.known import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.differentiation import differentiating
from deep_bench.adapters.tensorflow.layout import channels_last, on_values
from deep_bench.adapters.tensorflow.operators._common import HALF, tf_dtype
from deep_bench.adapters.tensorflow.operators._spatial import Window, pad, pad_pairs, spatial_rank, window
from deep_bench.graph.windows import same_padding
from deep_bench.tensor import is_float

__all__ = ["Conv", "ConvInteger", "ConvTranspose"]


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


def _convolution(w: Window, n: int, group: int) -> Callable[[Any, Any], Any]:
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


def _is_same(x: Any, pairs: Sequence[Any], w: Window) -> bool:
    """Whether pads are those that TensorFlow calls ``SAME``."""
    if w.begin is None or (max(w.strides) > 1 and None in x.shape[1:-1]):
        return False
    axes = zip(x.shape[1:-1], w.reach, w.strides, pairs, strict=True)
    # With a stride of one they do not depend on the size.
    return all(same_padding(n or 1, reach, stride, upper=True) == tuple(pair) for n, reach, stride, pair in axes)


def _conv3d(x: Any, f: Any, w: Window) -> Any:
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


def _depthwise(w: Window, shape: tuple[int, ...], n: int, channels: int, inner: tf.DType) -> Callable[..., Any]:
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
    w = Window(
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


def _transposed_pads(site: Site, w: Window, extra: tuple[int, ...]) -> Callable[[Any], tuple[Any, Any]]:
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


def _spread(x: Any, f: Any, w: Window, n: int) -> Any:
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
