"""What the callbacks of a training run are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.history import Evaluated, History

if TYPE_CHECKING:
    from deep_bench.training.trainer import Trainer


@dataclass(eq=False)
class Progress:
    """Where a training run is. One object for the whole run, changed from moment to moment: keep copies of what you need.

    Args:
        trainer: The run's trainer.
        history: What happened so far.
        epoch: The number of whole epochs done.
        position: The number of steps done in this epoch.
        indices: The numbers of the samples of this step.
        batch: This step's samples, before the transfer.
        outputs: Of this step's network; native.
        gradients: Of this step, at ``Moment.AFTER_GRADIENTS`` only; native.
        evaluated: The last evaluation.
    """

    trainer: Trainer[Any]
    history: History
    epoch: int = 0
    position: int = 0
    indices: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    batch: Mapping[str, np.ndarray] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)
    gradients: Mapping[str, Any] = field(default_factory=dict)
    evaluated: Evaluated | None = None

    @property
    def step(self) -> int:
        """The number of steps done since the beginning."""
        return self.history.steps

    def stop(self, reason: str) -> None:
        """Ask the run to stop after this step; `History.stopped_because` will have the reason."""
        self.trainer.stop(reason)

    @property
    def loss(self) -> float:
        """The loss of this step. Reading it waits for the device."""
        return self.trainer.read_loss(self.outputs)
