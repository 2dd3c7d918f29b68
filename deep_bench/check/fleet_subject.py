"""A system in its worker, as the checker sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from deep_bench.check.ladder import in_float64
from deep_bench.graph import Network


class Prepared(Protocol):
    """What is asked of the started systems: `deep_bench.measure.fleet.Fleet`, or a part of one."""

    prepared: dict[str, dict[str, Any]]

    def call(self, label: str, method: str, *args: Any, **options: Any) -> Any: ...


class FleetSubject:
    """One system of a fleet; only it runs while it is asked something.

    Args:
        fleet: The started systems.
        label: Which one.
    """

    def __init__(self, fleet: Prepared, label: str) -> None:
        self._fleet, self._label = fleet, label
        self.upgrades = bool(fleet.prepared[label]["facts"]["upgrades"])

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the very call that is timed, computed anew."""
        return dict(self._fleet.call(self._label, "outputs"))

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Prepare another network in the same adapter with the same options, and run it.

        Of kernels only the names of their nodes are sent: the system has them.
        """
        serialized = network.without_kernels().to_proto().SerializeToString()
        kernels = {"kernels": list(network.kernels)} if network.kernels else {}
        return dict(self._fleet.call(self._label, "run", serialized, dict(inputs), **kernels))

    def run_precisely(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """As `run`, in float64.

        Raises:
            Unsupported: The framework cannot compute this in float64.
        """
        return self.run(*in_float64(network, inputs))
