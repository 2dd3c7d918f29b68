"""What changed from one result to another: `Comparison` is about a figure, `Change` about whether it was right.

A `Comparison` says how sure a change is, and whether the two may be compared at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deep_bench.measure.compare import Estimate, Word
from deep_bench.measure.metrics import Direction
from deep_bench.records.model import VerdictRecord
from deep_bench.results.pairing import Pair
from deep_bench.results.result import Result

_SEVERITY = {"reduced precision": 1, "wrong": 2, "failed": 3}


@dataclass(frozen=True)
class Comparison:
    """What is said of one figure.

    Args:
        name: What was compared: the labels that tell it from other rows.
        labels: All labels that both sides share.
        metric: The figure's name.
        unit: Of its values.
        direction: Which is better.
        estimate: The change, with its interval.
        word: What is said, all comparisons of the family considered.
        alone: What would be said if this were the only comparison.
        p: Of a change, corrected; ``None`` where nothing was tested.
        p_equivalent: Of a difference beyond the margin, corrected.
        why: Why it cannot be compared or told; empty where that is a matter of numbers.
        cases: How many figures it is the total of; 1 for a single one.
    """

    name: str
    labels: Mapping[str, str]
    metric: str
    unit: str
    direction: Direction
    estimate: Estimate
    word: Word
    alone: Word
    p: float | None = None
    p_equivalent: float | None = None
    why: str = ""
    cases: int = 1

    @property
    def tested(self) -> bool:
        """Whether it is one of the tests that are corrected for each other."""
        return self.estimate.p is not None and self.word != "not comparable"

    @property
    def untested(self) -> bool:
        """Whether its samples are too few to test it, though it may be compared."""
        return self.estimate.p is None and self.word != "not comparable"

    @property
    def row(self) -> str:
        """What tells it from all others: its name and its metric."""
        return f"{self.name} {self.metric}".strip()

    def beyond(self, share: float) -> bool:
        """Whether it is told to be worse, and even the better end of its interval by more than this share.

        Args:
            share: ``0.05``: slower than 1.05 times the time, below the rate over 1.05, or a score worse by more than 5 % of
                the earlier one.
        """
        ends = self.estimate.interval
        if self.word not in ("slower", "worse") or ends is None:
            return False
        if self.estimate.scale == "ratio":
            return ends[0] > 1 + share if self.direction == "lower" else ends[1] < 1 / (1 + share)
        least = share * abs(self.estimate.before)
        return ends[0] > least if self.direction == "lower" else ends[1] < -least

    def leaves_open(self, share: float) -> bool:
        """Whether it may be worse by more than this share and, with so few launches, never be told to be.

        Args:
            share: As in `beyond`.
        """
        starts, ends = self.estimate.starts, self.estimate.interval
        if self.word != "cannot tell" or ends is None or share >= starts:
            return False
        if self.estimate.scale == "difference":
            return True
        most = ends[1] if self.direction == "lower" else 1 / ends[0]
        return most * (1 + starts) > 1 + share


@dataclass(frozen=True)
class Change:
    """The outcome of a pair, where something is or was wrong, or another thing than before, or as right with fewer bits.

    Args:
        name: Of the pair.
        before: *right*, *wrong*, *failed*, *unchecked*, …
        after: The same of the other side.
        reason: Why the later one is what it is; or how precise both are, where only that changed.
    """

    name: str
    before: str
    after: str
    reason: str

    @property
    def worse(self) -> bool:
        """Whether the later one is wrong, failed, or less precise than the earlier one."""
        return severity(self.after) >= 2 or severity(self.after) > severity(self.before)


def severity(outcome: str) -> int:
    """0 where nothing was found wrong; higher is worse.

    Example:
        >>> [severity(word) for word in ("right", "unchecked", "reduced precision", "wrong", "failed")]
        [0, 0, 1, 2, 3]
    """
    return _SEVERITY.get(outcome, 0)


def change_of(pair: Pair, name: str) -> Change | None:
    """What is to be said of a pair's outcomes; ``None`` if both are the same, as precise as before, and nothing is wrong."""
    before, after = pair.before.outcome, pair.after.outcome
    bits = _change_of_bits(pair.before.verdict, pair.after.verdict)
    if before == after and not severity(after):
        return Change(name, before, after, bits) if bits else None
    return Change(name, before, after, "; ".join(filter(None, (_reason(pair.after) or _reason(pair.before), bits))))


def _change_of_bits(before: VerdictRecord | None, after: VerdictRecord | None) -> str:
    """How many significant bits two results have, if one has more by a bit; empty if not."""
    ends = [None if verdict is None else verdict.significant_bits for verdict in (before, after)]
    if ends[0] is None or ends[1] is None or not abs(ends[1] - ends[0]) >= 1:
        return ""
    return f"{ends[0]:.3g} → {ends[1]:.3g} significant bits"


def _reason(result: Result) -> str:
    if result.errors:
        return result.errors[0].message
    return result.verdict.reason if result.verdict is not None and not result.ok else ""


def not_comparable(pair: Pair) -> str:
    """Why figures of a pair say nothing of each other; empty where they do."""
    outcomes = (pair.before.outcome, pair.after.outcome)
    if any(severity(outcome) >= 2 for outcome in outcomes) or severity(outcomes[0]) != severity(outcomes[1]):
        return f"{outcomes[0]} → {outcomes[1]}" if outcomes[0] != outcomes[1] else f"both {outcomes[0]}"
    return ""
