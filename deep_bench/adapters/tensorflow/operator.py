"""Functions of TensorFlow's tensors as operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from deep_bench.adapters.tensorflow.adapter import TensorFlowAdapter
from deep_bench.adapters.wrapping import Pull, Remembered
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.wrapping import Parts, with_signature
from deep_bench.variant import Variant


def parts(function: Callable[..., Any], device: str | Device[Any] | None) -> Parts:
    """The parts of an operator that TensorFlow computes; see `deep_bench.operators.wrap`.

    Raises:
        InvalidArgument: The device is another framework's.
    """
    choice = "tensorflow" if device is None else device
    place = Variant.parse(choice).create() if isinstance(choice, str) else choice
    if not isinstance(place, TensorFlowAdapter):
        raise InvalidArgument(
            f"device {getattr(place, 'name', place)!r} for a function of TensorFlow's tensors", "tensorflow"
        )
    compiled = tf.function(function, jit_compile=True, autograph=False) if place.jit else function
    placed = _on_device(compiled, place.place) if tf.config.list_physical_devices("GPU") else compiled
    again = None
    if isinstance(function, tf.types.experimental.PolymorphicFunction):
        settings = (function.python_function, function._jit_compile, function._autograph)
        again = (f"{__name__}:graph", settings)
    return Parts(place, with_signature(placed, _signed(function)), _TapeGradients(placed), again)


def graph(function: Callable[..., Any], jit_compile: bool | None, autograph: bool) -> Any:
    """A ``tf.function`` that has been traced for nothing yet."""
    return tf.function(function, jit_compile=jit_compile, autograph=autograph)


class _TapeGradients:
    """An `Operator.backward` by a gradient tape.

    Args:
        function: The function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._eager = Remembered(self._recorded)

    def __call__(
        self, grads: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], **attributes: Any
    ) -> tuple[Any, ...]:
        """See `deep_bench.operators.Operator.backward`; in a trace nothing of it is kept."""
        if tf.executing_eagerly():
            return self._eager(grads, inputs, outputs, **attributes)
        return self._recorded(inputs, attributes)(grads)

    def _recorded(self, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Pull:
        reals = [i for i, x in enumerate(inputs) if x is not None and x.dtype.is_floating]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([inputs[i] for i in reals])
            outcome = self._function(*inputs, **attributes)
        results = outcome if isinstance(outcome, tuple) else (outcome,)

        def pull(grads: Sequence[Any]) -> tuple[Any, ...]:
            pairs = [(y, g) for y, g in zip(results, grads, strict=True) if g is not None and y.dtype.is_floating]
            gradients: list[Any] = [None] * len(inputs)
            if pairs:
                outputs, weights = zip(*pairs, strict=True)
                answers = self._asked(tape, outputs, [inputs[i] for i in reals], weights)
                for index, gradient in zip(reals, answers, strict=True):
                    gradients[index] = None if gradient is None else tf.convert_to_tensor(gradient)
            return tuple(gradients)

        return pull

    def _asked(self, tape: Any, outputs: Sequence[Any], inputs: Sequence[Any], weights: Sequence[Any]) -> Sequence[Any]:
        try:
            answers: Sequence[Any] = tape.gradient(list(outputs), list(inputs), output_gradients=list(weights))
        except LookupError as error:
            raise Unsupported(
                f"TensorFlow has no gradient of an operation in {_called(self._function)}: {error}",
                advice="give one: wrap(…, backward=…)",
            ) from error
        if inputs and all(answer is None for answer in answers):
            raise Unsupported(
                f"TensorFlow does not see how {_called(self._function)} computes its results from its inputs",
                "a function of TensorFlow's differentiable operations",
                "give its gradient: wrap(…, backward=…)",
            )
        return answers


def _on_device(function: Callable[..., Any], place: str) -> Callable[..., Any]:
    """The function on a device; TensorFlow would move what it can to a GPU."""

    def run(*inputs: Any, **attributes: Any) -> Any:
        with tf.device(place):
            return function(*inputs, **attributes)

    return run


def _signed(function: Any) -> Any:
    """What has the function's own signature: the code behind a graph or a layer."""
    if hasattr(function, "python_function"):
        return function.python_function
    return getattr(function, "call", function)


def _called(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
