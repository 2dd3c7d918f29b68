"""To evaluate every so many samples."""

from __future__ import annotations

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.progress import Progress
from deep_bench.training.samplers.draws import natural


class EvaluateEvery:
    """Evaluates after the first step that reaches each multiple of a number of samples, as MLPerf's rules ask for.

    The trainer evaluates at no other times then.

    Args:
        samples: The number.

    Raises:
        InvalidArgument: It is below 1; and when the run begins, that there is nothing to evaluate with.

    Source:
        MLCommons, *MLPerf training rules*.
    """

    moments = (Moment.BEFORE_RUN, Moment.BEFORE_STEP, Moment.AFTER_STEP)

    def __init__(self, samples: int) -> None:
        self.samples = natural("samples", samples, 1)
        self._done = self._seen = 0

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Evaluate if it is due.

        Before a step that is so only in a run that goes on from a checkpoint which was written before the evaluation.
        """
        if moment is Moment.BEFORE_RUN:
            if data.trainer.evaluation is None:
                raise InvalidArgument("nothing to evaluate with", "a trainer with scores=[…] and held_out=…")
            data.trainer.every = _NEVER
            evaluations = data.history.evaluations
            self._done = evaluations[-1].samples // self.samples if evaluations else 0
            self._seen = data.history.samples
            return
        if moment is Moment.AFTER_STEP:
            self._seen += data.history.sizes[-1]
        if self._seen // self.samples > self._done:
            self._done = self._seen // self.samples
            data.trainer.evaluate()


_NEVER = 2**62
"""Steps between evaluations of the trainer's own: more than any run has."""
