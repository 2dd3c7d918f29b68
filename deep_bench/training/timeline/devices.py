"""What waits for a device, what reads its memory, and what works asynchronously here; adapters are named by string."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from deep_bench.errors import InvalidArgument
from deep_bench.registry import Registry

devices = Registry(
    "device to wait for",
    "deep_bench.timeline_devices",
    builtin={
        "tensorflow": "deep_bench.adapters.tensorflow.timeline:TensorFlowDevice",
        "torch": "deep_bench.adapters.torch.timeline:TorchDevice",
    },
    requires={"tensorflow": ("tensorflow",), "torch": ("torch",)},
    extras={"tensorflow": "deep-bench[tensorflow]", "torch": "deep-bench[torch]"},
)
"""Classes with the static functions ``synchronizer``, ``memory`` and ``asynchronous``."""

_ALWAYS_ASYNCHRONOUS = {"jax": "every device, the CPU too", "cupy": "CUDA"}


def synchronizer(asked: str | Callable[[], object] | None) -> Callable[[], object] | None:
    """What `timeline` was asked to wait with, as a function.

    Raises:
        InvalidArgument: Neither a name nor a function.
        UnknownName: A name that is not known.
    """
    device = _named(asked, "synchronize")
    return device if callable(asked) or device is None else device.synchronizer()


def memory_reader(asked: str | Callable[[], int] | None) -> Callable[[], int] | None:
    """What `timeline` was asked to read memory with, as a function that was tried once.

    Raises:
        InvalidArgument: Neither a name nor a function of no arguments that returns a number.
        UnknownName: A name that is not known.
    """
    device = _named(asked, "device_memory")
    read = device if callable(asked) or device is None else device.memory
    if read is not None and not isinstance(value := read(), int):
        raise InvalidArgument(f"device_memory gave {value!r}", "a whole number of bytes")
    return read


def asynchronous() -> dict[str, str]:
    """What works asynchronously in this process: framework to its devices. A framework that is not loaded is not asked."""
    by_framework = {name: where for name, where in _ALWAYS_ASYNCHRONOUS.items() if name in sys.modules}
    for name in devices:
        if name in sys.modules and (where := devices[name].asynchronous()) is not None:
            by_framework[name] = where
    return by_framework


def _named(choice: Any, purpose: str) -> Any:
    """A function or None as it is, and a name's device."""
    if choice is None or callable(choice):
        return choice
    if not isinstance(choice, str):
        raise InvalidArgument(f"{purpose}={choice!r}", f"one of {', '.join(devices)}, a function, or None")
    return devices[choice]
