"""Reading and writing at computed positions: indices from either end, reductions over repeated ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deep_bench.tensor import STRING, is_float, is_integer
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

Generator = Callable[[Draw], GeneratedProblem]


def indices(draw: Draw, shape: Sequence[int], size: int, dtype: Any = None) -> np.ndarray:
    """Positions in an axis of this size, counted from either end."""
    kind = draw.pick((np.int64, np.int32)) if dtype is None else dtype
    return np.array([draw.integer(-size, size - 1) for _ in range(math.prod(shape))], kind).reshape(shape)


def distinct(draw: Draw, count: int, size: int) -> list[int]:
    """Different positions in an axis of this size, in any order, each counted from either end."""
    order = sorted(range(size), key=lambda _: draw.integer(0, 99))[:count]
    return [i - size if draw.boolean() else i for i in order]


def Gather(draw: Draw) -> GeneratedProblem:
    """Indices of any rank, also a scalar, and none at all."""
    shape = list(draw.shape(1))
    axis, dtype = draw.axis(len(shape)), draw.pick(dtypes("Gather"))
    shape[axis] = draw.integer(1, 4)
    where = indices(draw, draw.shape(0, 2), shape[axis])
    return GeneratedProblem("Gather", [draw.array(shape, dtype), where], {"axis": axis if axis else draw.maybe(0)})


def GatherElements(draw: Draw) -> GeneratedProblem:
    """The other axes of the indices may be shorter than the tensor's."""
    shape = draw.full_shape()
    axis, dtype = draw.axis(len(shape)), draw.pick(dtypes("GatherElements"))
    read = [draw.integer(0, n) for n in shape]
    read[axis] = draw.integer(0, 4)
    where = indices(draw, read, shape[axis])
    return GeneratedProblem("GatherElements", [draw.array(shape, dtype), where], {"axis": axis if axis else draw.maybe(0)})


def _tuples(draw: Draw, batch: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
    """Index tuples along a last axis."""
    parts = [indices(draw, batch, size, np.int64) for size in sizes]
    return np.stack(parts, axis=-1)


def GatherND(draw: Draw) -> GeneratedProblem:
    """With and without batch dimensions; tuples that name all or some of the other axes."""
    shape = draw.full_shape()
    batch = draw.integer(0, len(shape) - 1)
    named = shape[batch : batch + draw.integer(1, len(shape) - batch)]
    where = _tuples(draw, (*shape[:batch], *draw.shape(0, 2)), named)
    x = draw.array(shape, draw.pick(dtypes("GatherND")))
    return GeneratedProblem("GatherND", [x, where], {"batch_dims": batch or draw.maybe(0)})


def _reduction(draw: Draw, dtype: np.dtype) -> str | None:
    """What is not a number is only replaced."""
    number = is_float(dtype) or is_integer(dtype)
    return draw.pick((None, "none", "add", "mul", "max", "min") if number else (None, "none"))


def _style(dtype: np.dtype) -> str | None:
    """No NaN, whose maximum the standard leaves open, and nothing that overflows, on which the order would bear."""
    return "ties" if is_float(dtype) else "small" if is_integer(dtype) else None


def ScatterElements(draw: Draw) -> GeneratedProblem:
    """Positions are distinct unless there is a reduction. `_style` says what is avoided."""
    shape = draw.full_shape()
    axis, dtype = draw.axis(len(shape)), draw.pick(dtypes("ScatterElements"))
    reduction = _reduction(draw, dtype)
    written = [draw.integer(0, n) for n in shape]
    where = indices(draw, written, shape[axis])
    if reduction in (None, "none"):
        lines = np.moveaxis(where, axis, -1)
        for line in np.ndindex(lines.shape[:-1]):
            lines[line] = distinct(draw, lines.shape[-1], shape[axis])
    x, updates = draw.array(shape, dtype, _style(dtype)), draw.array(written, dtype, _style(dtype))
    return GeneratedProblem(
        "ScatterElements", [x, where, updates], {"axis": axis if axis else draw.maybe(0), "reduction": reduction}
    )


def ScatterND(draw: Draw) -> GeneratedProblem:
    """As ScatterElements."""
    shape, dtype = draw.full_shape(), draw.pick(dtypes("ScatterND"))
    reduction = _reduction(draw, dtype)
    named = draw.integer(1, len(shape))
    if reduction in (None, "none"):
        places = math.prod(shape[:named])
        flat = np.array(distinct(draw, draw.integer(0, places), places), np.int64) % places
        where = np.stack(np.unravel_index(flat, shape[:named]), axis=-1).astype(np.int64)
        where = where - np.array(shape[:named]) * draw.boolean()
    else:
        where = _tuples(draw, draw.shape(0, 2), shape[:named])
    x = draw.array(shape, dtype, _style(dtype))
    updates = draw.array((*where.shape[:-1], *shape[named:]), dtype, _style(dtype))
    return GeneratedProblem("ScatterND", [x, where, updates], {"reduction": reduction})


def TensorScatter(draw: Draw) -> GeneratedProblem:
    """Written at the front by default, or where each sample says, beyond the end in circles."""
    shape, dtype = list(draw.full_shape(3, 4)), draw.pick(dtypes("TensorScatter"))
    axis = draw.pick((None, *range(1, len(shape)), *range(1 - len(shape), 0)))
    size = shape[-2 if axis is None else axis]
    mode = draw.pick((None, "linear", "circular"))
    past = draw.array(shape, dtype)
    shape[-2 if axis is None else axis] = length = draw.integer(0, size)
    last = size - 1 if mode == "circular" else size - length
    begins = np.array([draw.integer(0, last) for _ in range(shape[0])], np.int64)
    return GeneratedProblem(
        "TensorScatter", [past, draw.array(shape, dtype), draw.maybe(begins)], {"axis": axis, "mode": mode}
    )


def NonZero(draw: Draw) -> GeneratedProblem:
    """Strings are avoided: which is zero is not said. So are scalars, which have no position."""
    x = draw.array(draw.shape(1), draw.pick([d for d in dtypes("NonZero") if d != STRING]))
    return GeneratedProblem("NonZero", [x])


def OneHot(draw: Draw) -> GeneratedProblem:
    """Every type of number for indices and depth, often the common ones; indices from either end, some out of range."""
    shape, depth = draw.shape(0, 3), draw.integer(1, 4)
    plain = draw.boolean()
    kind = np.dtype(np.int64) if plain else draw.pick(dtypes("OneHot"))
    low = 0 if kind.kind == "u" else -depth - 1
    where = np.array([draw.integer(low, depth + 1) for _ in range(math.prod(shape))]).astype(kind).reshape(shape)
    count = np.array(depth if draw.boolean() else [depth])
    count = count.astype(np.int64 if plain else draw.pick(dtypes("OneHot", 1)))
    values = draw.array((2,), np.dtype(np.float32) if plain else draw.pick(dtypes("OneHot", 2)))
    axis = draw.pick((None, draw.integer(-len(shape) - 1, len(shape))))
    return GeneratedProblem("OneHot", [where, count, values], {"axis": axis})


def Compress(draw: Draw) -> GeneratedProblem:
    """The condition may be shorter than the axis."""
    x = draw.array(draw.shape(1), draw.pick(dtypes("Compress")))
    axis = draw.maybe(draw.axis(x.ndim))
    size = x.size if axis is None else x.shape[axis]
    return GeneratedProblem("Compress", [x, draw.array((draw.integer(0, size),), bool)], {"axis": axis})


def Unique(draw: Draw) -> GeneratedProblem:
    """Left open, and avoided: NaN, the order of complex numbers, slices of an empty tensor; -0 is no other number than 0."""
    types = [d for d in dtypes("Unique") if d.kind != "c"]
    dtype = draw.pick(types)
    axis = None
    shape = draw.shape()
    if draw.boolean():
        shape = draw.full_shape()
        axis = draw.axis(len(shape))
    x = draw.array(shape, dtype, _style(dtype))
    x = np.where(x == np.zeros((), dtype), np.zeros((), dtype), x) if is_float(dtype) else x
    return GeneratedProblem("Unique", [x], {"axis": axis, "sorted": draw.pick((None, 0, 1))}, outputs=draw.integer(1, 4))


def Trilu(draw: Draw) -> GeneratedProblem:
    """Diagonals inside and far outside; strings are avoided, which have no zero."""
    x = draw.array(draw.shape(2), draw.pick([d for d in dtypes("Trilu") if d != STRING]))
    k = draw.pick((None, draw.integer(-3, 3), 100, -100))
    return GeneratedProblem("Trilu", [x, None if k is None else np.array(k, np.int64)], {"upper": draw.pick((None, 0, 1))})


def ReverseSequence(draw: Draw) -> GeneratedProblem:
    """Both orders of time and batch; lengths from 1 on."""
    time, batch, extra_shape = draw.integer(1, 5), draw.integer(1, 4), draw.shape(0, 2)
    time_axis = draw.pick((None, 0, 1))
    shape = (batch, time, *extra_shape) if time_axis == 1 else (time, batch, *extra_shape)
    lengths = np.array([draw.integer(1, time) for _ in range(batch)], np.int64)
    axes = {"time_axis": time_axis, "batch_axis": None if time_axis is None else 1 - time_axis}
    return GeneratedProblem("ReverseSequence", [draw.array(shape, draw.pick(dtypes("ReverseSequence"))), lengths], axes)


GENERATORS: dict[str, Generator] = {
    f.__name__: f
    for f in (
        Compress,
        Gather,
        GatherElements,
        GatherND,
        NonZero,
        OneHot,
        ReverseSequence,
        ScatterElements,
        ScatterND,
        TensorScatter,
        Trilu,
        Unique,
    )
}
