"""One case of a study: those contestants that could set it up, taking turns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from deep_bench.environments.stamp import oldest_stamp
from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported, WorkerDied
from deep_bench.measure.fleet import Fleet, Runner
from deep_bench.measure.workers import Worker
from deep_bench.operators.case import Case


class Heat:
    """The part of a fleet that is on a case: who fails in it is out of this case only.

    A process that ended is out of the fleet as well, until it is started afresh.

    Args:
        fleet: The started contestants.
        limit: The most seconds that anything asked of one may take.
        labels: Who takes part; by default all.

    Attributes:
        runners: Label to system, of those that are still in.
        prepared: Label to what loading the case said.
        failures: Label to error.
        in_process: As of the fleet.
    """

    def __init__(self, fleet: Fleet, limit: float, labels: Collection[str] | None = None) -> None:
        self._fleet = fleet
        self.in_process = fleet.in_process
        self.runners: dict[str, Runner] = {n: r for n, r in fleet.runners.items() if labels is None or n in labels}
        self.prepared: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, DeepBenchError] = {}
        for runner in self.runners.values():
            if isinstance(runner, Worker):
                runner.limit_s = limit

    def load(self, label: str, *problem: Any) -> None:
        """Give a contestant the case; if it fails, it is out."""
        try:
            self.prepared[label] = self.awake(label, lambda runner: runner.load(*problem))
        except DeepBenchError as error:
            self.set_aside(label, error)

    def load_plain(self, label: str, case: Case, seed: int, wanted: Sequence[str]) -> None:
        """Give it to a contestant in another Python environment, as a network and arrays."""
        try:
            if not isinstance(case.operator, str):
                raise Unsupported(
                    f"{case.name} is computed by a function of this environment", "an ONNX operator for another environment"
                )
            network = oldest_stamp(case.network().to_proto().SerializeToString())
            posed = {"network": network, "arrays": dict(case.arrays(seed))}
        except Unsupported as error:
            self.set_aside(label, error)
            return
        self.load(label, posed, seed, tuple(wanted))

    def call(self, label: str, method: str, *args: Any, **options: Any) -> Any:
        """As `Fleet.call`."""
        return self.awake(label, lambda runner: runner.call(method, *args, **options))

    def awake(self, label: str, action: Callable[[Runner], Any]) -> Any:
        """As `Fleet.awake`."""
        if label not in self.runners:
            raise self.failures.get(label) or InvalidArgument(f"{label} is not in", f"one of {', '.join(self.runners)}")
        return self._fleet.awake(label, action)

    def set_aside(self, label: str, error: DeepBenchError) -> None:
        """Leave a contestant out of the rest of the case."""
        self.failures[label] = error
        self.runners.pop(label, None)
        if isinstance(error, WorkerDied):
            self._fleet.set_aside(label, error)
