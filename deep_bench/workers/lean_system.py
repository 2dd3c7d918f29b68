"""A network in a framework that runs without deep_bench. This file runs there: Python 3.9, its library and NumPy."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from deep_bench.errors import FrameworkMissing, InvalidArgument, Unsupported
from deep_bench.workers.wire import ForeignObject


class LeanSystem:
    """What a worker holds of such a framework; see `deep_bench.workers.host.System`.

    The adapter is made of the options, as text. It has ``describe()`` (name to text), ``prepare(model)``, which takes the
    bytes of an ONNX file and returns a prepared network, and ``synchronize()``. The prepared network has ``nodes`` (the
    names of those that it runs natively), ``bind(inputs)``, a function without arguments that runs it on these arrays,
    ``from_numpy(inputs)``, one that runs it from and to NumPy arrays, and ``to_numpy(outputs)``, name to array of what the
    first returned.

    Args:
        program: The file with the adapter.
        attribute: Its class there.
        options: Name to value, as written.
        network: The bytes of the network.
        inputs: What it is fed.
        quantities: What to call the call on the framework's arrays, and the one from and to NumPy arrays.
        install: What `pip install` is told to make such an environment.
    """

    def __init__(
        self,
        program: str,
        attribute: str,
        options: Mapping[str, str],
        network: bytes,
        inputs: Mapping[str, np.ndarray],
        quantities: Sequence[str],
        install: str = "",
    ) -> None:
        self._install = install
        self._program, self._attribute, self._options = program, attribute, dict(options)
        self._network, self._inputs, self._quantities = network, dict(inputs), tuple(quantities)
        self._adapter: Any = None
        self._prepared: Any = None
        self._bound: Callable[[], Any] | None = None
        self.threaded = options.get("threads") != "1"

    def prepare(self) -> dict[str, Any]:
        """Import the framework, make the network ready and call it once; as `deep_bench.network.system` does it."""
        begin = perf_counter_ns()
        adapter = self._adapter = self._made()
        imported = perf_counter_ns()
        self._prepared = adapter.prepare(self._network)
        prepared = perf_counter_ns()
        self._bound = self._prepared.bind(self._inputs)
        start = perf_counter_ns()
        self._bound()
        adapter.synchronize()
        return {
            "upgrades": False,
            "description": self._description(),
            "forms": ForeignObject("Forms", {"native": tuple(self._prepared.nodes)}),
            "exposures": [],
            "import_ns": imported - begin,
            "prepare_ns": prepared - imported,
            "first_call_ns": perf_counter_ns() - start,
        }

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """The calls to time."""
        native, from_numpy = self._quantities
        return {native: self._ready(), from_numpy: self._prepared.from_numpy(self._inputs)}

    def synchronize(self) -> None:
        """Wait for the device."""
        if self._adapter is not None:
            self._adapter.synchronize()

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the very call that is timed."""
        outputs = self._ready()()
        self.synchronize()
        return dict(self._prepared.to_numpy(outputs))

    def run(self, network: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Prepare another network, and run it once."""
        prepared = self._adapter.prepare(network)
        return dict(prepared.to_numpy(prepared.bind(dict(inputs))()))

    def _description(self) -> dict[str, str]:
        description = {str(name): str(value) for name, value in self._adapter.describe().items()}
        if missing := [name for name in ("version", "device", "threads", "precision") if name not in description]:
            raise InvalidArgument(f"describe() of {self._attribute} has no {missing[0]!r}", "what every report states")
        return description

    def _ready(self) -> Callable[[], Any]:
        if self._bound is None:
            raise Unsupported("the network is not prepared", advice="call prepare() first")
        return self._bound

    def _made(self) -> Any:
        spec = importlib.util.spec_from_file_location("deep_bench_lean_adapter", self._program)
        if spec is None or spec.loader is None:
            raise InvalidArgument(f"{self._program} is no file of Python code")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            raise self._missing(error) from error
        try:
            return getattr(module, self._attribute)(**self._options)
        except ModuleNotFoundError as error:
            raise self._missing(error) from error

    def _missing(self, error: ModuleNotFoundError) -> FrameworkMissing:
        advice = f"install it there: pip install {self._install}".rstrip()
        return FrameworkMissing(f"the environment has no {error.name}", advice=advice)
