"""The system under test, as the checker sees it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from deep_bench.check.ladder import in_float64
from deep_bench.errors import DeepBenchError
from deep_bench.framework import Adapter
from deep_bench.graph import Network

Arrays = dict[str, np.ndarray]


def named(found: Mapping[str, np.ndarray], names: Iterable[str]) -> Arrays:
    """What a system returned, which must be the network's outputs by their names.

    Raises:
        DeepBenchError: Other names.
    """
    expected = sorted(names)
    if sorted(found) != expected:
        raise DeepBenchError(
            f"the system returned outputs named {', '.join(map(repr, sorted(found))) or '(none)'}",
            f"the network's own names: {', '.join(map(repr, expected))}",
            "its adapter must return each output under the name that the network gives it",
        )
    return dict(found)


class Subject(Protocol):
    """A system under test, prepared with a network and fed with the inputs that it is judged on."""

    upgrades: bool
    """Whether it runs networks in opset `OPSET` (True), or as the file has them (False)."""

    def outputs(self) -> Mapping[str, np.ndarray]:
        """Its outputs, computed anew at each call."""
        ...

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Prepare another network in the same adapter with the same options, and run it."""
        ...

    def run_precisely(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """As `run`, with all of float32 and narrower widened to float64.

        Raises:
            Unsupported: It cannot compute this in float64.
        """
        ...


class InProcessSubject:
    """An adapter in this process.

    Args:
        adapter: The adapter, with its options.
        network: The network to judge it on.
        inputs: Name to array.

    Example:
        >>> import deep_bench as db
        >>> network = db.load("digits-cnn")
        >>> image = {"image": np.zeros((1, 1, 8, 8), np.float32)}
        >>> InProcessSubject(db.frameworks["reference"](), network, image).outputs()["logits"].shape
        (1, 10)
    """

    def __init__(self, adapter: Adapter[Any], network: Network, inputs: Mapping[str, np.ndarray]) -> None:
        self.adapter, self.inputs = adapter, inputs
        self.upgrades = adapter.upgrades
        self.executor = adapter.prepare(network)

    def outputs(self) -> Arrays:
        """Its outputs, computed anew at each call."""
        with np.errstate(all="ignore"):
            return {name: np.array(y) for name, y in self.executor(self.inputs).items()}

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Prepare another network in the same adapter, and run it."""
        with np.errstate(all="ignore"):
            return self.adapter.prepare(network)(inputs)

    def run_precisely(self, network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """As `run`, in float64."""
        return self.run(*in_float64(network, inputs))
