"""What builders of all families read from a site, in the terms of TensorFlow: element types, padding, windows.

Arithmetic is wider where TensorFlow has no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dtype_of
from deep_bench.adapters.tensorflow.graph import differentiating, with_gradient
from deep_bench.adapters.tensorflow.layout import elementwise
from deep_bench.graph.shapes import same_padding, span, split_padding

HALF = (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16))

_WIDER = {
    "bool": tf.int32,
    "int8": tf.int32,
    "uint8": tf.int32,
    "int16": tf.int32,
    "uint16": tf.int32,
    "int32": tf.int64,
    "uint32": tf.int64,
    "float16": tf.float32,
    "bfloat16": tf.float32,
}


def tf_dtype(dtype: np.dtype | None) -> tf.DType:
    """TensorFlow's name for an element type.

    Raises:
        NotNative: TensorFlow has no such type, or the type is not known.
    """
    if dtype is None:
        raise NotNative("the element type is not known when the network is prepared")
    if dtype.kind == "O":
        return tf.string
    try:
        return tf.as_dtype(dtype)
    except TypeError as error:
        raise NotNative(f"TensorFlow has no element type {dtype}") from error


def maybe_rank(site: Site, index: int = 0) -> int | None:
    """The rank of an input, if it is known."""
    slot = site.input(index)
    return None if slot is None else slot.rank


@cache
def computes(function: Callable[..., Any], dtype: tf.DType, arity: int) -> bool:
    """Whether TensorFlow has a kernel for a function on this element type, found out by calling it once."""
    try:
        with tf.init_scope(), tf.device("CPU:0"):
            plain = dtype in (tf.bool, tf.string)
            function(*(tf.zeros([1], dtype) if plain else tf.cast(tf.ones([1]), dtype) for _ in range(arity)))
    except (tf.errors.OpError, TypeError, ValueError):
        return False
    return True


def widened(function: Callable[..., Any], dtype: np.dtype, arity: int, *, back: bool = True) -> Callable[..., Any]:
    """The function for an element type; computed in the next wider type, which loses nothing, where there is no kernel.

    Args:
        function: Takes ``arity`` tensors of one element type.
        dtype: That element type.
        arity: How many tensors it takes.
        back: Whether the result has the element type of the inputs (comparisons do not).

    Raises:
        NotNative: There is no kernel for a wider type either.
    """
    narrow = tf_dtype(dtype)
    if computes(function, narrow, arity):
        return function
    wide = _WIDER.get(dtype.name)
    if wide is None or not computes(function, wide, arity):
        raise NotNative(f"TensorFlow has no kernel for {dtype}")

    def run(*tensors: Any) -> Any:
        result = function(*(tf.cast(t, wide) for t in tensors))
        return tf.cast(result, narrow) if back else result

    return run


def pointwise(function: Callable[..., Any], arity: int, *, back: bool = True) -> Callable[[Site], Callable[..., Any]]:
    """A builder for an operator that is one TensorFlow function, element by element."""

    def build(site: Site) -> Callable[..., Any]:
        return elementwise(widened(function, dtype_of(site), arity, back=back))

    return build


def variadic(function: Callable[..., Any]) -> Callable[[Site], Callable[..., Any]]:
    """A builder for an operator that folds one function of two tensors over its inputs."""

    def build(site: Site) -> Callable[..., Any]:
        pair = widened(function, dtype_of(site), 2)

        def run(*tensors: Any) -> Any:
            result = tensors[0]
            for tensor in tensors[1:]:
                result = pair(result, tensor)
            return result

        return elementwise(run)

    return build


def in_float(function: Callable[..., Any], dtype: np.dtype) -> Callable[..., Any]:
    """A function that accumulates, computed in float32 for the 16-bit types, as ONNX's reference rounds once at the end."""
    if dtype not in HALF:
        return function
    narrow = tf_dtype(dtype)
    return lambda tensor, *extra: tf.cast(function(tf.cast(tensor, tf.float32), *extra), narrow)


def broadcast_gradient(function: Callable[..., Any], gradient: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two tensors that are broadcast, with its own gradient: see `with_gradient`.

    Args:
        function: Takes two tensors.
        gradient: Takes the result's gradient, the result and the two tensors, all of one shape.
    """
    whole = with_gradient(function, gradient)

    def run(a: Any, b: Any) -> Any:
        if not differentiating():
            return function(a, b)
        shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
        return whole(*(tf.broadcast_to(t, shape) for t in (a, b)))

    return run


def root(x: Any) -> Any:
    """The square root of a sum of squares, whose gradient at 0 counts as 0 (that of a norm), where TensorFlow has NaN."""
    return with_gradient(tf.sqrt, lambda dy, y, _: tf.math.divide_no_nan(dy / 2, y))(x)


def scalar(value: float, like: Any) -> Any:
    """A constant of a tensor's element type."""
    return tf.constant(value, like.dtype)


def normal_axes(axes: Sequence[int], rank: int) -> list[int]:
    """Axes counted from the front."""
    return [int(a) + rank if a < 0 else int(a) for a in axes]


@dataclass(frozen=True, slots=True)
class SpatialWindow:
    """How a kernel moves over the spatial axes.

    Args:
        kernel: Its size.
        strides: Its steps.
        dilations: The distance of its elements.
        begin, end: Pads before and after; ``None`` where they depend on a size that is open (``auto_pad``).
        lower: For ``auto_pad``, whether the odd pad goes to the beginning.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...] | None
    end: tuple[int, ...] | None
    lower: bool = False

    @property
    def reach(self) -> tuple[int, ...]:
        """The extent of the dilated kernel."""
        return tuple(map(span, self.kernel, self.dilations))

    @property
    def padded(self) -> bool:
        """Whether there are pads."""
        return self.begin is None or any(self.begin) or any(self.end or ())


def window(site: Site, kernel: tuple[int, ...], sizes: tuple[int | None, ...]) -> SpatialWindow:
    """The window of a convolution or pool, with ``auto_pad`` resolved where the sizes are known."""
    n = len(kernel)
    strides = tuple(site.attribute("strides") or (1,) * n)
    dilations = tuple(site.attribute("dilations") or (1,) * n)
    mode = site.attribute("auto_pad", "NOTSET")
    if mode in ("NOTSET", "VALID"):
        pads = tuple(site.attribute("pads") or (0,) * (2 * n)) if mode == "NOTSET" else (0,) * (2 * n)
        return SpatialWindow(kernel, strides, dilations, pads[:n], pads[n:])
    lower = mode == "SAME_LOWER"
    plain = SpatialWindow(kernel, strides, dilations, None, None, lower)
    if any(s is None for s in sizes):
        return plain
    axes = zip(sizes, plain.reach, strides, strict=True)
    pairs = [same_padding(int(size or 0), reach, stride, upper=not lower) for size, reach, stride in axes]
    return SpatialWindow(kernel, strides, dilations, tuple(a for a, _ in pairs), tuple(b for _, b in pairs), lower)


def pad_pairs(w: SpatialWindow, x: Any) -> list[Any]:
    """Pads before and after each spatial axis of a channels-last tensor; tensors where they depend on open sizes."""
    if w.begin is not None and w.end is not None:
        return list(zip(w.begin, w.end, strict=True))
    pairs = []
    for axis, (reach, stride) in enumerate(zip(w.reach, w.strides, strict=True)):
        size = tf.shape(x)[axis + 1]
        total = tf.maximum(0, ((size + stride - 1) // stride - 1) * stride + reach - size)
        pairs.append(split_padding(total, upper=not w.lower))
    return pairs


def pad(x: Any, pairs: list[Any], value: Any = 0) -> Any:
    """A channels-last tensor padded along its spatial axes; cropped where a pad is negative."""
    fixed = [p for pair in pairs for p in pair if isinstance(p, int)]
    if len(fixed) == 2 * len(pairs):
        if any(p < 0 for p in fixed):
            sizes = [tf.shape(x)[i + 1] for i in range(len(pairs))]
            cut = [slice(max(0, -a), s - max(0, -b)) for (a, b), s in zip(pairs, sizes, strict=True)]
            x = x[(slice(None), *cut, slice(None))]
            pairs = [(max(0, a), max(0, b)) for a, b in pairs]
        if not any(p > 0 for p in fixed):
            return x
    return tf.pad(x, [(0, 0), *pairs, (0, 0)], constant_values=tf.cast(value, x.dtype))


def spatial_rank(rank: int, what: str) -> int:
    """The number of spatial axes.

    Raises:
        NotNative: There are none, or more than TensorFlow handles.
    """
    if not 3 <= rank <= 5:
        raise NotNative(f"TensorFlow has no {what} over {rank - 2} spatial axes")
    return rank - 2
