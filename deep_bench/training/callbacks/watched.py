"""The score that a callback watches."""

from __future__ import annotations

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.progress import Progress
from deep_bench.training.scores import Direction, Score


def watched(data: Progress, name: str, who: str) -> Score:
    """The score of this name among those that the trainer's evaluation makes.

    Args:
        data: Where the run is.
        name: Of the score.
        who: The callback, for the error.

    Raises:
        InvalidArgument: Nothing is evaluated.
        UnknownName: There is no such score.
    """
    evaluation = data.trainer.evaluation
    if evaluation is None:
        raise InvalidArgument(
            f"{who} watches {name!r}, and nothing is evaluated", "a trainer with scores=[…] and held_out=…"
        )
    if name not in evaluation.scores:
        raise UnknownName("score", name, evaluation.scores, "let the trainer's scores have it, or watch another")
    return evaluation.scores[name]


def direction_of(data: Progress, name: str, who: str) -> Direction:
    """Whether lower or higher is better; errors as of `watched`."""
    return watched(data, name, who).direction
