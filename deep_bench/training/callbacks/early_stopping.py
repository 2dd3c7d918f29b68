"""To stop when a score gets no better, and keep what was best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.callbacks.watched import direction_of
from deep_bench.training.checkpoint import write_checkpoint
from deep_bench.training.progress import Progress
from deep_bench.training.samplers.draws import natural
from deep_bench.training.scores import Direction
from deep_bench.training.steps import Tree


class EarlyStopping:
    """Stops a run when a score has got no better for a number of evaluations, and keeps the parameters that were best.

    Better means by more than ``min_delta``. NaN is never better.

    Args:
        score: Its name.
        patience: The run stops after so many evaluations in a row that brought nothing better.
        min_delta: By how much a score must be better.
        file: Where to write the best parameters and statistics, with `write_checkpoint`; only kept in memory without it.

    Attributes:
        best: ``parameters`` and ``statistics`` of the best evaluation, NumPy arrays by name, as `TrainingForm.trained` takes
            them; empty before the first.
        value: The best score; NaN before the first.
        step: The number of steps done then.

    Raises:
        InvalidArgument: A patience below 1, or a negative ``min_delta``; and when the run begins, that nothing is evaluated.
        UnknownName: When the run begins: no such score.

    Source:
        Prechelt, *Early stopping – but when?*, 1998, criterion UP.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_EVALUATION)

    def __init__(self, score: str, patience: int = 5, *, min_delta: float = 0.0, file: str | Path | None = None) -> None:
        if natural("patience", patience) < 1 or not min_delta >= 0:
            raise InvalidArgument(
                f"patience={patience}, min_delta={min_delta}", "a patience of at least 1, and a min_delta of at least 0"
            )
        self.score, self.patience, self.min_delta, self.file = score, patience, min_delta, file
        self.best: Tree = {}
        self.value, self.step = float("nan"), 0
        self._direction: Direction = "higher"
        self._waited = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the score."""
        if moment is Moment.BEFORE_RUN:
            self._direction = direction_of(data, self.score, "EarlyStopping")
        elif data.evaluated is not None:
            value = data.evaluated.figures[self.score]
            if self._better(value):
                self._keep(value, data)
            else:
                self._waited += 1
        if self._waited >= self.patience:
            best = f"{self.value:.6g} in step {self.step}" if self.best else "none"
            data.stop(f"{self.score} got no better in {self.patience} evaluations; best: {best}")

    def _better(self, value: float) -> bool:
        if np.isnan(self.value) or np.isnan(value):
            return not np.isnan(value)
        gain = value - self.value if self._direction == "higher" else self.value - value
        return gain > self.min_delta

    def _keep(self, value: float, data: Progress) -> None:
        step = data.trainer.taker.snapshot()
        self.best = {part: {n: np.array(a) for n, a in step[part].items()} for part in ("parameters", "statistics")}
        self.value, self.step, self._waited = value, data.step, 0
        if self.file is not None:
            write_checkpoint(self.file, self.best)

    def snapshot(self) -> dict[str, Any]:
        """What it remembers, for a checkpoint."""
        return {
            "value": np.float64(self.value),
            "counts": np.array([self.step, self._waited], np.int64),
            "best": self.best,
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.value = float(tree["value"])
        self.step, self._waited = map(int, tree["counts"])
        self.best = tree["best"]
