"""A framework under suspicion: it runs networks, and may give the values inside them."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from deep_bench import frameworks
from deep_bench.check.ladder import in_float64
from deep_bench.check.subject import Arrays
from deep_bench.errors import DeepBenchError, WorkerError
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.tensor import is_float
from deep_bench.variant import Variant


def as_adapter(on: str | Variant | Adapter[Any]) -> Adapter[Any]:
    """The adapter that a variant, as it is written on the command line or parsed, stands for; or the adapter itself."""
    if isinstance(on, Adapter):
        return on
    return (Variant.parse(on) if isinstance(on, str) else on).create()


def called(on: str | Variant | Adapter[Any]) -> str:
    """What reports call it."""
    return on.name if isinstance(on, Adapter) else str(on)


def converts(on: str | Variant | Adapter[Any]) -> bool:
    """Whether it has a precision of its own, so that its floats are judged by their values, whatever their type."""
    if isinstance(on, Adapter):
        return False
    return "dtype" in (Variant.parse(on) if isinstance(on, str) else on).options


def as_given(on: str | Variant | Adapter[Any]) -> bool:
    """Whether it runs networks as their files have them, open dimensions included."""
    if isinstance(on, Adapter):
        return not on.upgrades
    return not frameworks[(Variant.parse(on) if isinstance(on, str) else on).framework].upgrades


@contextmanager
def failing(name: str) -> Iterator[None]:
    """What a framework raises inside: it cannot run the network that it was given.

    Args:
        name: The framework's.

    Raises:
        WorkerError: Anything but an error of deep_bench's was raised.
    """
    try:
        yield
    except DeepBenchError:
        raise
    except Exception as error:  # a framework may fail in any way
        line = " ".join(str(error).split())[:600]
        failure = WorkerError(f"{name}: it cannot run this network on these inputs: {type(error).__name__}: {line}")
        failure.details = "".join(traceback.format_exception(error))
        raise failure from error


@contextmanager
def quiet() -> Iterator[None]:
    """NumPy's remarks on overflow and empty arrays are no news to the user where results are judged anyway."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


class Suspect:
    """A `deep_bench.check.Subject` that can be asked for the values inside its network.

    Args:
        adapter: The framework.
        network: No open dimensions.
        inputs: Name to array.
        cast: Whether floats that it returns are brought to the element type that the network declares.
    """

    def __init__(
        self, adapter: Adapter[Any], network: Network, inputs: Mapping[str, np.ndarray], *, cast: bool = False
    ) -> None:
        self.adapter, self.network, self.inputs = adapter, network, inputs
        self.cast, self.upgrades = cast, adapter.upgrades
        with failing(adapter.name):
            self._executor = adapter.prepare(network)

    def outputs(self) -> Arrays:
        """Its outputs, computed anew at each call.

        Raises:
            WorkerError: The framework cannot run the network on these inputs.
        """
        with failing(self.adapter.name):
            return self._called(self._executor, self.network, self.inputs)

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Prepare another network in the same adapter, and run it."""
        return self._called(self.adapter.prepare(network), network, inputs)

    def run_precisely(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """As `run`, in float64."""
        return self.run(*in_float64(network, inputs))

    def values(self, names: Sequence[str]) -> Arrays:
        """Values of the outermost graph, which it is asked for as outputs."""
        executor = self.adapter.prepare(self.network, outputs=list(names))
        return self._called(executor, self.network, self.inputs)

    def _called(self, executor: Any, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        with np.errstate(all="ignore"):
            outputs = {name: np.array(y) if isinstance(y, np.ndarray) else y for name, y in executor(inputs).items()}
        if not self.cast:
            return outputs
        declared = {str(v.name): np.dtype(v.dtype.numpy()) for v in network.graph.outputs if v.dtype is not None}
        return {name: as_float(y, declared[name]) if name in declared else y for name, y in outputs.items()}


def as_float(y: Any, form: np.dtype) -> Any:
    """A float in another floating-point type; anything else as it is."""
    return y.astype(form) if isinstance(y, np.ndarray) and is_float(form) and is_float(y.dtype) else y
