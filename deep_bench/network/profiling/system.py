"""A network in one framework as a thing to profile: built and looked into in a worker process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import onnx_ir as ir

from deep_bench.errors import Unsupported
from deep_bench.framework import Adapter, Executor
from deep_bench.graph import Network
from deep_bench.graph.attached import attach_kernels
from deep_bench.measure.observed import in_turn
from deep_bench.measure.resident import forget_peak, peak_memory_bytes, resident_bytes
from deep_bench.network.kernels import unpickled
from deep_bench.variant import Variant


class ProfiledSystem:
    """What a worker process holds of one system.

    Args:
        variant: The framework with its options, as on the command line.
        network: A file with the network, all of whose input dimensions are fixed.
        source: A file with the network as it was given, for frameworks that run files as they are.
        inputs: What it is fed.
        loss: Name of the output to differentiate; ``None`` for the way forward only.
        kernels: Name of each node that a kernel of the user's computes to that kernel, pickled.
    """

    def __init__(
        self,
        variant: str,
        network: str,
        source: str,
        inputs: Mapping[str, np.ndarray],
        loss: str | None,
        kernels: Mapping[str, bytes],
    ) -> None:
        self.variant = Variant.parse(variant)
        self.threaded = self.variant.options.get("threads") != "1"
        self._network, self._source, self._inputs, self._loss = Path(network), Path(source), dict(inputs), loss
        self._kernels = unpickled(kernels)
        self._adapter: Adapter[Any] | None = None
        self._executor: Executor[Any] | None = None
        self._native: dict[str, Any] = {}

    def prepare(self) -> dict[str, Any]:
        """Import the framework, make the network ready and call it once.

        Returns:
            ``description``, ``forms``; ``import_ns``, ``prepare_ns``, ``first_call_ns``; and ``resident``, the bytes of this
            process before and after each of these, with the peak of the first call.
        """
        resident = {"before": resident_bytes()}
        begin = perf_counter_ns()
        adapter = self._adapter = self.variant.create()
        imported = perf_counter_ns()
        resident["imported"] = resident_bytes()
        file = self._network if adapter.upgrades else self._source
        network = Network(ir.load(file), name=file.stem)
        attach_kernels(network.all_nodes(), self._kernels)
        read = perf_counter_ns()
        executor = self._executor = adapter.prepare(network, mode="inference" if self._loss is None else "train")
        adapter.synchronize()
        prepared = perf_counter_ns()
        resident["prepared"] = resident_bytes()
        self._native = {name: adapter.from_numpy(array) for name, array in self._inputs.items()}
        anew = forget_peak()
        start = perf_counter_ns()
        self._call()
        first = perf_counter_ns() - start
        resident["called"] = resident_bytes()
        if anew:
            resident["peak"] = peak_memory_bytes()
        return {
            "description": dict(adapter.describe()),
            "forms": executor.forms,
            "import_ns": imported - begin,
            "prepare_ns": prepared - read,
            "first_call_ns": first,
            "resident": resident,
        }

    def calls(self) -> dict[str, Any]:
        """The call that is profiled."""
        return {"native": self._call}

    def synchronize(self) -> None:
        """Wait for the device."""
        if self._adapter is not None:
            self._adapter.synchronize()

    def profile(self, repeat: int) -> dict[str, Any]:
        """Where the time goes.

        Returns:
            ``profile``, a `NodeProfile`; and ``numpy``: in turn, ``native`` calls of ``forward`` and ``numpy`` calls that
            check and convert inputs and outputs too.
        """
        executor = self._ready()
        profile = executor.profile(self._native, repeat=repeat, loss=self._loss)
        calls = {"native": executor.bind(self._native), "numpy": lambda: executor(self._inputs)}
        return {"profile": profile, "numpy": in_turn(calls, self.synchronize, repeat)}

    def algorithms(self) -> Mapping[str, tuple[str, ...] | str]:
        """See `Executor.algorithms`."""
        return self._ready().algorithms(self._native)

    def _call(self) -> None:
        executor = self._ready()
        if self._loss is None:
            executor.forward(self._native)
        else:
            executor.gradients(self._native, self._loss)
        self.synchronize()

    def _ready(self) -> Executor[Any]:
        if self._executor is None:
            raise Unsupported(f"{self.variant} is not prepared", advice="call prepare() first")
        return self._executor
