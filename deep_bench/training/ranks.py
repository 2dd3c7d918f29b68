"""What a training run arranges with others that train the same network; most runs are alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from deep_bench.events import Callback
from deep_bench.training.form import TrainingForm
from deep_bench.training.steps import Tree

if TYPE_CHECKING:
    from deep_bench.training.trainer import Trainer


class Ranks(ABC):
    """The other ranks of a run, as its trainer sees them. All ranks call these together, but for `draw` and `listening`."""

    alone = False
    """Whether there are none: then whatever the trainer has to say it may say at once."""
    lockstep = True
    """Whether all take each step together; else the order in which they do is not the same in every run."""

    @abstractmethod
    def listening(self, callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
        """The callbacks that this rank tells of the run."""

    @abstractmethod
    def running(self, trainer: Trainer[Any]) -> AbstractContextManager[None]:
        """Entered before the first step of a run, left after its last."""

    @abstractmethod
    def serves(self, trainer: Trainer[Any]) -> bool:
        """Train as long as this rank does so without steps of its own; whether it did."""

    @abstractmethod
    def before_step(self, trainer: Trainer[Any], samples: int) -> int:
        """Agree on a step, or that there is none: then `Trainer.ending` says why.

        Args:
            trainer: This rank's.
            samples: How many samples this rank has in the step.

        Returns:
            How many all have.
        """

    @abstractmethod
    def after_steps(self, trainer: Trainer[Any]) -> None:
        """The last step of a run was taken on all ranks: agree why."""

    @abstractmethod
    def draw(self, form: TrainingForm, batch: Mapping[str, np.ndarray], seed: int, step: int) -> dict[str, np.ndarray]:
        """This rank's part of a step's uniform numbers; see `TrainingForm.draw`."""

    @abstractmethod
    def losses(self, own: Sequence[float]) -> list[float]:
        """The losses of the steps since this was called last, as all ranks together had them."""

    @abstractmethod
    def evaluated(self, trainer: Trainer[Any], evaluate: Callable[[Any, Any], dict[str, float]]) -> dict[str, float]:
        """The figures of an evaluation.

        Args:
            trainer: This rank's.
            evaluate: From native parameters and statistics to figures.
        """

    @abstractmethod
    def gathered(self, snapshot: Tree) -> Tree:
        """A snapshot of this rank, with what differs on others: on rank 0; elsewhere this rank's alone."""

    @abstractmethod
    def parted(self, trainer: Trainer[Any], snapshot: Tree | None) -> Tree:
        """This rank's snapshot, of what rank 0 has."""

    @abstractmethod
    def facts(self) -> Any:
        """What a record keeps of the ranks; ``None`` for nothing."""


class Alone(Ranks):
    """A run without others."""

    alone = True

    def listening(self, callbacks: Iterable[Callback]) -> tuple[Callback, ...]:
        """All."""
        return tuple(callbacks)

    def running(self, trainer: Trainer[Any]) -> AbstractContextManager[None]:
        """Nothing."""
        del trainer
        return nullcontext()

    def serves(self, trainer: Trainer[Any]) -> bool:
        """It takes steps."""
        del trainer
        return False

    def before_step(self, trainer: Trainer[Any], samples: int) -> int:
        """All samples are its own."""
        del trainer
        return samples

    def after_steps(self, trainer: Trainer[Any]) -> None:
        """Nothing."""

    def draw(self, form: TrainingForm, batch: Mapping[str, np.ndarray], seed: int, step: int) -> dict[str, np.ndarray]:
        """The whole."""
        return form.draw(batch, seed, step)

    def losses(self, own: Sequence[float]) -> list[float]:
        """Its own."""
        return list(own)

    def evaluated(self, trainer: Trainer[Any], evaluate: Callable[[Any, Any], dict[str, float]]) -> dict[str, float]:
        """Of its parameters."""
        return evaluate(trainer.taker.parameters, trainer.taker.statistics)

    def gathered(self, snapshot: Tree) -> Tree:
        """As it is."""
        return snapshot

    def parted(self, trainer: Trainer[Any], snapshot: Tree | None) -> Tree:
        """As it is."""
        del trainer
        return {} if snapshot is None else snapshot

    def facts(self) -> None:
        """Nothing."""


ALONE = Alone()
"""A run without others."""
