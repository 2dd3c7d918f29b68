"""The score that a callback watches."""

from __future__ import annotations

from typing import Any

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.training.evaluation import Evaluation
from deep_bench.training.progress import Progress
from deep_bench.training.scores import Direction, Score


def watched(evaluation: Evaluation[Any] | None, name: str, who: str) -> Score:
    """The score of this name among those that a trainer's evaluation makes.

    Args:
        evaluation: The trainer's.
        name: Of the score.
        who: What watches it, for the error.

    Raises:
        InvalidArgument: Nothing is evaluated.
        UnknownName: There is no such score.
    """
    if evaluation is None:
        raise InvalidArgument(
            f"{who} watches {name!r}, and nothing is evaluated", "a trainer with scores=[…] and held_out=…"
        )
    if name not in evaluation.scores:
        raise UnknownName("score", name, evaluation.scores, "let the trainer's scores have it, or watch another")
    return evaluation.scores[name]


def direction_of(data: Progress, name: str, who: str) -> Direction:
    """Whether lower or higher is better; errors as of `watched`."""
    return watched(data.trainer.evaluation, name, who).direction
