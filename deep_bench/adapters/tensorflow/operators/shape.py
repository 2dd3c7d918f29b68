"""Shapes: what moves, cuts, joins, pads or measures tensors without computing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from deep_bench.adapters.lowering import NotNative, Site
from deep_bench.adapters.lowering.plan import dims_of, dtype_of, rank_of
from deep_bench.adapters.tensorflow.graph import differentiating
from deep_bench.adapters.tensorflow.layout import Value, either, elementwise, is_last, on_values, permute, to_first, wrapped
from deep_bench.adapters.tensorflow.operators._site import computes, maybe_rank, normal_axes, tf_dtype

__all__ = [
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Identity",
    "Pad",
    "Reshape",
    "Shape",
    "Size",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
]


def Identity(site: Site) -> Callable[..., Any]:
    """The input itself, which may be a sequence or an optional value."""
    del site
    return on_values(lambda x: (x,))


def Reshape(site: Site) -> Callable[..., Any]:
    """Another shape; 0 keeps a dimension (unless ``allowzero``), -1 takes what is left."""
    zero, constant = site.attribute("allowzero", 0), site.constant(1)
    if constant is None:
        rank = dims_of(site, 1)[0] if site.inputs[1] is not None and site.inputs[1].shape else None
        return lambda x, shape: tf.reshape(x, shape if zero else _with_kept_sizes(x, shape, rank))
    goal = [int(d) for d in constant]

    def run(x: Any, _: Any) -> Any:
        dims = [_dim(x, i) if d == 0 and not zero else d for i, d in enumerate(goal)]
        return tf.reshape(x, dims)

    return run


def _with_kept_sizes(x: Any, shape: Any, rank: int | None) -> Any:
    dims = tf.shape(x, shape.dtype)
    if rank is None:
        rank = shape.shape[0]
    if rank is None:
        raise NotNative("the rank of the new shape is not known when the network is prepared")
    dims = tf.concat([dims, tf.ones([max(0, rank - (x.shape.rank or 0))], shape.dtype)], 0)[:rank]
    return tf.where(tf.equal(shape, 0), dims, shape)


def _dim(x: Any, axis: int) -> Any:
    size = x.shape[axis]
    return tf.shape(x)[axis] if size is None else size


def Flatten(site: Site) -> Callable[..., Any]:
    """Two dimensions, split at an axis."""
    axis = site.attribute("axis", 1)

    def run(x: Any) -> Any:
        rank = x.shape.rank
        at = axis if axis >= 0 or rank is None else axis + rank
        if at == 1 and rank is not None and None not in x.shape[1:]:
            return tf.reshape(x, [_dim(x, 0), int(np.prod(x.shape[1:]))])
        sizes = tf.shape(x)
        return tf.reshape(x, tf.stack([tf.reduce_prod(sizes[:at]), tf.reduce_prod(sizes[at:])]))

    return run


def Squeeze(site: Site) -> Callable[..., Any]:
    """Without dimensions of size one."""
    axes = site.constant(1)
    if site.has(1) and axes is None:
        return _squeezed(rank_of(site), dims_of(site, 1)[0])
    if axes is None:
        dims = site.inputs[0].shape if site.inputs[0] is not None else None
        if dims is None or None in dims:
            return lambda x, *_: tf.squeeze(x)
        axes = np.array([i for i, d in enumerate(dims) if d == 1])
    rank = maybe_rank(site)
    if rank is None:
        return lambda x, *_: tf.squeeze(x, axes.tolist())
    gone = normal_axes(axes.tolist(), rank)
    if not gone:
        return elementwise(lambda x, *_: x)

    @on_values
    def run(x: Any, *_: Any) -> Any:
        if not is_last(x, rank) or 0 in gone:
            return wrapped(tf.squeeze(x.first, gone), last=False)
        moved = [rank - 1 if a == 1 else a - 1 for a in gone]
        return wrapped(tf.squeeze(x.tensor, moved), last=1 not in gone and rank - len(gone) > 2)

    return run


def Unsqueeze(site: Site) -> Callable[..., Any]:
    """With dimensions of size one added."""
    axes = site.constant(1)
    if axes is None:
        return _unsqueezed(rank_of(site), dims_of(site, 1)[0])
    if maybe_rank(site) is None and (axes.min() >= 0 or axes.size == 1):
        return lambda x, _: _expanded(x, axes.reshape(-1).tolist())
    rank = rank_of(site) + axes.size
    places = normal_axes(axes.reshape(-1).tolist(), rank)

    def run(x: Any, _: Any) -> Any:
        if None not in x.shape.as_list():
            dims = iter(x.shape.as_list())
            return tf.reshape(x, [1 if i in places else next(dims) for i in range(rank)])
        return _expanded(x, places)

    return run


def _squeezed(rank: int, count: int | None) -> Callable[..., Any]:
    """Without the dimensions that a tensor names."""
    if count is None:
        raise NotNative("the number of axes is not known when the network is prepared")

    def run(x: Any, axes: Any) -> Any:
        gone = _chosen(axes, rank)
        return tf.ensure_shape(tf.reshape(x, tf.boolean_mask(tf.shape(x), ~gone)), [None] * (rank - count))

    return run


def _unsqueezed(rank: int, count: int | None) -> Callable[..., Any]:
    """With dimensions of size one where a tensor says."""
    if count is None:
        raise NotNative("the number of axes is not known when the network is prepared")

    def run(x: Any, axes: Any) -> Any:
        new = _chosen(axes, rank + count)
        order = tf.argsort(tf.cast(new, tf.int32), stable=True)  # first the places of the old dimensions
        sizes = tf.concat([tf.shape(x), tf.ones([count], tf.int32)], 0)
        shape = tf.scatter_nd(order[:, None], sizes, [rank + count])
        return tf.ensure_shape(tf.reshape(x, shape), [None] * (rank + count))

    return run


def _chosen(axes: Any, rank: int) -> Any:
    """For each dimension, whether it is among the axes."""
    places = tf.math.floormod(tf.cast(tf.reshape(axes, [-1]), tf.int32), max(1, rank))
    return tf.reduce_any(tf.equal(tf.range(rank)[:, None], places), 1)


def _expanded(x: Any, places: Sequence[int]) -> Any:
    for place in sorted(places):
        x = tf.expand_dims(x, place)
    return x


def _transposed(x: Any) -> Any:
    return tf.transpose(tf.reshape(x, [1, 1]))


def Transpose(site: Site) -> Callable[..., Any]:
    """Dimensions in another order; merged with the layout, so that it often costs nothing."""
    rank = rank_of(site)
    if not computes(_transposed, tf_dtype(dtype_of(site)), 1):
        raise NotNative(f"TensorFlow does not transpose tensors of {dtype_of(site)}")
    perm = tuple(site.attribute("perm") or reversed(range(rank)))

    @on_values
    def run(x: Any) -> Any:
        if not is_last(x, rank):
            return wrapped(permute(x.first, perm), last=False)
        return wrapped(permute(x.tensor, [to_first(rank)[p] for p in perm]), last=False)

    return run


def Concat(site: Site) -> Callable[..., Any]:
    """Tensors joined along an axis."""
    axis = site.attributes["axis"]
    return either(lambda at: lambda *tensors: tf.concat(tensors, at(axis)), inputs=None)


def Split(site: Site) -> Callable[..., Any]:
    """A tensor cut along an axis: into given sizes, or evenly with a smaller last part."""
    axis, count = site.attribute("axis", 0), len(site.outputs)
    sizes = site.constant(1)
    if site.has(1) and sizes is None:
        return lambda x, split: tuple(tf.split(x, split, axis, num=count))
    lengths = None if sizes is None else [int(s) for s in sizes]
    rank_of(site)

    def cut(x: Any, at: int) -> Any:
        if lengths is not None:
            return _one_or_more(tf.split(x, lengths, at))
        size = _dim(x, at)
        chunk = -(-size // site.attribute("num_outputs", count))
        if isinstance(size, int) and size == chunk * count:
            return _one_or_more(tf.split(x, count, at))
        return _one_or_more(tf.split(x, [*[chunk] * (count - 1), size - chunk * (count - 1)], at))

    return either(lambda at: lambda x, *_: cut(x, at(axis)))


def _one_or_more(parts: Sequence[Any]) -> Any:
    return tuple(parts) if len(parts) > 1 else parts[0]


def Slice(site: Site) -> Callable[..., Any]:
    """Parts of a tensor from ``starts`` to ``ends`` by ``steps``, along some axes."""
    axes = site.constant(3)
    starts, ends, steps = (site.constant(i) for i in (1, 2, 4))
    if site.has(3) and axes is None:
        return _sliced_anywhere(rank_of(site))
    if axes is None:
        length = starts.size if starts is not None else dims_of(site, 1)[0]
        if length is None:
            raise NotNative("the number of sliced axes is not known when the network is prepared")
        axes = np.arange(length)
    rank = maybe_rank(site)
    if rank is None and axes.size and axes.min() < 0:
        raise NotNative("the rank of the input is not known when the network is prepared")
    places = normal_axes(axes.tolist(), rank or 0)
    if starts is None or ends is None or (site.has(4) and steps is None):
        return lambda x, b, e, _=None, s=None: _sliced(x, places, b, e, s)
    by = np.ones(len(places), np.int64) if steps is None else steps
    triples = list(zip(places, starts.tolist(), ends.tolist(), by.tolist(), strict=True))

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        return lambda x, *_: _sliced(
            x, [at(a) for a, *_ in triples], *(np.array(c, np.int64) for c in list(zip(*triples, strict=True))[1:])
        )

    return either(make) if triples else elementwise(lambda x, *_: x)


def _sliced(x: Any, places: list[int], begin: Any, end: Any, step: Any) -> Any:
    """TensorFlow clamps begins and ends as ONNX does, except an end that lies before the first element."""
    rank = max(places) + 1  # later axes are taken whole
    begins, ends, steps = [0] * rank, [0] * rank, [1] * rank
    mask = sum(1 << a for a in range(rank) if a not in places)
    for i, place in enumerate(places):
        begins[place], ends[place] = (tf.cast(v[i], tf.int64) if tf.is_tensor(v) else int(v[i]) for v in (begin, end))
        steps[place] = 1 if step is None else tf.cast(step[i], tf.int64) if tf.is_tensor(step) else int(step[i])
        begins[place] = _from_first(begins[place], steps[place], x, place)
    stacked = [
        tf.stack([tf.cast(v, tf.int64) for v in vs]) if any(map(tf.is_tensor, vs)) else np.array(vs, np.int64)
        for vs in (begins, ends, steps)
    ]
    return tf.strided_slice(x, *stacked, begin_mask=mask, end_mask=mask)


def _from_first(begin: Any, step: Any, x: Any, axis: int) -> Any:
    """The begin of a slice, or the first element if it lies before that: backwards TensorFlow finds nothing there."""
    if not tf.is_tensor(step) and step > 0:
        return begin
    size = x.shape[axis]
    if size is None or tf.is_tensor(begin):
        return tf.maximum(begin, -tf.shape(x, tf.int64)[axis])
    return max(begin, -size)


def _sliced_anywhere(rank: int) -> Callable[..., Any]:
    """A slice along axes that only the run knows."""

    def run(x: Any, starts: Any, ends: Any, axes: Any, steps: Any = None) -> Any:
        places = tf.math.floormod(tf.cast(axes, tf.int32), max(1, rank))[:, None]
        sizes = tf.shape(x, tf.int64)
        whole = (tf.zeros([rank], tf.int64), sizes, tf.ones([rank], tf.int64))
        begins = tf.maximum(tf.cast(starts, tf.int64), -tf.gather_nd(sizes, places))  # see `_from_first`
        bounds = (begins, ends, tf.ones_like(starts) if steps is None else steps)
        return tf.strided_slice(
            x, *(tf.tensor_scatter_nd_update(w, places, tf.cast(g, tf.int64)) for w, g in zip(whole, bounds, strict=True))
        )

    return run


def Expand(site: Site) -> Callable[..., Any]:
    """A tensor broadcast together with a shape."""
    constant = site.constant(1)
    dims = dims_of(site)
    if constant is not None and None not in dims:
        goal = np.broadcast_shapes(tuple(int(d or 0) for d in dims), tuple(int(d) for d in constant))
        return lambda x, _: tf.broadcast_to(x, goal)
    return lambda x, shape: tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x, shape.dtype), shape))


def _twice(x: Any) -> Any:
    return tf.tile(x, [2])


def Tile(site: Site) -> Callable[..., Any]:
    """A tensor repeated along its axes."""
    if not computes(_twice, tf_dtype(dtype_of(site)), 1):
        raise NotNative(f"TensorFlow does not repeat tensors of {dtype_of(site)}")
    repeats = site.constant(1)
    if repeats is not None:
        times = [int(r) for r in repeats]
        return lambda x, _: tf.tile(x, times)
    return tf.tile


def Shape(site: Site) -> Callable[..., Any]:
    """The dimensions, from ``start`` up to ``end``."""
    start, end = site.attribute("start", 0), site.attribute("end")

    @on_values
    def run(x: Any) -> Any:
        sizes = tf.shape(x.tensor if isinstance(x, Value) and is_last(x) else x.first, tf.int64)
        if is_last(x):
            sizes = tf.gather(sizes, to_first(x.rank))
        return wrapped(sizes[start:end], last=False)

    return run


def Size(site: Site) -> Callable[..., Any]:
    """The number of elements."""
    del site

    @on_values
    def run(x: Any) -> Any:
        return wrapped(tf.size(x.tensor if is_last(x) else x.first, tf.int64), last=False)

    return run


def DepthToSpace(site: Site) -> Callable[..., Any]:
    """Blocks of channels laid out in the plane."""
    block, rows_first = site.attributes["blocksize"], site.attribute("mode", "DCR") == "CRD"
    rank_of(site)

    def first(x: Any) -> Any:
        n, c, h, w = (_dim(x, i) for i in range(4))
        deep = c // (block * block)
        shape = [n, deep, block, block, h, w] if rows_first else [n, block, block, deep, h, w]
        split = tf.transpose(tf.reshape(x, shape), [0, 1, 4, 2, 5, 3] if rows_first else [0, 3, 4, 1, 5, 2])
        return tf.reshape(split, [n, deep, h * block, w * block])

    def last(x: Any) -> Any:
        n, h, w, c = (_dim(x, i) for i in range(4))
        deep = c // (block * block)
        shape = [n, h, w, deep, block, block] if rows_first else [n, h, w, block, block, deep]
        split = tf.transpose(tf.reshape(x, shape), [0, 1, 4, 2, 5, 3] if rows_first else [0, 1, 3, 2, 4, 5])
        return tf.reshape(split, [n, h * block, w * block, deep])

    return either(lambda at: first if at(1) == 1 else last)


def SpaceToDepth(site: Site) -> Callable[..., Any]:
    """Blocks of the plane laid out in the channels."""
    block = site.attributes["blocksize"]
    rows_first = site.attribute("mode", "DCR") == "CRD"

    def run(x: Any) -> Any:
        n, c, h, w = (_dim(x, i) for i in range(4))
        split = tf.reshape(x, [n, c, h // block, block, w // block, block])
        moved = tf.transpose(split, [0, 1, 3, 5, 2, 4] if rows_first else [0, 3, 5, 1, 2, 4])
        return tf.reshape(moved, [n, c * block * block, h // block, w // block])

    return run


def Pad(site: Site) -> Callable[..., Any]:
    """Elements added around a tensor: a constant, the edge, a reflection, the other end; removed where a pad is negative."""
    rank, mode = rank_of(site), site.attribute("mode", "constant")
    axes, pads = site.constant(3), site.constant(1)
    places = list(range(rank)) if axes is None else normal_axes(axes.tolist(), rank)
    native = tf_dtype(dtype_of(site))
    if not computes(_pad_probe, native, 1):
        raise NotNative(f"TensorFlow does not pad {native.name}")
    if pads is None or (site.has(3) and axes is None):
        return lambda x, p, value=None, a=None: _dynamic_pad(
            x, *_pads_of_axes(p, places if a is None else a, rank), value, mode
        )
    pairs = {a: (int(pads[i]), int(pads[i + len(places)])) for i, a in enumerate(places)}

    def make(at: Callable[[int], int]) -> Callable[..., Any]:
        moved = {at(a): pair for a, pair in pairs.items() if pair != (0, 0)}
        if mode == "constant":
            return lambda x, _=None, value=None, *__: _constant_pad(x, moved, value, rank)
        return lambda x, *_: _gathered_pad(x, moved, mode)

    return either(make)


def _pad_probe(x: Any) -> Any:
    return tf.pad(x, [[0, 1]])


def _constant_pad(x: Any, pairs: dict[int, tuple[int, int]], value: Any, rank: int) -> Any:
    if any(p < 0 for pair in pairs.values() for p in pair):
        sizes = tf.shape(x)
        cut = {a: slice(max(0, -b), sizes[a] - max(0, -e)) for a, (b, e) in pairs.items()}
        x = x[tuple(cut.get(a, slice(None)) for a in range(rank))]
        pairs = {a: (max(0, b), max(0, e)) for a, (b, e) in pairs.items()}
    return _pad_native(x, [pairs.get(a, (0, 0)) for a in range(rank)], value)


def _pad_native(x: Any, pairs: Any, value: Any) -> Any:
    if value is None:
        return tf.pad(x, pairs, constant_values="") if x.dtype == tf.string else tf.pad(x, pairs)
    if differentiating() and x.dtype.is_floating:  # TensorFlow takes no gradient with respect to the value
        return tf.where(tf.pad(tf.ones_like(x, tf.bool), pairs), tf.pad(x, pairs), tf.reshape(value, []))
    return tf.pad(x, pairs, constant_values=tf.reshape(value, []))


def _pads_of_axes(pads: Any, places: Any, rank: int) -> tuple[Any, Any]:
    """The pads before and after every axis."""
    axes = tf.math.floormod(tf.cast(places, tf.int32), max(1, rank))[:, None]
    begin, end = (tf.scatter_nd(axes, part, [rank]) for part in tf.split(tf.cast(pads, tf.int32), 2))
    return begin, end


def _dynamic_pad(x: Any, begin: Any, end: Any, value: Any, mode: str) -> Any:
    """Pads that only the run knows."""
    if mode != "constant":
        return _gathered_pad(x, {a: (begin[a], end[a]) for a in range(x.shape.rank)}, mode)
    cut = tf.strided_slice(x, tf.maximum(0, -begin), tf.shape(x) + tf.minimum(0, end))
    return _pad_native(cut, tf.stack([tf.maximum(0, begin), tf.maximum(0, end)], 1), value)


def _gathered_pad(x: Any, pairs: dict[int, tuple[int, int]], mode: str) -> Any:
    """Each axis looked up where the padded one falls."""
    for axis, (begin, end) in pairs.items():
        size = x.shape[axis]
        if size is None or tf.is_tensor(begin):
            length = tf.shape(x)[axis]
            x = tf.gather(x, _source_index(tf.range(-begin, length + end), length, mode, tf), axis=axis)
        else:
            x = tf.gather(x, _source_index(np.arange(-begin, size + end), size, mode, np), axis=axis)
    return x


def _source_index(place: Any, size: Any, mode: str, xp: Any) -> Any:
    if mode == "edge":
        return xp.minimum(xp.maximum(place, 0), size - 1)
    if mode == "wrap":
        return place % size
    period = xp.maximum(1, 2 * (size - 1))
    return (size - 1) - xp.abs(place % period - (size - 1))
