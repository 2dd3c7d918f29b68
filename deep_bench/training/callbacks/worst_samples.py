"""The samples that are learned worst."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.callbacks.watched import watched
from deep_bench.training.checkpoint import write_checkpoint
from deep_bench.training.progress import Progress
from deep_bench.training.samplers.draws import natural
from deep_bench.training.scores import SampleLosses


class WorstSamples:
    """Writes the samples with the highest losses of the last evaluation to a file, worst first.

    The file is readable with `read_checkpoint`: ``numbers`` of the samples in the evaluated set, their ``losses``, the
    ``samples`` themselves, and the ``step``. A loss that is NaN counts as the highest.

    Args:
        file: The file; replaced at each evaluation.
        count: How many.
        score: Name of the `SampleLosses` among the trainer's scores; by default the only one.

    Raises:
        InvalidArgument: Less than one sample; and when the run begins, that the trainer's scores have no such losses.
        UnknownName: When the run begins: no such score.
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_EVALUATION)

    def __init__(self, file: str | Path, count: int = 16, *, score: str | None = None) -> None:
        self.file, self.count, self.score = Path(file), natural("count", count, 1), score

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Write them."""
        watched_score = self._losses(data)
        if moment is not Moment.AFTER_EVALUATION:
            return
        losses, evaluation = watched_score.losses, data.trainer.evaluation
        assert evaluation is not None
        keys = np.where(np.isnan(losses), np.inf, losses)
        numbers = np.lexsort((np.arange(len(losses)), ~np.isnan(losses), -keys))[: self.count]
        samples = evaluation.dataset[numbers]
        tree = {"numbers": numbers, "losses": losses[numbers], "samples": samples, "step": np.int64(data.step)}
        write_checkpoint(self.file, tree)

    def _losses(self, data: Progress) -> SampleLosses:
        if self.score is None:
            scores = data.trainer.evaluation.scores if data.trainer.evaluation is not None else {}
            candidates = [score for score in scores.values() if isinstance(score, SampleLosses)]
            if len(candidates) != 1:
                raise InvalidArgument(
                    f"the worst samples by one of {len(candidates)} losses of samples",
                    "a trainer with one SampleLosses among its scores, or the name of one: score=…",
                )
            return candidates[0]
        watched_score = watched(data.trainer.evaluation, self.score, "WorstSamples")
        if not isinstance(watched_score, SampleLosses):
            raise InvalidArgument(f"the worst samples by {self.score!r}, a {type(watched_score).__name__}", "a SampleLosses")
        return watched_score
