"""A system in its worker, as the checker sees it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from deep_bench.check.ladder import in_float64
from deep_bench.graph import Network
from deep_bench.measure.fleet import Fleet


class FleetSubject:
    """One system of a fleet; only it runs while it is asked something.

    Args:
        fleet: The started systems.
        label: Which one.
    """

    def __init__(self, fleet: Fleet, label: str) -> None:
        self._fleet, self._label = fleet, label
        self.upgrades = bool(fleet.prepared[label]["facts"]["upgrades"])

    def outputs(self) -> dict[str, np.ndarray]:
        """The outputs of the very call that is timed, computed anew."""
        return dict(self._fleet.call(self._label, "outputs"))

    def run(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Prepare another network in the same adapter with the same options, and run it."""
        serialized = network.to_proto().SerializeToString()
        return dict(self._fleet.call(self._label, "run", serialized, dict(inputs)))

    def run_precisely(self, network: Network, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """As `run`, in float64.

        Raises:
            Unsupported: The framework cannot compute this in float64.
        """
        return self.run(*in_float64(network, inputs))
