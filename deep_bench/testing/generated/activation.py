"""Activation functions and the softmax family: their parameters, infinities and NaN, any axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from deep_bench.testing.generated.elementwise import unary
from deep_bench.testing.generated.problem import Draw, GeneratedProblem, dtypes

Generator = Callable[[Draw], GeneratedProblem]


def _one_of(*values: object) -> Callable[[Draw], object]:
    return lambda draw: draw.maybe(draw.pick(values))


def finite(operator: str, **attributes: Callable[[Draw], object]) -> Generator:
    """An operator whose formula is NaN at infinity though its limit is not; the standard does not say which holds."""

    def generate(draw: Draw) -> GeneratedProblem:
        x = draw.moderate(draw.shape(), draw.pick(dtypes(operator)))
        return GeneratedProblem(operator, [x], {name: choose(draw) for name, choose in attributes.items()})

    return generate


def along_axis(operator: str) -> Generator:
    """An operator along an axis; without plus infinity, where the formula and the one that shifts by the maximum differ."""

    def generate(draw: Draw) -> GeneratedProblem:
        x = draw.array(draw.shape(1), draw.pick(dtypes(operator)))
        x = np.where(np.isposinf(x), np.ones_like(x), x)
        return GeneratedProblem(operator, [x], {"axis": draw.maybe(draw.axis(x.ndim))})

    return generate


def Hardmax(draw: Draw) -> GeneratedProblem:
    """Ties, but no NaN: the standard does not say whether it is the maximum."""
    x = draw.array(draw.shape(1), draw.pick(dtypes("Hardmax")), draw.pick(("normal", "ties", "wide")))
    return GeneratedProblem("Hardmax", [x], {"axis": draw.maybe(draw.axis(x.ndim))})


def PRelu(draw: Draw) -> GeneratedProblem:
    """The slope broadcasts to the tensor."""
    dtype, shape = draw.pick(dtypes("PRelu")), draw.shape()
    return GeneratedProblem("PRelu", [draw.moderate(shape, dtype), draw.moderate(draw.broadcast(shape), dtype)])


def Shrink(draw: Draw) -> GeneratedProblem:
    """Integers with whole parameters, so that nothing is truncated and nothing passes the limits of the type."""
    dtype = draw.pick(dtypes("Shrink"))
    whole = dtype.kind in "iu"
    bias, lambd = draw.pick((0.0, 1.0, 2.0)), draw.pick((2.0, 3.0))
    attributes = {"bias": bias, "lambd": lambd} if whole else {"bias": draw.maybe(bias / 4), "lambd": draw.maybe(lambd / 4)}
    return GeneratedProblem("Shrink", [draw.moderate(draw.shape(), dtype)], attributes)


def SwiGLU(draw: Draw) -> GeneratedProblem:
    """Two tensors of one shape."""
    dtype, shape = draw.pick(dtypes("SwiGLU")), draw.shape()
    gate, value = draw.moderate(shape, dtype), draw.moderate(shape, dtype)
    return GeneratedProblem("SwiGLU", [gate, value], {"alpha": draw.maybe(draw.pick((1.5, 0.5, -1.0)))})


_ALPHA = _one_of(0.5, 2.0, 0.125, -0.5)

GENERATORS: dict[str, Generator] = {
    "Celu": unary("Celu", alpha=_one_of(0.5, 2.0, 0.125)),
    "Elu": unary("Elu", alpha=_ALPHA),
    "Gelu": finite("Gelu", approximate=_one_of("none", "tanh")),
    "HardSigmoid": unary("HardSigmoid", alpha=_ALPHA, beta=_one_of(0.25, 0.75, -0.5)),
    "HardSwish": finite("HardSwish"),
    "Hardmax": Hardmax,
    "LeakyRelu": unary("LeakyRelu", alpha=_ALPHA),
    "LogSoftmax": along_axis("LogSoftmax"),
    "Mish": finite("Mish"),
    "PRelu": PRelu,
    "Relu": unary("Relu"),
    "Selu": unary("Selu", alpha=_ALPHA, gamma=_one_of(1.5, 0.5)),
    "Shrink": Shrink,
    "Sigmoid": unary("Sigmoid"),
    "Softmax": along_axis("Softmax"),
    "Softplus": unary("Softplus"),
    "Softsign": finite("Softsign"),
    "SwiGLU": SwiGLU,
    "Swish": finite("Swish", alpha=_one_of(1.5, 0.5, -1.0)),
    "ThresholdedRelu": unary("ThresholdedRelu", alpha=_ALPHA),
}
