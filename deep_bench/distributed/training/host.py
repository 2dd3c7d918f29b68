"""A framework whose arrays have no arithmetic, with NumPy arrays in their place, so that any optimizer can be used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, cast

import numpy as np

from deep_bench.arrays import NUMPY, NumpyFunctions
from deep_bench.errors import InvalidArgument
from deep_bench.framework import Adapter, Executor, Mode, map_arrays
from deep_bench.graph import Network
from deep_bench.training.steps import has_arithmetic

Ready = Callable[[str, np.ndarray], None]


def with_arithmetic(adapter: Adapter[Any]) -> Adapter[Any]:
    """The adapter; or `OnHost` of it, where its arrays have no arithmetic."""
    return adapter if has_arithmetic(adapter) else OnHost(adapter)


class OnHost(Adapter[np.ndarray]):
    """An adapter with NumPy arrays for its own: each call copies what goes in and what comes out.

    Args:
        adapter: The framework.
    """

    name = "on host"
    runs_kernels = True  # as far as the framework does, which refuses them otherwise

    def __init__(self, adapter: Adapter[Any]) -> None:
        self._adapter = adapter
        self.name = adapter.name  # type: ignore[misc]

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        """A copy."""
        return np.array(array)

    def adopt(self, array: np.ndarray) -> np.ndarray:
        """The array itself."""
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        """A copy."""
        return np.array(array)

    def synchronize(self) -> None:
        """Return when the framework has done its work."""
        self._adapter.synchronize()

    @property
    def xp(self) -> NumpyFunctions:
        """NumPy's."""
        return NUMPY

    def prepare(self, network: Network, *, mode: Mode = "inference", outputs: Sequence[str] | None = None) -> HostExecutor:
        """See `Adapter.prepare`."""
        return HostExecutor(self, self._adapter, self._adapter.prepare(network, mode=mode, outputs=outputs))

    def describe(self) -> Mapping[str, str]:
        """The framework's facts."""
        return {**self._adapter.describe(), "updates": "NumPy"}


class HostExecutor(Executor[np.ndarray]):
    """A framework's executor, fed and asked in NumPy arrays.

    Args:
        device: What it says its device is.
        adapter: That of the framework.
        executor: The framework's.
    """

    def __init__(self, device: OnHost, adapter: Adapter[Any], executor: Executor[Any]) -> None:
        self.device, self._adapter, self._executor = device, adapter, executor
        self.inputs, self.output_names = executor.inputs, executor.output_names
        self.forms, self.network = executor.forms, executor.network
        self.parameters = _Parameters(adapter, executor.parameters)

    def forward(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `Executor.forward`."""
        return self._host(self._executor.forward(self._native(inputs)))

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        """See `Executor.bind`."""
        call = self._executor.bind(self._native(inputs))
        return lambda: self._host(call())

    def gradients(
        self, inputs: Mapping[str, np.ndarray], loss: str, *, wrt: Sequence[str] | None = None, on_ready: Ready | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """See `Executor.gradients`."""
        copied: dict[str, np.ndarray] = {}

        def ready(name: str, gradient: Any) -> None:
            copied[name] = self._adapter.to_numpy(gradient)
            cast(Ready, on_ready)(name, copied[name])

        callback = None if on_ready is None else ready
        outputs, gradients = self._executor.gradients(self._native(inputs), loss, wrt=wrt, on_ready=callback)
        remaining = {name: gradient for name, gradient in gradients.items() if name not in copied}
        host_gradients = {**self._host(remaining), **copied}
        return self._host(outputs), {name: host_gradients[name] for name in gradients}

    def _native(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: map_arrays(self._adapter.from_numpy, value) for name, value in inputs.items()}

    def _host(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        self._adapter.synchronize()
        return {name: map_arrays(self._adapter.to_numpy, value) for name, value in outputs.items()}


class _Parameters(MutableMapping[str, np.ndarray]):
    """A copy of the parameters, which the framework is given at every assignment."""

    def __init__(self, adapter: Adapter[Any], held: MutableMapping[str, Any]) -> None:
        self._adapter, self._held = adapter, held
        self._copies: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._copies:
            self._copies[name] = self._adapter.to_numpy(self._held[name])
        return self._copies[name]

    def __setitem__(self, name: str, value: np.ndarray) -> None:
        self._held[name] = self._adapter.from_numpy(value)
        self._copies[name] = value

    def __delitem__(self, name: str) -> None:
        raise InvalidArgument(f"parameter {name!r} cannot be deleted", "an assignment")

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)
