"""Pools: every attribute; each window meets the tensor, for what a window of padding alone gives is left open."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.tensor import is_float
from deep_bench.testing.generated.convolution import BATCHES, layout
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

Generator = Callable[[Draw], GeneratedProblem]


def pool(operator: str, **attributes: Callable[[Draw], object]) -> Generator:
    """A sum of some kind over windows; finite numbers."""

    def generate(draw: Draw) -> GeneratedProblem:
        at = layout(draw, ceil=True)
        x = draw.moderate((draw.pick(BATCHES), draw.integer(1, 3), *at.spatial), draw.pick(dtypes(operator)))
        extra = {name: choose(draw) for name, choose in attributes.items()}
        return GeneratedProblem(operator, [x], {**at.attributes, "kernel_shape": at.kernel, **extra})

    return generate


def MaxPool(draw: Draw) -> GeneratedProblem:
    """Indices only where no two elements of a channel are equal: which one is then meant is left open. No NaN either."""
    at, dtype = layout(draw, ceil=True), draw.pick(dtypes("MaxPool"))
    shape = (draw.pick(BATCHES), draw.integer(1, 2), *at.spatial)
    attributes: dict[str, Any] = {**at.attributes, "kernel_shape": at.kernel}
    if draw.boolean() and math.prod(at.spatial) <= 128:
        attributes["storage_order"] = draw.maybe(draw.boolean())
        return GeneratedProblem("MaxPool", [_distinct(draw, shape, dtype)], attributes, outputs=2)
    x = draw.array(shape, dtype, draw.pick(("normal", "ties", "wide")) if is_float(dtype) else None)
    return GeneratedProblem("MaxPool", [x], attributes)


def _distinct(draw: Draw, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """No two elements of a channel are equal; at most 128 in each."""
    generator = np.random.default_rng(draw.integer(0, 2**16))
    values = np.broadcast_to(np.arange(math.prod(shape[2:])), (math.prod(shape[:2]), math.prod(shape[2:])))
    return generator.permuted(values, axis=1).reshape(shape).astype(dtype)


def MaxUnpool(draw: Draw) -> GeneratedProblem:
    """Each element to a place of its own channel; ``output_shape`` only where it changes nothing.

    What the indices count in where the two shapes differ is left open.
    """
    rank = draw.pick((2, 1, 3))
    x, kernel, strides = (tuple(draw.integer(1, high) for _ in range(rank)) for high in (4, 3, 3))
    strides = tuple(map(max, strides, (1 if i == 1 else 2 if k == 1 else 1 for i, k in zip(x, kernel, strict=True))))
    full = [(i - 1) * s + k for i, s, k in zip(x, strides, kernel, strict=True)]
    pads = tuple(draw.integer(0, 1) if f - 1 > i else 0 for f, i in zip(full, x, strict=True))
    implied = [f - p for f, p in zip(full, pads, strict=True)]
    n, c, size, count = draw.pick(BATCHES), draw.integer(1, 3), math.prod(implied), math.prod(x)
    generator = np.random.default_rng(draw.integer(0, 2**16))
    places = [generator.permutation(size)[:count] + size * channel for channel in range(n * c)]
    indices = np.reshape(np.array(places, np.int64), (n, c, *x))
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": (*pads, *(0,) * rank) if any(pads) else None}
    values = draw.moderate((n, c, *x), draw.pick(dtypes("MaxUnpool")))
    return GeneratedProblem("MaxUnpool", [values, indices, draw.maybe(np.array([n, c, *implied]))], attributes)


def MaxRoiPool(draw: Draw) -> GeneratedProblem:
    """Regions in the image, with whole corners, in 1, 2 or 4 cells: no bound is then a matter of rounding."""
    dtype, (h, w) = draw.pick(dtypes("MaxRoiPool")), (draw.integer(1, 8), draw.integer(1, 8))
    x = draw.array((draw.integer(1, 3), draw.integer(1, 3), h, w), dtype, draw.pick(("normal", "ties")))
    scale = draw.pick((None, 1.0, 0.5, 2.0))
    rois = []
    for _ in range(draw.integer(1, 4)):
        left_edge, top = draw.integer(0, w - 1), draw.integer(0, h - 1)
        corners = (left_edge, top, draw.integer(left_edge, w - 1), draw.integer(top, h - 1))
        rois.append((draw.integer(0, len(x) - 1), *(corner / (scale or 1) for corner in corners)))
    attributes = {"pooled_shape": (draw.pick((1, 2, 4)), draw.pick((1, 2, 4))), "spatial_scale": scale}
    return GeneratedProblem("MaxRoiPool", [x, np.array(rois, dtype)], attributes)


def whole(operator: str, **attributes: Callable[[Draw], object]) -> Generator:
    """A pool over all of a channel."""

    def generate(draw: Draw) -> GeneratedProblem:
        shape = (draw.pick(BATCHES), draw.integer(1, 3), *draw.full_shape(1, 3))
        x = draw.moderate(shape, draw.pick(dtypes(operator)))
        return GeneratedProblem(operator, [x], {name: choose(draw) for name, choose in attributes.items()})

    return generate


def _power(draw: Draw) -> object:
    return draw.pick((None, 1, 2, 3))


GENERATORS: dict[str, Generator] = {
    "AveragePool": pool("AveragePool", count_include_pad=lambda draw: draw.maybe(draw.boolean())),
    "GlobalAveragePool": whole("GlobalAveragePool"),
    "GlobalLpPool": whole("GlobalLpPool", p=_power),
    "GlobalMaxPool": whole("GlobalMaxPool"),
    "LpPool": pool("LpPool", p=_power),
    "MaxPool": MaxPool,
    "MaxRoiPool": MaxRoiPool,
    "MaxUnpool": MaxUnpool,
}
