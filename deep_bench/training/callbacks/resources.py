"""What a run takes of the machine: energy and memory, where it tells."""

from __future__ import annotations

import numpy as np

from deep_bench.events import Moment
from deep_bench.measure.energy import EnergyMeter
from deep_bench.measure.metric import Direction, Metric, MetricRecord
from deep_bench.measure.resident import forget_peak, peak_memory_bytes, resident_bytes
from deep_bench.training.progress import Progress

_EVERY_NS = 1_000_000_000
_NO_RUN = "no run was watched"


class TrainingEnergy(Metric):
    """The energy that the machine took from the beginning of a run to its end, evaluations included, in joules.

    See `deep_bench.measure.energy.EnergyMeter` for what is counted. What was taken before a run was resumed counts.

    Args:
        meter: What to read; by default all counters of the machine.
    """

    name, unit = "energy of the training", "J"
    direction: Direction = "lower"
    moments = (Moment.BEFORE_RUN, Moment.AFTER_STEP, Moment.AFTER_RUN)

    def __init__(self, meter: EnergyMeter | None = None) -> None:
        self._meter = EnergyMeter() if meter is None else meter
        self._before = 0.0
        self._watched = False
        self._next_ns = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Read the counters, once a second, since they begin anew now and then."""
        if moment is Moment.BEFORE_RUN:
            self._before += self._meter.joules or 0.0
            self._meter.start()
            self._watched = True
        elif moment is Moment.AFTER_RUN or time_ns >= self._next_ns:
            self._next_ns = time_ns + _EVERY_NS
            self._meter.update()

    def measurement(self) -> MetricRecord:
        """One value for the run."""
        joules = self._meter.joules
        if joules is None or not self._watched:
            return self.unavailable(self._meter.reason or _NO_RUN)
        parts = ", ".join(f"{name} {value:.4g} J" for name, value in self._meter.by_source.items())
        before = f"; {self._before:.4g} J before it was resumed" if self._before else ""
        return self.found([self._before + joules], remark=parts + before)

    def snapshot(self) -> dict[str, np.ndarray]:
        """What was taken so far, for a checkpoint."""
        self._meter.update()
        return {"joules": np.array(self._before + (self._meter.joules or 0.0))}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self._before = float(tree["joules"])
        self._meter.by_source = {}


class TrainingMemory(Metric):
    """The most memory that the process held in RAM during a run, in bytes: its framework and all else included."""

    name, unit = "peak memory of the training", "B"
    direction: Direction = "lower"
    moments = (Moment.BEFORE_RUN, Moment.AFTER_RUN)

    def __init__(self) -> None:
        self._before: int | None = None
        self._peak = 0
        self._reset = False

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Let the peak begin anew before the run, and read it after."""
        if moment is Moment.BEFORE_RUN:
            if self._before is None:
                self._before, self._reset = resident_bytes(), forget_peak()
        else:
            self._peak = max(self._peak, peak_memory_bytes())

    def measurement(self) -> MetricRecord:
        """One value for the run."""
        if self._before is None or not self._peak:
            return self.unavailable(_NO_RUN)
        how = "" if self._reset else "; since the process began: the system lets no peak begin anew"
        return self.found([self._peak], remark=f"{self._before} B before the run{how}")

    def snapshot(self) -> dict[str, np.ndarray]:
        """The peak so far, for a checkpoint."""
        return {"peak": np.array(max(self._peak, peak_memory_bytes()), np.int64)}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self._peak = int(tree["peak"])
