"""Measuring the checker: how many faults it finds, and how often it accuses correct systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from deep_bench.check import Truth, Verdict, establish, judge

from .problems import problem
from .variants import Entry

ACCUSING = ("wrong", "reduced precision")


@dataclass(frozen=True)
class Judged:
    """One entry of the corpus with what was said of it.

    Args:
        entry: The entry.
        fault: Its label.
        verdict: The checker's.
        tight, loose: What ``numpy.allclose`` says with ``rtol=1e-5`` and ``rtol=1e-3``.
    """

    entry: Entry
    fault: bool
    verdict: Verdict
    tight: bool
    loose: bool

    @property
    def judged_rightly(self) -> bool:
        """Whether the label was found; *cannot tell* counts against the checker on both sides."""
        return self.verdict.word in ACCUSING if self.fault else self.verdict.word == "right"


@cache
def truth(name: str) -> Truth:
    """The truth of a problem, established once."""
    posed = problem(name)
    return establish(posed.network, posed.inputs, "quick")


def measure(entries: Iterable[Entry], *, fault: bool) -> Iterator[Judged]:
    """Judge every entry."""
    for entry in entries:
        known, subject = truth(entry.problem), entry.subject()
        outputs = subject.outputs()
        close = [all(_close(outputs[n], y, rtol) for n, y in known.outputs.items()) for rtol in (1e-5, 1e-3)]
        yield Judged(entry, fault, judge(known, subject), *close)


def _close(actual: np.ndarray, expected: Any, rtol: float) -> bool:
    expected = np.asarray(expected)
    if actual.shape != expected.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(np.allclose(actual.astype(np.float64), expected.astype(np.float64), rtol=rtol, equal_nan=True))


def rates(judged: Iterable[Judged]) -> Mapping[str, tuple[int, int, int]]:
    """For each method, how many entries it judged rightly, how many it did not, and how many there are."""
    judged = list(judged)
    right = {
        "deep_bench": [j.judged_rightly for j in judged],
        "allclose, rtol 1e-5": [j.tight != j.fault for j in judged],
        "allclose, rtol 1e-3": [j.loose != j.fault for j in judged],
    }
    return {name: (sum(marks), len(marks) - sum(marks), len(marks)) for name, marks in right.items()}
