"""Functions of jax's arrays as operators."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from deep_bench.adapters.jax.device import JaxDevice
from deep_bench.adapters.remembered import Pull, Remembered
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Device
from deep_bench.operators.wrapping import Parts, with_signature


def parts(function: Callable[..., Any], device: str | Device[Any] | None) -> Parts:
    """The parts of an operator that jax computes, compiled once for each shape and each value of an attribute.

    Raises:
        InvalidArgument: The device is another framework's.
    """
    place = JaxDevice() if device is None else JaxDevice.parse(device) if isinstance(device, str) else device
    if not isinstance(place, JaxDevice):
        raise InvalidArgument(f"device {getattr(place, 'name', place)!r} for a function of jax's arrays", "jax")
    jitted = function if hasattr(function, "lower") else jax.jit(function, static_argnames=_keywords(function))
    return Parts(place, with_signature(jitted, getattr(function, "__wrapped__", function)), Remembered(_Derivative(jitted)))


class _Derivative:
    """Runs a function with what its derivative needs.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Pull:
        """The way back from the results to the inputs."""
        reals = [i for i, x in enumerate(inputs) if x is not None and jnp.issubdtype(x.dtype, jnp.inexact)]

        places: list[int] = []

        def of_reals(*values: Any) -> tuple[Any, ...]:
            full = list(inputs)
            for index, value in zip(reals, values, strict=True):
                full[index] = value
            outcome = self._function(*full, **attributes)
            results = outcome if isinstance(outcome, tuple) else (outcome,)
            places[:] = [i for i, y in enumerate(results) if jnp.issubdtype(y.dtype, jnp.inexact)]
            return tuple(results[i] for i in places)

        outputs, back = jax.vjp(of_reals, *(inputs[i] for i in reals))
        compiled = jax.jit(lambda weights: back(weights))

        def pull(grads: Sequence[Any]) -> tuple[Any, ...]:
            selected = [grads[i] for i in places]
            weights = tuple(jnp.zeros_like(y) if g is None else g for y, g in zip(outputs, selected, strict=True))
            gradients: list[Any] = [None] * len(inputs)
            for index, gradient in zip(reals, compiled(weights), strict=True):
                gradients[index] = gradient
            return tuple(gradients)

        return pull


def _keywords(function: Callable[..., Any]) -> list[str]:
    """The parameters that are attributes: keywords only, and those with a default."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY or isinstance(p.default, str | int | float | tuple)]
