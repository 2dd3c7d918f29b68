"""jax: functions of its arrays as operators, and where its arrays live."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from deep_bench.adapters.wrapping import Pull, Remembered, one_of
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device
from deep_bench.operators.wrapping import Parts, with_signature

_PLATFORMS = ("cpu", "gpu", "tpu")


class JaxDevice(Device[Any]):
    """A device of jax.

    Args:
        device: ``"cpu"``, ``"gpu"`` or ``"tpu"``.

    Raises:
        InvalidArgument: Another one.
        Unsupported: jax has no such device here.
    """

    name: ClassVar[str] = "jax"

    def __init__(self, *, device: str = "cpu") -> None:
        self.platform = str(one_of("device", device, _PLATFORMS))
        try:
            self.device = jax.devices(self.platform)[0]
        except RuntimeError as error:
            raise Unsupported(f"jax has no device {device!r} here: {error}", "device='cpu'") from error

    def __reduce__(self) -> Any:
        return _device_of, (self.platform,)

    @classmethod
    def parse(cls, text: str) -> JaxDevice:
        """The device that ``"jax"`` or ``"jax:device=gpu"`` names.

        Raises:
            InvalidArgument: Other options.
        """
        name, _, option = text.partition(":")
        key, _, value = option.partition("=")
        if name != "jax" or (option and (key != "device" or not value)):
            raise InvalidArgument(f"device {text!r}", "'jax', or 'jax:device=gpu'")
        return cls(device=value) if option else cls()

    def from_numpy(self, array: np.ndarray) -> Any:
        """An array on the device.

        Raises:
            Unsupported: jax has no such element type, or is not asked to keep 64 bits.
        """
        array = np.asarray(array)
        if array.dtype.itemsize == 8 and array.dtype.kind in "iuf" and not jax.config.read("jax_enable_x64"):
            return self._narrowed(array)
        try:
            return jax.device_put(np.array(array), self.device)
        except TypeError as error:
            raise Unsupported(f"jax has no arrays of {array.dtype}", advice="convert it first") from error

    def to_numpy(self, array: Any) -> np.ndarray:
        """A copy of its contents."""
        return np.array(array)

    def synchronize(self) -> None:
        """Wait for all work given to the device, which is done in order."""
        jax.device_put(np.zeros((), np.float32), self.device).block_until_ready()
        jax.effects_barrier()

    def describe(self) -> Mapping[str, str]:
        """Version, device and precision."""
        wide = "on" if jax.config.read("jax_enable_x64") else "off"
        return {"version": jax.__version__, "device": str(self.device), "precision": f"64 bits {wide}"}

    def _narrowed(self, array: np.ndarray) -> Any:
        raise Unsupported(
            f"an array of {array.dtype}: jax keeps 32 bits unless it is told otherwise",
            "32 bits",
            'jax.config.update("jax_enable_x64", True) before anything else',
        )


def _device_of(platform: str) -> JaxDevice:
    return JaxDevice(device=platform)


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
