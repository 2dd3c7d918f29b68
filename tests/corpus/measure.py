"""Measuring the checker: how many faults it finds, and how often it accuses correct systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from deep_bench.check import Truth, Verdict
from deep_bench.check.judge import EndToEnd
from deep_bench.errors import Unsupported

from .entry import Entry
from .problems import problem
from .tolerances import TOLERANCES, close

ACCUSING = ("wrong", "reduced precision")


@dataclass(frozen=True)
class Judged:
    """One entry of the corpus with what was said of it.

    Args:
        entry: The entry.
        fault: Its label.
        verdict: The checker's.
        close: What each of the usual tolerances says.
    """

    entry: Entry
    fault: bool
    verdict: Verdict | EndToEnd
    close: Mapping[str, bool]

    @property
    def judged_rightly(self) -> bool:
        """Whether the label was found; *cannot tell* counts against the checker on both sides."""
        word = self.verdict.word
        return word in ACCUSING if self.fault else word == "right"


@cache
def truth(name: str) -> Truth:
    """The truth of a problem, established once."""
    return problem(name).truth()


def measure(entries: Iterable[Entry], *, fault: bool) -> Iterator[Judged]:
    """Judge every entry; a problem that a framework refuses is left out."""
    for entry in entries:
        known = truth(entry.problem)
        try:
            subject = entry.subject()
            outputs = subject.outputs()
        except Unsupported:
            if entry.native:
                continue
            raise
        near = {
            name: all(close(outputs[n], y, known.formats[n], tolerance) for n, y in known.outputs.items())
            for name, tolerance in TOLERANCES.items()
        }
        verdict = problem(entry.problem).judge(known, subject, entry.norm_wise)
        yield Judged(entry, fault, verdict, near)


def rates(judged: Iterable[Judged]) -> Mapping[str, tuple[int, int]]:
    """For each method, how many entries it judged rightly, and how many there are."""
    judged = list(judged)
    right = {"deep_bench": [j.judged_rightly for j in judged]}
    right |= {name: [j.close[name] != j.fault for j in judged] for name in TOLERANCES}
    return {name: (sum(marks), len(marks)) for name, marks in right.items()}
