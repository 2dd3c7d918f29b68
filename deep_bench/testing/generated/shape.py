"""Shapes: every element type, axes from either end, axes of 0 and 1, limits far beyond the tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from deep_bench.tensor import STRING
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes, type_of

Generator = Callable[[Draw], GeneratedProblem]


def tensor(draw: Draw, operator: str, shape: Sequence[int]) -> np.ndarray:
    """Of any element type that the operator's schema allows."""
    return draw.array(shape, draw.pick(dtypes(operator)))


def ints(values: Sequence[int], dtype: Any = np.int64) -> np.ndarray:
    """A vector of integers, also where there is none."""
    return np.array(values, dtype).reshape(-1)


def some_axes(draw: Draw, rank: int) -> tuple[int, ...]:
    """As `Draw.axes`, but at least one."""
    return draw.axes(rank) or (draw.axis(rank),)


def Identity(draw: Draw) -> GeneratedProblem:
    """A tensor, a sequence of tensors, or an optional one, which may be empty; those in common element types only."""
    kind = draw.pick(("tensor", "tensor", "sequence", "optional"))
    x = tensor(draw, "Identity" if kind == "tensor" else "SequenceConstruct", draw.shape())
    if kind == "sequence":
        return GeneratedProblem("Identity", [[x] * draw.integer(1, 3)])
    if kind == "optional":
        types = {0: helper.make_optional_type_proto(type_of(x))}
        return GeneratedProblem("Identity", [draw.maybe(x)], types=types, output_types=types)
    return GeneratedProblem("Identity", [x])


def Reshape(draw: Draw) -> GeneratedProblem:
    """Axes in another order, merged, or with ones between them; one may be -1 where the others tell it."""
    x = tensor(draw, "Reshape", draw.shape())
    size = int(np.prod(x.shape))
    turned = x.shape[::-1]
    merged = (int(np.prod(x.shape[:2])), *x.shape[2:])
    scalar: tuple[tuple[int, ...], ...] = ((),) if size == 1 else ()
    sizes = draw.pick((x.shape, turned, merged, (size,), (1, *turned, 1), (size, 1), *scalar))
    zeros = [axis for axis, size in enumerate(sizes) if size == 0]
    literal = any(axis >= x.ndim or x.shape[axis] for axis in zeros)  # these cannot be copied
    allowzero = 1 if literal else draw.pick((None, 0, 1))
    target_shape = list(sizes)
    if not allowzero:
        target_shape = [0 if x.shape[i : i + 1] == (n,) and draw.boolean() else n for i, n in enumerate(sizes)]
    open_axis = draw.integer(0, len(target_shape) - 1) if target_shape and draw.boolean() else None
    if open_axis is not None and 0 not in sizes[:open_axis] + sizes[open_axis + 1 :]:
        target_shape[open_axis] = -1
    return GeneratedProblem("Reshape", [x, ints(target_shape)], {"allowzero": allowzero})


def Transpose(draw: Draw) -> GeneratedProblem:
    """Any order of the axes."""
    x = tensor(draw, "Transpose", draw.shape())
    perm = sorted(range(x.ndim), key=lambda _: draw.integer(0, 99))
    return GeneratedProblem("Transpose", [x], {"perm": draw.maybe(perm or None)})


def Squeeze(draw: Draw) -> GeneratedProblem:
    """An empty list of axes is avoided: the standard does not say whether it means none or all."""
    x = tensor(draw, "Squeeze", draw.shape(sizes=(1, 1, 2, 3, 0)))
    ones = [axis - x.ndim if draw.boolean() else axis for axis, size in enumerate(x.shape) if size == 1]
    chosen = [axis for axis in ones[:: draw.pick((1, -1))] if draw.boolean()]
    return GeneratedProblem("Squeeze", [x, ints(chosen)] if chosen else [x])


def Unsqueeze(draw: Draw) -> GeneratedProblem:
    """Axes in any order, counted in the result from either end."""
    shape = draw.shape(0, 3)
    rank = len(shape) + draw.integer(1, 2)
    turned = sorted(range(rank), key=lambda _: draw.integer(0, 99))[: rank - len(shape)]
    axes = [axis - rank if draw.boolean() else axis for axis in turned]
    return GeneratedProblem("Unsqueeze", [tensor(draw, "Unsqueeze", shape), ints(axes)])


def Flatten(draw: Draw) -> GeneratedProblem:
    """A scalar has only axis 0."""
    x = tensor(draw, "Flatten", draw.shape())
    return GeneratedProblem("Flatten", [x], {"axis": draw.pick((None, draw.integer(-x.ndim, x.ndim))) if x.ndim else 0})


def Shape(draw: Draw) -> GeneratedProblem:
    """Ends may lie beyond the axes."""
    limits = {name: draw.maybe(draw.integer(-6, 6)) for name in ("start", "end")}
    return GeneratedProblem("Shape", [tensor(draw, "Shape", draw.shape())], limits)


def Size(draw: Draw) -> GeneratedProblem:
    """Of any tensor."""
    return GeneratedProblem("Size", [tensor(draw, "Size", draw.shape())])


def Concat(draw: Draw) -> GeneratedProblem:
    """Lengths along the axis differ, and may be 0."""
    dtype, shape = draw.pick(dtypes("Concat")), list(draw.shape(1))
    axis = draw.axis(len(shape))
    parts = []
    for _ in range(draw.integer(1, 4)):
        shape[axis] = draw.integer(0, 3)
        parts.append(draw.array(shape, dtype))
    return GeneratedProblem("Concat", parts, {"axis": axis})


def Split(draw: Draw) -> GeneratedProblem:
    """Equal parts are such that only the last is smaller, and not empty."""
    shape = list(draw.shape(1, 3))
    axis = draw.axis(len(shape))
    attributes: dict[str, Any] = {"axis": axis if axis else draw.maybe(0)}
    if draw.boolean():
        sizes = [draw.integer(0, 3) for _ in range(draw.integer(1, 4))]
        shape[axis] = sum(sizes)
        return GeneratedProblem("Split", [tensor(draw, "Split", shape), ints(sizes)], attributes, outputs=len(sizes))
    count, part = draw.integer(1, 4), draw.integer(1, 3)
    shape[axis] = part * count - draw.integer(0, part - 1)
    return GeneratedProblem("Split", [tensor(draw, "Split", shape)], {**attributes, "num_outputs": count}, outputs=count)


def Slice(draw: Draw) -> GeneratedProblem:
    """Steps of both signs, and limits inside, at, and far beyond the ends."""
    x = tensor(draw, "Slice", draw.shape(1))
    chosen = draw.maybe(some_axes(draw, x.ndim))
    axes = tuple(range(x.ndim)) if chosen is None else chosen
    kind: Any = draw.pick((np.int64, np.int32))
    far: Any = np.iinfo(kind)
    starts, ends = ([_limit(draw, x.shape[a], far) for a in axes] for _ in range(2))
    steps = draw.maybe(ints([draw.pick((1, -1, 2, -2, 7, -7)) for _ in axes], kind))
    axes_input = None if chosen is None else ints(chosen, kind)
    inputs = [x, ints(starts, kind), ints(ends, kind), axes_input, steps]
    return GeneratedProblem("Slice", inputs[:4] if steps is None else inputs)


def _limit(draw: Draw, size: int, far: Any) -> int:
    return draw.pick((draw.integer(-size - 2, size + 2), draw.integer(-size, size), 0, int(far.max), int(far.min)))


def Expand(draw: Draw) -> GeneratedProblem:
    """Either shape may have the 1, or the additional axes."""
    shape = draw.shape()
    return GeneratedProblem("Expand", [tensor(draw, "Expand", draw.broadcast(shape)), ints(draw.broadcast(shape))])


def Tile(draw: Draw) -> GeneratedProblem:
    """Also once, and never."""
    x = tensor(draw, "Tile", draw.shape(1, 3))
    return GeneratedProblem("Tile", [x, ints([draw.pick((1, 2, 3, 0)) for _ in x.shape])])


def DepthToSpace(draw: Draw) -> GeneratedProblem:
    """Both orders."""
    block = draw.pick((2, 3, 1))
    n, c, h, w = (draw.pick((1, 2, 3, 2, 1, 0)) for _ in range(4))
    x = tensor(draw, "DepthToSpace", (n, c * block**2, h, w))
    return GeneratedProblem("DepthToSpace", [x], {"blocksize": block, "mode": draw.pick((None, "DCR", "CRD"))})


def SpaceToDepth(draw: Draw) -> GeneratedProblem:
    """Both orders."""
    block = draw.pick((2, 3, 1))
    n, c, h, w = (draw.pick((1, 2, 3, 2, 1, 0)) for _ in range(4))
    x = tensor(draw, "SpaceToDepth", (n, c, h * block, w * block))
    return GeneratedProblem("SpaceToDepth", [x], {"blocksize": block, "mode": draw.pick((None, "DCR", "CRD"))})


def Pad(draw: Draw) -> GeneratedProblem:
    """Left open, and avoided: an axis both cut and filled from its content; filling from nothing; reflecting twice."""
    mode = draw.pick((None, "constant", "reflect", "edge", "wrap"))
    constant = mode in (None, "constant")
    x = tensor(draw, "Pad", draw.shape(1) if constant else draw.full_shape())
    axes = draw.maybe(some_axes(draw, x.ndim))
    pads = [_pads(draw, x.shape[a], mode or "constant") for a in (range(x.ndim) if axes is None else axes)]
    filler = draw.maybe(draw.array((), x.dtype)) if constant else None
    axes_input = None if axes is None else ints(axes, draw.pick((np.int64, np.int32)))
    return GeneratedProblem(
        "Pad", [x, ints([p for side in zip(*pads, strict=True) for p in side]), filler, axes_input], {"mode": mode}
    )


def _pads(draw: Draw, size: int, mode: str) -> tuple[int, int]:
    """Before and after."""
    if draw.pick((False, False, True)):  # cut, and something is left
        before = draw.integer(0, max(size - 1, 0))
        return -before, -draw.integer(0, max(size - 1 - before, 0))
    if mode == "constant":
        return draw.pick((draw.integer(0, 3), -draw.integer(0, size // 2))), draw.integer(0, 3)
    most = min(size - 1, 3) if mode == "reflect" else size + 2
    return draw.integer(0, most), draw.integer(0, most)


def CenterCropPad(draw: Draw) -> GeneratedProblem:
    """Some axes are cut, others filled, by even and odd numbers; strings are avoided, which have no zero."""
    types = [dtype for dtype in dtypes("CenterCropPad") if dtype != STRING]
    x = draw.array(draw.shape(1), draw.pick(types))
    axes = draw.maybe(some_axes(draw, x.ndim))
    sizes = [draw.integer(0, 7) for _ in (range(x.ndim) if axes is None else axes)]
    return GeneratedProblem("CenterCropPad", [x, ints(sizes, draw.pick((np.int64, np.int32)))], {"axes": axes})


GENERATORS: dict[str, Generator] = {
    f.__name__: f
    for f in (
        CenterCropPad,
        Concat,
        DepthToSpace,
        Expand,
        Flatten,
        Identity,
        Pad,
        Reshape,
        Shape,
        Size,
        Slice,
        SpaceToDepth,
        Split,
        Squeeze,
        Tile,
        Transpose,
        Unsqueeze,
    )
}
