"""To stop when a score is good enough."""

from __future__ import annotations

from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.callbacks.watched import direction_of
from deep_bench.training.history import Evaluated, reaches
from deep_bench.training.progress import Progress
from deep_bench.training.scores import Direction


class TargetReached:
    """Stops a run after the first evaluation where a score reaches its target; one that has reached it goes no further.

    Args:
        score: Its name.
        target: The value that is good enough.

    Attributes:
        reached: The evaluation; ``None`` before.

    Raises:
        InvalidArgument: The target is NaN; and when the run begins, that nothing is evaluated.
        UnknownName: When the run begins: no such score.

    Example:
        >>> TargetReached("accuracy", 0.97).reached is None
        True
    """

    moments = (Moment.BEFORE_RUN, Moment.AFTER_EVALUATION)

    def __init__(self, score: str, target: float) -> None:
        if target != target:
            raise InvalidArgument(f"target {target} for {score!r}", "a number")
        self.score, self.target = score, target
        self.direction: Direction = "higher"
        self.reached: Evaluated | None = None

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Progress) -> None:
        """Look at the score."""
        if moment is Moment.BEFORE_RUN:
            self.direction = direction_of(data, self.score, "TargetReached")
            self.reached = data.history.reached(self.score, self.target, self.direction)
        elif data.evaluated is not None and reaches(data.evaluated.figures[self.score], self.target, self.direction):
            self.reached = data.evaluated
        if self.reached is not None:
            data.stop(f"{self.score} {self.reached.figures[self.score]:.6g} reached its target {self.target:g}")
