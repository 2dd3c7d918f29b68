"""jax's arrays, and where they live."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import numpy as np

from deep_bench.adapters.options import one_of
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.framework import Device

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
        return _made, (self.platform,)

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


def _made(platform: str) -> JaxDevice:
    return JaxDevice(device=platform)
