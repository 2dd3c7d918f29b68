"""MXNet as a lean adapter, through its own ONNX import. This file runs in MXNet's environment (docs/environments.md)."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


class MXNet:
    """The framework with its options, which it reads when it is imported.

    Args:
        threads: Threads within an operator, as text; by default MXNet's own choice.
    """

    def __init__(self, threads: str | None = None) -> None:
        if threads is not None:
            if not threads.isdigit() or int(threads) < 1:
                raise ValueError(f"threads={threads}: a whole number above 0 is expected")
            os.environ["OMP_NUM_THREADS"] = os.environ["MXNET_CPU_WORKER_NTHREADS"] = threads
        self._threads = threads
        self._mxnet = importlib.import_module("mxnet")
        self._onnx = importlib.import_module("onnx")

    def describe(self) -> dict[str, str]:
        """The facts of a report."""
        features = self._mxnet.runtime.Features()
        return {
            "version": str(self._mxnet.__version__),
            "device": "cpu",
            "threads": self._threads or "default",
            "precision": "as the network",
            "mkldnn": "on" if features.is_enabled("MKLDNN") else "off",
            "onnx": str(self._onnx.__version__),
        }

    def prepare(self, model: bytes) -> ImportedNetwork:
        """Import a network."""
        importer = importlib.import_module("mxnet.contrib.onnx")
        with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
            file.write(model)
            file.flush()
            symbol, arguments, states = importer.import_model(file.name)
        graph = self._onnx.load_from_string(model).graph
        return ImportedNetwork(self._mxnet, symbol, {**arguments}, {**states}, graph)

    def synchronize(self) -> None:
        """Wait for all that was begun."""
        self._mxnet.nd.waitall()


class ImportedNetwork:
    """An imported network.

    Args:
        mxnet: The package.
        symbol: The network.
        arguments: Name to parameter.
        states: Name to running statistic.
        graph: The graph that it was imported from.
    """

    def __init__(self, mxnet: Any, symbol: Any, arguments: dict[str, Any], states: dict[str, Any], graph: Any) -> None:
        self._mxnet, self._symbol, self._arguments, self._states = mxnet, symbol, arguments, states
        self.nodes = [node.name for node in graph.node]
        self._names = [value.name for value in graph.output]

    def bind(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], list[Any]]:
        """A call that runs it on these inputs."""
        executor = self._executor(inputs)
        return lambda: executor.forward(is_train=False)

    def from_numpy(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], dict[str, np.ndarray]]:
        """A call that runs it from and to NumPy arrays."""
        executor = self._executor(inputs)

        def call() -> dict[str, np.ndarray]:
            fed = {name: self._native(array) for name, array in inputs.items()}
            return self.to_numpy(executor.forward(is_train=False, **fed))

        return call

    def to_numpy(self, outputs: list[Any]) -> dict[str, np.ndarray]:
        """Name to array; waits for them."""
        return {name: output.asnumpy() for name, output in zip(self._names, outputs)}  # noqa: B905 (Python 3.9)

    def _executor(self, inputs: Mapping[str, np.ndarray]) -> Any:
        argument_names = set(self._symbol.list_arguments())
        fed = {name: self._native(array) for name, array in inputs.items()}
        arguments = {name: array for name, array in {**self._arguments, **fed}.items() if name in argument_names}
        return self._symbol.bind(self._mxnet.cpu(), arguments, aux_states=self._states, grad_req="null")

    def _native(self, array: np.ndarray) -> Any:
        return self._mxnet.nd.array(array, dtype=array.dtype)
