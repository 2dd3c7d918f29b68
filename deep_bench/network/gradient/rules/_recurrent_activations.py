"""The activation functions that recurrent networks name in an attribute, and their slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deep_bench.errors import Unsupported
from deep_bench.network.gradient.symbol import Symbol

Function = Callable[..., Symbol]


def _bell(x: Symbol) -> Symbol:
    """The slope of the sigmoid, which ``y (1 - y)`` loses to rounding where ``y`` is nearly 1."""
    small = x.tape.Exp(-x.tape.Abs(x))
    return small / ((small + 1) * (small + 1))


def _rounded_bell(x: Symbol) -> Symbol:
    y = x.tape.Sigmoid(x)
    return y * (1 - y)


def _rounded_arch(x: Symbol) -> Symbol:
    y = x.tape.Tanh(x)
    return 1 - y * y


def _exponential(x: Symbol) -> Symbol:
    """``exp(x)`` where ``x`` is negative, and 1 elsewhere."""
    return x.tape.Exp(x.tape.Min(x, 0))


def _hard_sigmoid_slope(x: Symbol, alpha: float, beta: float) -> Symbol:
    y = x * alpha + beta
    return ((y > 0) & (y < 1)).cast(x) * alpha


def _softsign_slope(x: Symbol) -> Symbol:
    divisor = x.tape.Abs(x) + 1
    return x.tape.Reciprocal(divisor * divisor)


# The function and its slope, of x and the parameters from activation_alpha and activation_beta; defaults of these.
_FUNCTIONS: dict[str, tuple[Function, Function, dict[str, float]]] = {
    "affine": (
        lambda x, alpha, beta: x * alpha + beta,
        lambda x, alpha, _beta: x.tape.zeros_like(x) + alpha,
        {"alpha": 1.0, "beta": 0.0},
    ),
    "elu": (
        lambda x, alpha: x.tape.Where(x > 0, x, (_exponential(x) - 1) * alpha),
        lambda x, alpha: x.tape.Where(x > 0, 1, _exponential(x) * alpha),
        {"alpha": 1.0},
    ),
    "hardsigmoid": (
        lambda x, alpha, beta: x.tape.Clip(x * alpha + beta, 0, 1),
        _hard_sigmoid_slope,
        {"alpha": 0.2, "beta": 0.5},
    ),
    "leakyrelu": (
        lambda x, alpha: x.tape.Where(x > 0, x, x * alpha),
        lambda x, alpha: x.tape.Where(x > 0, x.tape.constant(1, x.dtype), alpha),
        {"alpha": 0.01},
    ),
    "relu": (lambda x: x.tape.Relu(x), lambda x: (x > 0).cast(x), {}),
    "scaledtanh": (
        lambda x, alpha, beta: x.tape.Tanh(x * beta) * alpha,
        lambda x, alpha, beta: _bell(x * (2 * beta)) * (4 * alpha * beta),
        {"alpha": 1.0, "beta": 1.0},
    ),
    "sigmoid": (lambda x: x.tape.Sigmoid(x), _bell, {}),
    "softplus": (lambda x: x.tape.Softplus(x), lambda x: x.tape.Sigmoid(x), {}),
    "softsign": (lambda x: x / (x.tape.Abs(x) + 1), _softsign_slope, {}),
    "tanh": (lambda x: x.tape.Tanh(x), lambda x: _bell(x + x) * 4, {}),
    "thresholdedrelu": (
        lambda x, alpha: x.tape.Where(x >= alpha, x, 0),
        lambda x, alpha: (x >= alpha).cast(x),
        {"alpha": 1.0},
    ),
}


# The slope from the function's rounded value, of x and the parameters: how frameworks write those that saturate.
_ROUNDED_SLOPES: dict[str, Function] = {
    "scaledtanh": lambda x, alpha, beta: _rounded_arch(x * beta) * (alpha * beta),
    "sigmoid": _rounded_bell,
    "tanh": _rounded_arch,
}


@dataclass(frozen=True)
class Activation:
    """An activation function with its parameters.

    Args:
        function: From ``x`` and the parameters to the value.
        derivative: From ``x`` and the parameters to the slope.
        parameters: Its ``alpha`` and ``beta``, as far as it has them.
        clip: The argument is limited to ``[-clip, clip]``; ``None`` for no limit.
    """

    function: Function
    derivative: Function
    parameters: tuple[float, ...]
    clip: float | None

    def __call__(self, x: Symbol) -> Symbol:
        """The function's value."""
        return self.function(self._clipped(x), *self.parameters)

    def slope(self, x: Symbol) -> Symbol:
        """The function's derivative; 0 beyond the limit."""
        slope = self.derivative(self._clipped(x), *self.parameters)
        return slope if self.clip is None else x.tape.Where(x.tape.Abs(x) <= self.clip, slope, 0)

    def _clipped(self, x: Symbol) -> Symbol:
        return x if self.clip is None else x.tape.Clip(x, -self.clip, self.clip)


def activation_functions(
    names: Sequence[str],
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    clip: float | None,
    rounded_slopes: bool,
) -> list[Activation]:
    """The functions behind ``names``; each takes its parameters from the front of ``alphas`` and ``betas`` while they last.

    With ``rounded_slopes`` slopes are taken from the rounded values, as `Backward` says.

    Raises:
        Unsupported: The standard knows no such function.

    Source:
        ONNX LSTM, opset 22.
    """
    values = {"alpha": list(alphas or ()), "beta": list(betas or ())}
    activations = []
    for name in names:
        if name.lower() not in _FUNCTIONS:
            raise Unsupported(f"the activation {name!r} is not one of {', '.join(_FUNCTIONS)}")
        function, derivative, parameters = _FUNCTIONS[name.lower()]
        if rounded_slopes:
            derivative = _ROUNDED_SLOPES.get(name.lower(), derivative)
        chosen = tuple(values[p].pop(0) if values[p] else default for p, default in parameters.items())
        activations.append(Activation(function, derivative, chosen, clip))
    return activations
