"""A network in one framework as worker processes hold it: to be timed, to be profiled, or to be run where it may crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from deep_bench.errors import Unsupported
from deep_bench.events import in_turn
from deep_bench.fault import Exposure, exposures, remarks
from deep_bench.framework import Adapter, Executor, as_declared
from deep_bench.graph import Network
from deep_bench.graph.node import attach_kernels
from deep_bench.measure.metrics import forget_peak, resident_bytes
from deep_bench.network.problem import unpickled
from deep_bench.variant import Variant
from deep_bench.workers.evidence import peak_memory_bytes

NATIVE = "native"
"""The name of the timed call on the framework's own arrays."""


NUMPY = "numpy"
"""The name of the timed call from and to NumPy arrays, checks of the inputs included."""


class NetworkSystem:
    """What a worker process holds of one system under test.

    Args:
        variant: The framework with its options, as on the command line.
        network: A file with the network, all of whose input dimensions are fixed.
        source: A file with the network as it was given, for frameworks that run files as they are.
        inputs: What it is fed.
        kernels: Name of each node that a kernel of the user's computes to that kernel, pickled.
        loss: Name of the output to differentiate; ``None`` for the way forward only.
    """

    def __init__(
        self,
        variant: str,
        network: str,
        source: str,
        inputs: Mapping[str, np.ndarray],
        kernels: Mapping[str, bytes] = MappingProxyType({}),
        loss: str | None = None,
    ) -> None:
        self.variant = Variant.parse(variant)
        self.inputs = dict(inputs)
        self._network, self._source, self._loss = Path(network), Path(source), loss
        self._kernels = unpickled(kernels)
        self.threaded = self.variant.options.get("threads") != "1"
        self._adapter: Adapter[Any] | None = None
        self._prepared: Network | None = None
        self._executor: Executor[Any] | None = None
        self._native: dict[str, Any] = {}
        self._bound: Callable[[], Any] | None = None

    @property
    def timer(self) -> Any:
        """The device's own clock, where the executor has one."""
        return getattr(self._executor, "timer", None)

    def prepare(self) -> dict[str, Any]:
        """Import the framework, make the network ready and call it once.

        Returns:
            ``upgrades``, ``description`` (the adapter's own facts), ``forms``, ``exposures`` (to the framework's known
            faults); ``import_ns``, ``prepare_ns``, of which reading the file took ``read_ns``, and ``first_call_ns``; and
            ``resident``, the bytes of this process before and after each of these, with the peak of the first call.
        """
        resident = {"before": resident_bytes()}
        begin = perf_counter_ns()
        adapter = self._adapter = self.variant.create()
        imported = perf_counter_ns()
        resident["imported"] = resident_bytes()
        file = self._network if adapter.upgrades else self._source
        network = self._prepared = Network(ir.load(file), name=file.stem)
        attach_kernels(network.all_nodes(), self._kernels)
        read = perf_counter_ns()
        executor = self._executor = adapter.prepare(network, mode="inference" if self._loss is None else "train")
        adapter.synchronize()
        prepared = perf_counter_ns()
        resident["prepared"] = resident_bytes()
        try:
            native = self._native = {name: adapter.from_numpy(array) for name, array in self.inputs.items()}
            loss, is_peak_of_call = self._loss, forget_peak()
            self._bound = executor.bind(native) if loss is None else lambda: executor.gradients(native, loss)
            start = perf_counter_ns()
            self._bound()
            adapter.synchronize()
            first_call_ns = perf_counter_ns() - start
        except Exception as error:
            for remark in remarks(self._exposures(adapter)):
                error.add_note(remark)
            raise
        resident["called"] = resident_bytes()
        if is_peak_of_call:
            resident["peak"] = peak_memory_bytes()
        return {
            "upgrades": adapter.upgrades,
            "description": dict(adapter.describe()),
            "forms": executor.forms,
            "exposures": self._exposures(adapter),
            "import_ns": imported - begin,
            "read_ns": read - imported,
            "prepare_ns": prepared - imported,
            "first_call_ns": first_call_ns,
            "resident": resident,
        }

    def _exposures(self, adapter: Adapter[Any]) -> list[Exposure]:
        return exposures(Network(ir.load(self._network)), adapter.known_faults) if adapter.known_faults else []

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """The calls to time."""
        executor, bound = self._ready()
        return {NATIVE: bound} if self._loss is not None else {NATIVE: bound, NUMPY: lambda: executor(self.inputs)}

    def synchronize(self) -> None:
        """Wait for the device."""
        if self._adapter is not None:
            self._adapter.synchronize()

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the very call that is timed, copied to NumPy."""
        executor, bound = self._ready()
        outputs = bound()
        self.synchronize()
        assert self._prepared is not None
        return self._as_declared(self._prepared, {n: np.array(executor.device.to_numpy(a)) for n, a in outputs.items()})

    def run(self, serialized: bytes, inputs: Mapping[str, np.ndarray], kernels: Sequence[str] = ()) -> dict[str, np.ndarray]:
        """Prepare another network with the same adapter, and run it once.

        Args:
            serialized: The network.
            inputs: What it is fed.
            kernels: Names of the nodes that are computed by the kernels of the nodes of these names.
        """
        assert self._adapter is not None
        network = _network_of(serialized)
        attach_kernels(network.all_nodes(), {name: self._kernels[name] for name in kernels})
        return self._as_declared(network, self._adapter.prepare(network)(inputs))

    def profile(self, repeat: int) -> dict[str, Any]:
        """Where the time goes.

        Returns:
            ``profile``, a `NodeProfile`; and ``numpy``: in turn, ``native`` calls of ``forward`` and ``numpy`` calls that
            check and convert inputs and outputs too.
        """
        executor, _ = self._ready()
        profile = executor.profile(self._native, repeat=repeat, loss=self._loss)
        calls = {"native": executor.bind(self._native), "numpy": lambda: executor(self.inputs)}
        return {"profile": profile, "numpy": in_turn(calls, self.synchronize, repeat)}

    def algorithms(self) -> Mapping[str, tuple[str, ...] | str]:
        """See `Executor.algorithms`."""
        return self._ready()[0].algorithms(self._native)

    def _as_declared(self, network: Network, outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outputs in the declared element types: a variant of another precision is judged by its values."""
        return as_declared(network, outputs) if "dtype" in self.variant.options else dict(outputs)

    def _ready(self) -> tuple[Executor[Any], Callable[[], Any]]:
        if self._executor is None or self._bound is None:
            raise Unsupported(f"{self.variant} is not prepared", advice="call prepare() first")
        return self._executor, self._bound


_LEAST_CALLS = 5
_LEAST_NS = 30_000_000


class NetworkRunner:
    """Runs and times networks, one after the other.

    Args:
        variant: The framework with its options, as on the command line.
    """

    def __init__(self, variant: str) -> None:
        self.adapter = Variant.parse(variant).create()

    def run(self, serialized: bytes, inputs: Mapping[str, np.ndarray]) -> None:
        """Prepare a network and run it once; nothing is sent back."""
        self.adapter.prepare(_network_of(serialized))(inputs)

    def seconds(self, serialized: bytes, inputs: Mapping[str, np.ndarray]) -> float:
        """The median time of a call on the framework's own arrays, warmed up."""
        executor = self.adapter.prepare(_network_of(serialized))
        call = executor.bind({name: self.adapter.from_numpy(array) for name, array in inputs.items()})
        times: list[int] = []
        for _ in range(3):
            call()
            self.adapter.synchronize()
        while len(times) < _LEAST_CALLS or sum(times) < _LEAST_NS:
            start = perf_counter_ns()
            call()
            self.adapter.synchronize()
            times.append(perf_counter_ns() - start)
        return float(np.median(times)) / 1e9


def _network_of(serialized: bytes) -> Network:
    return Network.from_proto(onnx.load_from_string(serialized))
