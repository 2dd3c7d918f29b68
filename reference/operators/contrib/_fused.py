"""The activation that an optimizer has moved into the operator before it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators import activation
from deep_bench.reference.operators._arguments import check_choice

Function = Callable[..., Any]


def _clip(x, *, low, high):
    return np.minimum(np.maximum(x, low), high)


def _scaled_tanh(x, *, alpha, beta):
    return alpha * np.tanh(beta * x)


def _parametric_softplus(x, *, alpha, beta):
    return alpha * activation.Softplus(beta * x)


_AFTER_CONV: Mapping[str, tuple[Function, tuple[str, ...]]] = {
    "Clip": (_clip, ("low", "high")),
    "HardSigmoid": (activation.HardSigmoid, ("alpha", "beta")),
    "HardSwish": (activation.HardSwish, ()),
    "LeakyRelu": (activation.LeakyRelu, ("alpha",)),
    "Relu": (activation.Relu, ()),
    "Sigmoid": (activation.Sigmoid, ()),
    "Tanh": (np.tanh, ()),
}

_AFTER_GEMM: Mapping[str, tuple[Function, tuple[str, ...]]] = {
    "Celu": (activation.Celu, ("alpha",)),
    "Elu": (activation.Elu, ("alpha",)),
    "HardSigmoid": (activation.HardSigmoid, ("alpha", "beta")),
    "LeakyRelu": (activation.LeakyRelu, ("alpha",)),
    "ParametricSoftplus": (_parametric_softplus, ("alpha", "beta")),
    "Relu": (activation.Relu, ()),
    "ScaledTanh": (_scaled_tanh, ("alpha", "beta")),
    "Selu": (activation.Selu, ("alpha", "gamma")),
    "Sigmoid": (activation.Sigmoid, ()),
    "Softplus": (activation.Softplus, ()),
    "Softsign": (activation.Softsign, ()),
    "Tanh": (np.tanh, ()),
    "ThresholdedRelu": (activation.ThresholdedRelu, ("alpha",)),
}


def after_conv(name: str | None, values: Sequence[float] | None) -> Function:
    """The activation of a fused convolution, with its parameters in order.

    Raises:
        Unsupported: No such activation is defined, or it takes more parameters than came.
    """
    if name is None:
        return _same
    check_choice("FusedConv", "activation", name, _AFTER_CONV)
    function, parameters = _AFTER_CONV[name]
    return _bound("FusedConv", name, function, parameters, dict(zip(parameters, values or (), strict=False)))


def after_gemm(name: str | None, values: Mapping[str, float | None]) -> Function:
    """The activation of a fused matrix product, with its parameters by name.

    Raises:
        Unsupported: No such activation is defined, or one of its parameters is missing.
    """
    if name is None:
        return _same
    check_choice("FusedGemm", "activation", name, _AFTER_GEMM)
    function, parameters = _AFTER_GEMM[name]
    arguments = {p: v for p in parameters if (v := values[p]) is not None}
    return _bound("FusedGemm", name, function, parameters, arguments)


def _bound(
    operator: str, name: str, function: Function, parameters: tuple[str, ...], arguments: Mapping[str, float]
) -> Function:
    missing = [p for p in parameters if p not in arguments]
    if missing:
        raise Unsupported(
            f"{operator} with activation={name!r} and no {missing[0]} for it", f"all of {', '.join(parameters)}"
        )
    return functools.partial(function, **arguments)


def _same(x: Any) -> Any:
    return x
