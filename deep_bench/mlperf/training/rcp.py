"""Reference convergence points: does a submission need significantly less training to its target than the reference does?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite, sqrt

import numpy as np
from scipy import stats

from deep_bench.errors import InvalidArgument
from deep_bench.mlperf.training.events import SUCCESS, Log

LEVEL = 0.05
"""Of the one-sided test."""

_REJECTED = 1
"""So many of the fastest and of the slowest runs do not count."""

_FEWEST = 2 * _REJECTED + 1


@dataclass(frozen=True)
class Point:
    """How much training the reference takes with one batch size.

    Args:
        name: What it is called.
        batch: The global batch size.
        epochs: To the target, of each run.
        mean: Of those without the fastest and the slowest.
        deviation: Of all of them, as MLPerf's checker takes it (by n, not n - 1).
        runs: How many runs ``mean`` and ``deviation`` stand for in the test.
    """

    name: str
    batch: int
    epochs: tuple[float, ...]
    mean: float
    deviation: float
    runs: int

    @classmethod
    def of(cls, name: str, batch: int, epochs: Sequence[float]) -> Point:
        """By the epochs of some runs.

        Raises:
            InvalidArgument: Fewer than three runs, or a number that is not above 0.

        Example:
            >>> point = Point.of("ref", 128, [16, 14, 16, 17, 16, 16, 15, 16, 15, 16])
            >>> point.mean, round(point.deviation, 3), round(point.least(5), 3), round(point.least_by_text(5), 2)
            (15.75, 0.781, 14.781, 15.21)
        """
        if len(epochs) < _FEWEST or not all(isfinite(e) and e > 0 for e in epochs):
            raise InvalidArgument(
                f"epochs {list(epochs)} of {name}",
                f"at least {_FEWEST} numbers above 0: a reference whose runs all converged",
            )
        return cls(name, batch, tuple(epochs), trimmed_mean(epochs), float(np.std(epochs)), len(epochs) - 2 * _REJECTED)

    def least(self, runs: int) -> float:
        """The least mean number of epochs that a submission of so many runs may have, as MLPerf's checker has it."""
        return least_mean(self.mean, self.deviation, self.runs, runs - 2 * _REJECTED)

    def least_by_text(self, runs: int) -> float:
        """The same by the text of the rules, whose deviation leaves the fastest and the slowest run out: it is stricter."""
        retained = sorted(self.epochs)[_REJECTED:-_REJECTED]
        deviation = float(np.std(retained)) if retained else self.deviation
        return least_mean(self.mean, deviation, self.runs, runs - 2 * _REJECTED)


def trimmed_mean(epochs: Sequence[float]) -> float:
    """The mean without the fastest and the slowest run.

    Example:
        >>> trimmed_mean([15, 15, 15, 16, 17])
        15.333333333333334
    """
    return float(np.mean(sorted(epochs)[_REJECTED : len(epochs) - _REJECTED]))


def least_mean(mean: float, deviation: float, reference: int, submission: int) -> float:
    r"""The mean below which a submission is significantly faster than the reference.

    :math:`m - t_{1 - \alpha, n_1 + n_2 - 2} \, s \sqrt{1 / n_1 + 1 / n_2}`, Student's test of two samples of equal variance,
    one-sided, at the level of 5 %; not below 0.

    Args:
        mean, deviation: Of the reference; that of the submission is taken to be the same.
        reference, submission: How many runs count.

    Raises:
        InvalidArgument: There are too few for a test.

    Example:
        >>> round(least_mean(20.75, 0.661438, 8, 3), 2)
        19.93

    Source:
        MLCommons, *MLPerf training rules*, reference convergence points, and the examples in their appendix.
    """
    if reference < 1 or submission < 1 or reference + submission < 3:
        raise InvalidArgument(
            f"{reference} runs of the reference and {submission} of the submission that count",
            "at least one each, and three together",
            "the fastest and the slowest do not count: take more runs",
        )
    quantile = float(stats.t.ppf(1 - LEVEL, reference + submission - 2))
    return max(mean - quantile * deviation * sqrt(1 / reference + 1 / submission), 0.0)


@dataclass(frozen=True, eq=False)
class Reference:
    """The points of one benchmark.

    Args:
        benchmark: Its name.
        points: By batch size.
        runs: How many runs a submission has.
    """

    benchmark: str
    points: tuple[Point, ...]
    runs: int

    @cached_property
    def pruned(self) -> tuple[Point, ...]:
        """The points that count: larger batches need no less training, and none needs more than its neighbours say.

        The point that converges fastest has the smallest batch; each other is dropped if it converges slower than what lies
        on the line between those around it.
        """
        points = sorted(self.points, key=lambda point: point.batch)
        fastest = min(points, key=lambda point: point.mean)
        retained = [point for point in points if point.batch >= fastest.batch]
        at = 1
        while at < len(retained) - 1:
            if retained[at].mean > self.between(retained[at - 1], retained[at + 1], retained[at].batch).mean:
                del retained[at]  # as MLPerf's checker: the next is looked at in its place, those before it not again
            else:
                at += 1
        return tuple(retained)

    def between(self, low: Point, high: Point, batch: int) -> Point:
        """A point on the line between two, which stands for as many runs as the rules ask of a reference."""
        share = (batch - low.batch) / (high.batch - low.batch)
        mean, deviation = ((1 - share) * getattr(low, of) + share * getattr(high, of) for of in ("mean", "deviation"))
        return Point(f"between {low.name} and {high.name}", batch, (), mean, deviation, 2 * self.runs)

    def compared(self, batch: int, epochs: Sequence[float]) -> Compared:
        """What the test says of a submission.

        Args:
            batch: Its global batch size.
            epochs: To the target, of each run; infinity for one that missed it.

        Raises:
            InvalidArgument: Too few runs.
        """
        if len(epochs) < _FEWEST:
            raise InvalidArgument(f"{len(epochs)} runs", f"at least {_FEWEST}")
        missed = sum(e == inf for e in epochs)
        if missed > 1:
            return Compared(False, f"{missed} runs missed the target, and one may", batch, None, inf, self.runs)
        mean = trimmed_mean(epochs)
        exact = next((point for point in self.pruned if point.batch == batch), None)
        low = max((p for p in self.pruned if p.batch < batch), key=lambda p: p.batch, default=None)
        high = min((p for p in self.pruned if p.batch > batch), key=lambda p: p.batch, default=None)
        if exact is not None:
            return self._against(exact, f"against {exact.name}", batch, mean)
        if low is not None and high is not None:
            return self._against(point := self.between(low, high, batch), point.name, batch, mean)
        if high is None:
            reason = f"no point for batches as large as {batch}: run the reference with it"
            return Compared(False, reason, batch, None, mean, self.runs)
        comparison = self._against(high, f"against {high.name}, which is stricter, as none has a smaller batch", batch, mean)
        if comparison.passed:
            return comparison
        return replace(
            comparison, why=f"{comparison.why}; no point for batches as small as {batch}: run the reference with it"
        )

    def _against(self, point: Point, reason: str, batch: int, mean: float) -> Compared:
        return Compared(mean >= point.least(self.runs), reason, batch, point, mean, self.runs)


@dataclass(frozen=True)
class Compared:
    """What the test says.

    Args:
        passed: Whether the submission may be.
        why: Against what, or why there is no test.
        batch: The submission's.
        point: Of the reference; ``None`` without a test.
        mean: The submission's mean number of epochs, without the fastest and the slowest run.
        runs: How many runs a submission has.
    """

    passed: bool
    why: str
    batch: int
    point: Point | None
    mean: float
    runs: int

    @property
    def factor(self) -> float:
        """What the score is to be multiplied by: a submission that needed less training by chance is not to gain by it."""
        return 1.0 if self.point is None else max(1.0, self.point.mean / self.mean)

    def lines(self) -> Iterator[str]:
        """What there is to say."""
        yield f"reference convergence points: {'passed' if self.passed else 'FAILED'}: {self.why}"
        if self.point is None:
            return
        point, least = self.point, self.point.least(self.runs)
        yield f"  batch {self.batch}: {self.mean:.4g} epochs to the target; the reference {point.mean:.4g}"
        yield f"  at least {least:.4g} by MLPerf's checker"
        if point.epochs:
            yield f"  at least {point.least_by_text(self.runs):.4g} by the text of the rules, which it does not follow"
        if self.passed and self.factor > 1:
            yield f"  below the reference's mean: the score is to be multiplied by {self.factor:.4g}"


def epochs_of(logs: Sequence[Log]) -> list[float]:
    """The epochs to the target by the logs of runs; infinity for a run that did not reach it."""
    epochs = []
    for log in logs:
        value = log.converged_at("epoch_num") if log.status == SUCCESS else None
        epochs.append(inf if value is None else value)
    return epochs
