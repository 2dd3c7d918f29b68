"""The activation functions that recurrent networks name in an attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.reference.operators import activation

Function = Callable[[Any], Any]


def _affine(x, *, alpha=1.0, beta=0.0):
    return alpha * x + beta


def _scaled_tanh(x, *, alpha=1.0, beta=1.0):
    return alpha * np.tanh(beta * x)


def _thresholded_relu(x, *, alpha=1.0):
    # Here the standard includes alpha itself, in the operator ThresholdedRelu it does not.
    return np.where(x >= alpha, x, np.zeros_like(x, shape=()))


# Name to the function and the parameters that it takes from activation_alpha and activation_beta.
_FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "affine": (_affine, ("alpha", "beta")),
    "elu": (activation.Elu, ("alpha",)),
    "hardsigmoid": (activation.HardSigmoid, ("alpha", "beta")),
    "leakyrelu": (activation.LeakyRelu, ("alpha",)),
    "relu": (activation.Relu, ()),
    "scaledtanh": (_scaled_tanh, ("alpha", "beta")),
    "sigmoid": (activation.Sigmoid, ()),
    "softplus": (activation.Softplus, ()),
    "softsign": (activation.Softsign, ()),
    "tanh": (np.tanh, ()),
    "thresholdedrelu": (_thresholded_relu, ("alpha",)),
}


def activation_functions(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None, clip: float | None
) -> list[Function]:
    """The functions behind ``names``; each takes its parameters from the front of ``alphas`` and ``betas`` while they last.

    Args:
        names: Names as ONNX spells them, in any case.
        alphas: Values for the functions that have an alpha, in order.
        betas: Values for the functions that have a beta, in order.
        clip: The arguments of all functions are limited to ``[-clip, clip]``; ``None`` for no limit.

    Raises:
        Unsupported: The standard knows no such function.

    Source:
        ONNX LSTM, opset 22.
    """
    values = {"alpha": list(alphas or ()), "beta": list(betas or ())}
    return [_one(name, values, clip) for name in names]


def _one(name: str, values: dict[str, list[float]], clip: float | None) -> Function:
    if name.lower() not in _FUNCTIONS:
        raise Unsupported(
            f"a recurrent network with the activation {name!r}", f"one of {', '.join(_FUNCTIONS)}, in any case"
        )
    function, parameters = _FUNCTIONS[name.lower()]
    chosen = {p: values[p].pop(0) for p in parameters if values[p]}
    if clip is None:
        return lambda x: function(x, **chosen)
    return lambda x: function(np.minimum(np.maximum(x, -clip), clip), **chosen)
