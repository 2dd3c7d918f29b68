"""How long the gradient is in each step."""

from __future__ import annotations

from array import array
from math import sqrt
from typing import Any

import numpy as np

from deep_bench.events import Moment
from deep_bench.measure.metric import Direction, Metric, MetricRecord
from deep_bench.training.progress import Progress

_READ_EVERY = 256


class GradientNorm(Metric):
    r"""The Euclidean norm of all gradients together, :math:`\sqrt{\sum_p \|g_p\|^2}`, before the update of each step.

    Squares are summed in float64 on the device, where they stay for a while: reading them waits for it.

    Attributes:
        norms: That of each step so far.

    Example:
        >>> GradientNorm().measurement().unavailable
        'not available: no step was watched'
    """

    name, unit = "gradient norm", ""
    direction: Direction = "lower"
    moments = (Moment.AFTER_GRADIENTS, Moment.AFTER_EVALUATION, Moment.AFTER_RUN)

    def __init__(self) -> None:
        self._norms: array[float] = array("d")
        self._unread: list[list[Any]] = []
        self._device: Any = None

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Sum the squares; read them now and then."""
        if moment is Moment.AFTER_GRADIENTS:
            self._device = data.trainer.taker.device
            xp = self._device.xp
            wide = [xp.cast(g, np.float64) for g in data.gradients.values()]
            self._unread.append([xp.sum(g * g) for g in wide])
        if moment is not Moment.AFTER_GRADIENTS or len(self._unread) >= _READ_EVERY:
            self._read()

    @property
    def norms(self) -> array[float]:
        """That of each step so far."""
        self._read()
        return self._norms

    def _read(self) -> None:
        for sums in self._unread:
            self._norms.append(sqrt(sum(float(self._device.to_numpy(x)) for x in sums)))
        self._unread.clear()

    def measurement(self) -> MetricRecord:
        """One value for each step."""
        return self.found(self.norms) if self.norms else self.unavailable("no step was watched")

    def snapshot(self) -> dict[str, np.ndarray]:
        """What it has seen, for a checkpoint."""
        return {"norms": np.array(self.norms)}

    def restore(self, tree: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self._unread.clear()
        self._norms = array("d", np.asarray(tree["norms"]).tolist())
