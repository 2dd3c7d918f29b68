"""Normalization and dropout: any rank and axis, mixed element types, more outputs than one.

Numbers are finite, and not all equal where their mean is taken off: what is then left is rounding, magnified.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes


def _epsilon(draw: Draw) -> float | None:
    return draw.maybe(draw.pick((1e-3, 0.5)))


def _positive(draw: Draw, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return np.abs(draw.moderate(shape, dtype)) + np.asarray(0.125, dtype)


def BatchNormalization(draw: Draw) -> GeneratedProblem:
    """In training mode never over nothing. Three element types: the tensor's, the scale's, the statistics'."""
    training = draw.maybe(draw.boolean())
    first, second, third = (draw.pick(dtypes("BatchNormalization", i)) for i in (0, 1, 3))
    if draw.boolean():
        second = third = first
    shape = (draw.integer(2, 4), *draw.full_shape(1, 3)) if training else draw.shape(2)
    x = draw.array(shape, first, "normal")
    c = x.shape[1:2]
    inputs = [x, *(draw.moderate(c, second) for _ in range(2)), draw.moderate(c, third), _positive(draw, c, third)]
    attributes = {"epsilon": _epsilon(draw), "momentum": draw.maybe(0.75), "training_mode": training}
    return GeneratedProblem("BatchNormalization", inputs, attributes, outputs=3 if training else 1)


def InstanceNormalization(draw: Draw) -> GeneratedProblem:
    """One to three spatial axes."""
    shape = (*draw.full_shape(2, 4), draw.integer(2, 5))
    x = draw.array(shape, draw.pick(dtypes("InstanceNormalization")), "normal")
    inputs = [x, draw.moderate(x.shape[1:2], x.dtype), draw.moderate(x.shape[1:2], x.dtype)]
    return GeneratedProblem("InstanceNormalization", inputs, {"epsilon": _epsilon(draw)})


def LayerNormalization(draw: Draw) -> GeneratedProblem:
    """The scale and bias have the normalized axes, or any shape that broadcasts to the tensor's."""
    shape = (*draw.full_shape(0, 3), draw.integer(2, 5))
    x = draw.array(shape, draw.pick(dtypes("LayerNormalization")), "normal")
    axis = draw.maybe(draw.axis(x.ndim))
    normalized = x.shape[-1 if axis is None else axis :]
    shapes = [draw.pick((normalized, normalized, draw.broadcast(x.shape))) for _ in range(2)]
    inputs = [x, draw.moderate(shapes[0], x.dtype), draw.maybe(draw.moderate(shapes[1], x.dtype))]
    attributes = {"axis": axis, "epsilon": _epsilon(draw), "stash_type": draw.maybe(1)}
    return GeneratedProblem("LayerNormalization", inputs, attributes, outputs=draw.integer(1, 3))


def RMSNormalization(draw: Draw) -> GeneratedProblem:
    """As LayerNormalization; one element type, since the standard's schema and its inference differ on the result of two."""
    x = draw.moderate(draw.full_shape(), draw.pick(dtypes("RMSNormalization")))
    axis = draw.maybe(draw.axis(x.ndim))
    normalized = x.shape[-1 if axis is None else axis :]
    scale = draw.moderate(draw.pick((normalized, normalized, draw.broadcast(x.shape))), x.dtype)
    attributes = {"axis": axis, "epsilon": _epsilon(draw), "stash_type": draw.maybe(1)}
    return GeneratedProblem("RMSNormalization", [x, scale], attributes)


def GroupNormalization(draw: Draw) -> GeneratedProblem:
    """From one group to as many as channels."""
    groups, each = draw.integer(1, 3), draw.integer(1, 3)
    shape = (draw.integer(1, 3), groups * each, *draw.full_shape(0, 2), draw.integer(2, 5))
    x = draw.array(shape, draw.pick(dtypes("GroupNormalization")), "normal")
    inputs = [x, draw.moderate(x.shape[1:2], x.dtype), draw.moderate(x.shape[1:2], x.dtype)]
    attributes = {"num_groups": groups, "epsilon": _epsilon(draw), "stash_type": draw.maybe(1)}
    return GeneratedProblem("GroupNormalization", inputs, attributes)


def MeanVarianceNormalization(draw: Draw) -> GeneratedProblem:
    """The default axes are those of a tensor of four."""
    axes = draw.maybe(draw.axes(rank := draw.integer(1, 4))) or None
    shape = tuple(draw.integer(2, 4) for _ in range(rank if axes else 4))
    x = draw.array(shape, draw.pick(dtypes("MeanVarianceNormalization")), "normal")
    return GeneratedProblem("MeanVarianceNormalization", [x], {"axes": axes})


def LpNormalization(draw: Draw) -> GeneratedProblem:
    """Rows of zeros among others."""
    x = draw.moderate(draw.shape(1), draw.pick(dtypes("LpNormalization")))
    rows = draw.moderate((*x.shape[:-1], 1)) > 1
    attributes = {"axis": draw.maybe(draw.axis(x.ndim)), "p": draw.pick((None, 1, 2))}
    return GeneratedProblem("LpNormalization", [np.where(rows, np.zeros((), x.dtype), x)], attributes)


def LRN(draw: Draw) -> GeneratedProblem:
    """Windows over an odd or even number of channels, more than there are as well; the base of the power is positive."""
    x = draw.moderate(draw.full_shape(3, 5), draw.pick(dtypes("LRN")))
    attributes = {"alpha": draw.maybe(draw.pick((0.5, 2.0))), "beta": draw.maybe(draw.pick((0.5, 1.0, 1.5)))}
    return GeneratedProblem(
        "LRN", [x], {"size": draw.integer(1, 6), "bias": draw.maybe(draw.pick((0.5, 2.0))), **attributes}
    )


def Dropout(draw: Draw) -> GeneratedProblem:
    """Without training, or with a ratio of 0: else the result is random."""
    x = draw.array(draw.shape(), draw.pick(dtypes("Dropout")))
    kind = draw.pick(dtypes("Dropout", 1))
    training = draw.maybe(np.asarray(bool(draw.boolean())))
    trains = training is not None and bool(training)
    ratio = np.asarray(0.0, kind) if trains else draw.maybe(np.asarray(0.5, kind))
    return GeneratedProblem("Dropout", [x, ratio, training], {"seed": draw.maybe(3)}, outputs=draw.integer(1, 2))


GENERATORS: dict[str, Callable[[Draw], GeneratedProblem]] = {
    "BatchNormalization": BatchNormalization,
    "Dropout": Dropout,
    "GroupNormalization": GroupNormalization,
    "InstanceNormalization": InstanceNormalization,
    "LRN": LRN,
    "LayerNormalization": LayerNormalization,
    "LpNormalization": LpNormalization,
    "MeanVarianceNormalization": MeanVarianceNormalization,
    "RMSNormalization": RMSNormalization,
}
