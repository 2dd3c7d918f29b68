"""What `compare` compares: anything that has outputs, made ready so that these can be had and timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.check.ladder import in_float64
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.framework import Adapter, Executor, check_inputs
from deep_bench.graph import Network, as_network
from deep_bench.network.inputs import read_inputs
from deep_bench.registry import Registry
from deep_bench.tensor import is_float
from deep_bench.variant import Variant

Arrays = dict[str, np.ndarray]

wrappers = Registry(
    "wrapper of native code",
    "deep_bench.wrappers",
    builtin={
        "keras": "deep_bench.adapters.tensorflow:wrap",
        "onnxruntime": "deep_bench.adapters.onnxruntime:wrap",
        "torch": "deep_bench.adapters.torch:wrap",
    },
)
"""The package that a class comes from, to what makes an executor of its objects: ``wrap(thing, inputs, outputs)``."""


class Contestant:
    """One of the things that are compared.

    Args:
        label: What it is called.
        kind: What it is, in a few words.
        executor: What runs it, if that is an executor.
        function: What runs it, if that is a function of NumPy arrays.
        saved: Its outputs, if these are there already.
        adapter: What it was prepared by, if that is known: each node can then be run alone.
        network: The network that it was prepared from, if that is known.
        cast: Whether it runs in another precision than the network's, so that its outputs are judged by their values.
    """

    def __init__(
        self,
        label: str,
        kind: str,
        *,
        executor: Executor[Any] | None = None,
        function: Callable[[Arrays], Mapping[str, Any]] | None = None,
        saved: Arrays | None = None,
        adapter: Adapter[Any] | None = None,
        network: Network | None = None,
        cast: bool = False,
    ) -> None:
        self.label, self.kind = label, kind
        self.executor, self.adapter, self.network = executor, adapter, network
        self._function, self._saved, self._cast = function, saved, cast

    @property
    def upgrades(self) -> bool:
        """Whether its adapter runs networks in the newest opset; see `deep_bench.check.Subject`."""
        return self.adapter is None or self.adapter.upgrades

    def outputs(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Its outputs for these inputs, as NumPy arrays."""
        if self._saved is not None:
            return dict(self._saved)
        if self.executor is not None:
            return self._declared(self.network, self.executor(inputs))
        assert self._function is not None
        outputs = self._function(_copies(inputs))
        if not isinstance(outputs, Mapping):
            raise InvalidInput(f"a {type(outputs).__name__} as outputs", "a mapping from name to array")
        return {name: _array(name, array) for name, array in outputs.items()}

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Prepare another network with the same adapter, and run it."""
        if self.adapter is None:
            raise InvalidArgument(f"{self.label} runs no networks", "a framework, or a network in one")
        return self._declared(network, self.adapter.prepare(network)(inputs))

    def call(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], object] | None:
        """What is timed: a call on the framework's own arrays; a function's on NumPy arrays. ``None`` for saved outputs."""
        if self.executor is not None:
            checked = check_inputs(self.executor.inputs, inputs)
            return self.executor.bind({n: self.executor.device.from_numpy(a) for n, a in checked.items()})
        if self._function is None:
            return None
        function, arrays = self._function, _copies(inputs)
        return lambda: function(arrays)

    def _declared(self, network: Network | None, outputs: Mapping[str, Any]) -> Arrays:
        arrays = {name: _array(name, array) for name, array in outputs.items()}
        if network is None or not self._cast:
            return arrays
        declared = {spec.name: spec.dtype for spec in network.outputs}
        return {n: a.astype(declared[n]) if _widened(a, declared.get(n)) else a for n, a in arrays.items()}


def _copies(inputs: Mapping[str, np.ndarray]) -> Arrays:
    """Arrays of its own for a function, which may write into them."""
    return {name: np.array(array) for name, array in inputs.items()}


def _array(name: str, value: Any) -> np.ndarray:
    if value is None or (isinstance(value, list | tuple) and any(isinstance(item, np.ndarray) for item in value)):
        description = "an empty optional" if value is None else "a sequence"
        raise Unsupported(f"the output {name!r} is {description}", "tensors, since only those are compared")
    return np.asarray(value)


def _widened(array: np.ndarray, declared: np.dtype | None) -> bool:
    return declared is not None and is_float(declared) and is_float(array.dtype)


@dataclass(frozen=True)
class BoundSystem:
    """A contestant's call as a system under test; see `deep_bench.measure.system.System`.

    Args:
        call: What is timed.
        executor: What it belongs to, if to an executor.
    """

    call: Callable[[], object]
    executor: Executor[Any] | None
    threaded: bool = True

    @property
    def timer(self) -> Any:
        """The device's own clock, where the executor has one."""
        return getattr(self.executor, "timer", None)

    def prepare(self) -> dict[str, Any]:
        """Call it once; that it works is known, its device may still have something to compile."""
        self.call()
        return {}

    def calls(self) -> Mapping[str, Callable[[], object]]:
        """The one call."""
        return {"native": self.call}

    def synchronize(self) -> None:
        """Wait for the device."""
        if self.executor is not None:
            self.executor.device.synchronize()


class Subject:
    """A contestant that was prepared from the network in question, as the checker sees it.

    Args:
        contestant: The contestant.
        inputs: What it is judged on.
    """

    def __init__(self, contestant: Contestant, inputs: Mapping[str, np.ndarray]) -> None:
        self._contestant, self._inputs = contestant, inputs
        self.upgrades = contestant.upgrades

    def outputs(self) -> Arrays:
        """Its outputs, computed anew at each call."""
        return self._contestant.outputs(self._inputs)

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Prepare another network with the same adapter, and run it."""
        return self._contestant.run(network, inputs)

    def run_precisely(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """As `run`, in float64."""
        return self.run(*in_float64(network, inputs))


def make_contestant(
    given: Any, label: str, network: Network | None, inputs: Mapping[str, np.ndarray], outputs: tuple[str, ...] | None
) -> Contestant:
    """Make ready what `compare` was given.

    Args:
        given: See `deep_bench.network.compare`.
        label: What to call it.
        network: What frameworks run that were given by their name.
        inputs: What all are fed.
        outputs: How native code's outputs are named, where it returns as many.
    """
    if isinstance(given, tuple) and len(given) == 2:
        return _prepared(_adapter(given[0]), given[0], label, _network(given[1]))
    if isinstance(given, Mapping) or _is_file(given, ".npz"):
        saved = dict(given) if isinstance(given, Mapping) else read_inputs(given)
        return Contestant(label, "saved outputs", saved={name: np.asarray(array) for name, array in saved.items()})
    if isinstance(given, Network) or _is_file(given, ".onnx"):
        return _prepared(_adapter("reference"), "reference", label, _network(given))
    if isinstance(given, str | Variant | Adapter):
        if network is None:
            raise InvalidArgument(
                f"the framework {given} without a network",
                "network=…",
                f"or a network for it alone: ({str(given)!r}, network)",
            )
        return _prepared(_adapter(given), given, label, network)
    if isinstance(given, Executor):
        return Contestant(label, f"executor on {type(given.device).__name__}", executor=given)
    home = native_home(given)
    if home is not None:
        return Contestant(label, f"{home}: {type(given).__name__}", executor=_wrapped(home, given, inputs, outputs))
    if callable(given):
        return Contestant(label, "function of NumPy arrays", function=given)
    raise InvalidArgument(
        f"a {type(given).__name__} to compare",
        "a framework's name, (framework, network), a network, an executor, a module, model, session or function, "
        "or saved outputs",
    )


def native_home(thing: Any) -> str | None:
    """The package, among those whose native code can be wrapped, that an object's class comes from; imports nothing."""
    roots = [kind.__module__.partition(".")[0] for kind in type(thing).__mro__]
    return next((root for root in roots if root in wrappers), None)


def default_label(given: Any) -> str:
    """What a contestant is called that was given no label."""
    if isinstance(given, tuple) and len(given) == 2:
        return f"{default_label(given[0])} on {default_label(given[1])}"
    if isinstance(given, Mapping):
        return "saved outputs"
    if isinstance(given, Network | Adapter):
        return given.name
    if isinstance(given, str | Variant):
        return str(given)
    return given.stem if isinstance(given, Path) else getattr(given, "__name__", type(given).__name__)


def _wrapped(
    home: str, native_code: Any, inputs: Mapping[str, np.ndarray], outputs: tuple[str, ...] | None
) -> Executor[Any]:
    """Native code as an executor; its outputs under the names that others have for them, if there are as many."""
    wrap = wrappers[home]
    executor = wrap(native_code, inputs)
    if outputs is None or set(executor.output_names) == set(outputs) or len(executor.output_names) != len(outputs):
        return executor
    return wrap(native_code, inputs, outputs)


def _prepared(adapter: Adapter[Any], framework: Any, label: str, network: Network) -> Contestant:
    facts = adapter.describe()
    kind = f"{adapter.name} {facts['version']}, {facts['device']}" if {"version", "device"} <= set(facts) else adapter.name
    variant = Variant.parse(framework) if isinstance(framework, str) else framework
    cast = isinstance(variant, Variant) and "dtype" in variant.options
    return Contestant(label, kind, executor=adapter.prepare(network), adapter=adapter, network=network, cast=cast)


def _adapter(framework: Any) -> Adapter[Any]:
    if isinstance(framework, Adapter):
        return framework
    if not isinstance(framework, str | Variant):
        raise InvalidArgument(
            f"a {type(framework).__name__} as a framework", "a name such as 'torch:threads=1', or an adapter"
        )
    return (Variant.parse(framework) if isinstance(framework, str) else framework).create()


def _network(source: Any) -> Network:
    return as_network(source)


def _is_file(source: Any, suffix: str) -> bool:
    return isinstance(source, str | Path) and Path(source).suffix == suffix
