"""Frameworks that crash or are slow on a pattern, named by their import path so that worker processes can have them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

import deep_bench as db
from deep_bench.framework import Adapter, Executor
from deep_bench.graph import Network


class _Host(Adapter[np.ndarray]):
    name = "host"

    def __init__(self) -> None:
        self.host = db.frameworks["reference"]()

    def prepare(self, network: Network, *, mode: Any = "inference", outputs: Sequence[str] | None = None) -> Executor[Any]:
        return self.host.prepare(network, mode=mode, outputs=outputs)

    def describe(self) -> Mapping[str, str]:
        return self.host.describe()

    def from_numpy(self, array: np.ndarray) -> np.ndarray:
        return array

    def to_numpy(self, array: np.ndarray) -> np.ndarray:
        return np.asarray(array)

    def synchronize(self) -> None:
        pass


class Aborting(_Host):
    """Its process ends on a Relu that feeds an Add; on a MatMul alone it raises."""

    def prepare(self, network: Network, *, mode: Any = "inference", outputs: Sequence[str] | None = None) -> Executor[Any]:
        for node in network.nodes:
            if node.op_type == "Add" and any(v is not None and _giver(v) == "Relu" for v in node.inputs):
                os._exit(3)
        if [n.op_type for n in network.nodes] == ["MatMul"]:
            raise RuntimeError("a MatMul alone")
        return super().prepare(network, mode=mode, outputs=outputs)


def _giver(value: Any) -> str:
    producer = value.producer()
    return "" if producer is None else str(producer.op_type)


class Sleeping(_Host):
    """Takes 5 ms more for every call of a network with a Softmax."""

    def prepare(self, network: Network, *, mode: Any = "inference", outputs: Sequence[str] | None = None) -> Executor[Any]:
        executor = super().prepare(network, mode=mode, outputs=outputs)
        if any(n.op_type == "Softmax" for n in network.nodes):
            executor.bind = lambda inputs: _slowly(executor.forward, inputs)
        return executor


def _slowly(forward: Callable[[Any], Any], inputs: Any) -> Callable[[], Any]:
    def call() -> Any:
        time.sleep(0.005)
        return forward(inputs)

    return call


class Refusing(_Host):
    """Raises on every network."""

    def prepare(self, network: Network, *, mode: Any = "inference", outputs: Sequence[str] | None = None) -> Executor[Any]:
        raise RuntimeError(f"{network.name} is refused")


class Fragile(_Host):
    """Is 1 % off and slow on every network with an Exp; one with a Tan and no Exp ends its process.

    Args:
        how: By which signal.
    """

    def __init__(self, *, how: str = "SIGSEGV") -> None:
        super().__init__()
        self.how = signal.Signals[how]

    def prepare(self, network: Network, *, mode: Any = "inference", outputs: Sequence[str] | None = None) -> Executor[Any]:
        executor = super().prepare(network, mode=mode, outputs=outputs)
        types = {n.op_type for n in network.nodes}
        if "Exp" in types:
            return _Off(executor)
        if "Tan" in types:
            os.kill(os.getpid(), self.how)
        return executor


class _Off(Executor[np.ndarray]):
    """Another's results and 1 % more, 5 ms later."""

    module = SimpleNamespace(code="y * 1.01")

    def __init__(self, other: Executor[Any]) -> None:
        self._other, self.device = other, other.device
        self.inputs, self.output_names, self.parameters = other.inputs, other.output_names, other.parameters

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        return {name: (y * np.float32(1.01)).astype(y.dtype) for name, y in self._other(inputs).items()}

    def forward(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return self(inputs)

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        return _slowly(self, inputs)
