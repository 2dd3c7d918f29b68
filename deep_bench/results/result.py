"""``Result``: what one system gave on one problem, whatever kind of run it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from deep_bench.measure.environment import Environment
from deep_bench.measure.grounds import without_interval
from deep_bench.measure.record import ErrorRecord, VerdictRecord
from deep_bench.measure.statistics import Interval, Times, launch_interval, median_interval

Direction: TypeAlias = Literal["lower", "higher"]
Kind: TypeAlias = Literal["network", "operators", "communication", "training", "scaling", "mlperf"]


@dataclass(frozen=True)
class Figure:
    """One metric of a result: its raw samples, and what follows from them.

    Args:
        name: Such as ``"forward"``, ``"time to target"``, ``"accuracy"``.
        unit: Such as ``"s"``, ``"samples/s"``; empty for a pure number.
        direction: Which is better.
        launches: The samples: for each fresh start of the process, or each training run, groups of samples taken in one go.
        remark: What a reader should know, such as "predicted, not measured".
        censored: For each launch, whether its samples say only how long a run went on without reaching what the figure is
            the time to; empty where every run reached it.
        aside: Times as they were taken that are not in ``launches``: of samples that were preempted, which count not at all
            or with their CPU time, as the remark says.

    Example:
        >>> figure = Figure("forward", "s", "lower", ((np.array([2.0, 4.0, 3.0]),),))
        >>> figure.median, figure.count, figure.interval
        (3.0, 3, None)
    """

    name: str
    unit: str
    direction: Direction
    launches: tuple[tuple[Times, ...], ...]
    remark: str = ""
    censored: tuple[bool, ...] = ()
    aside: tuple[Times, ...] = ()

    @cached_property
    def medians(self) -> tuple[float, ...]:
        """The median of each launch that has samples; infinite for one that is censored."""
        late = self.censored or (False,) * len(self.launches)
        return tuple(
            float("inf") if never else float(np.median(np.concatenate(groups)))
            for groups, never in zip(self.launches, late, strict=True)
            if groups
        )

    @cached_property
    def median(self) -> float:
        """Over the medians of launches; of a single launch, over its samples. NaN without any."""
        return float(np.median(self.medians)) if self.medians else float("nan")

    @cached_property
    def interval(self) -> Interval | None:
        """The 95 % interval of the median: over launches, or within a single one; ``None`` where samples are too few."""
        launches = [groups for groups in self.launches if groups]
        if len(launches) > 1:
            return launch_interval(self.medians)
        return median_interval(launches[0]) if launches and not any(self.censored) else None

    @property
    def without_interval(self) -> str:
        """Why there is no interval, and what to do; empty where there is one."""
        return without_interval(self.launches) if self.interval is None else ""

    @property
    def count(self) -> int:
        """The number of samples."""
        return sum(len(group) for groups in self.launches for group in groups)


@dataclass(frozen=True)
class Result:
    """What one system gave on one problem.

    Args:
        kind: Of the run.
        file: The record's file.
        created: When the run began.
        labels: All that tells it from others: ``framework``, ``system``, ``network``, ``case``, ``optimizer``, ``scheme``,
            ``ranks``, ``seed``, …; and each factor of the recipe that it is a cell of.
        figures: Name to metric.
        verdict: Whether it was right; ``None`` where nothing was checked.
        errors: What failed.
        environment: Where it ran.
        complete: Whether the run came to its end.
        notes: What a reader should know.
    """

    kind: Kind
    file: Path
    created: datetime
    labels: Mapping[str, str]
    figures: Mapping[str, Figure]
    verdict: VerdictRecord | None = None
    errors: tuple[ErrorRecord, ...] = ()
    environment: Environment | None = None
    complete: bool = True
    notes: tuple[str, ...] = field(default=())

    @property
    def outcome(self) -> str:
        """*failed*; else the verdict's word; else *unchecked*."""
        if self.errors:
            return "failed"
        return self.verdict.verdict if self.verdict is not None else "unchecked"

    @property
    def ok(self) -> bool:
        """Whether nothing failed and nothing was found wrong."""
        return self.outcome in ("right", "no information", "cannot tell", "unchecked")

    @property
    def main(self) -> Figure | None:
        """The figure that a table shows where it has room for one; ``None`` where there is none."""
        return next(iter(self.figures.values()), None)

    @property
    def name(self) -> str:
        """System and problem, as a table shows them."""
        words = [self.labels.get(key, "") for key in ("system", "case", "network", "recipe")]
        return " on ".join(dict.fromkeys(word for word in words if word))


_ORDER = ("wrong", "reduced precision", "cannot tell", "no information", "right")


def worst(*verdicts: VerdictRecord | None) -> VerdictRecord | None:
    """The worst of several verdicts, the first of equals; ``None`` where nothing was checked.

    Example:
        >>> right, wrong = (VerdictRecord(verdict=word, reason="") for word in ("right", "wrong"))
        >>> worst(right, None, wrong).verdict
        'wrong'
    """
    candidates = [verdict for verdict in verdicts if verdict is not None]
    rank = {word: number for number, word in enumerate(_ORDER)}
    return min(candidates, key=lambda verdict: rank.get(verdict.verdict, -1), default=None)
