"""How much a figure changed: the ratio or the difference of two medians with its interval, and the word for it.

`Estimate` has the interval and the p-values, `corrected` keeps the rate of false alarms of many comparisons together, and
`Comparison` says of one figure of two results what changed, how sure that is, and whether the two may be compared at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf, log, log1p, sqrt
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deep_bench.errors import UnknownName
from deep_bench.measure.compare import resampled_medians
from deep_bench.measure.statistics import (
    CONFIDENCE,
    Basis,
    Ends,
    Times,
    batch_medians,
    grounds,
    least_p,
    neighbour_stretch,
    shift,
)
from deep_bench.records.model import VerdictRecord
from deep_bench.results.pairing import BETWEEN_STARTS, Pair, differs_by_start, is_speed
from deep_bench.results.result import Direction, Figure, Result

Correction: TypeAlias = Literal["holm", "bh", "none"]

CORRECTIONS: dict[str, str] = {
    "holm": "Holm: at most 5 % chance of any false claim",
    "bh": "Benjamini-Hochberg: at most 5 % of all claims are expected to be false",
    "none": "not corrected: each comparison alone has a 5 % chance of a false claim",
}
"""Name of a correction to what it promises."""


def corrected(p: Sequence[float], correction: str) -> list[float]:
    r"""P-values that may be compared with 5 % each.

    Holm: of m sorted p-values, :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1) p_{(j)})`, which holds whatever
    depends on what.

    Args:
        p: As they are, of the whole family.
        correction: A name in `CORRECTIONS`.

    Raises:
        UnknownName: No such correction.

    Example:
        >>> [round(x, 3) for x in corrected([0.01, 0.04, 0.03], "holm")]
        [0.03, 0.06, 0.06]
        >>> [round(x, 3) for x in corrected([0.01, 0.04, 0.03], "bh")]
        [0.03, 0.04, 0.04]

    Source:
        Holm, *A simple sequentially rejective multiple test procedure*, Scand. J. Statist. 6 (1979); Benjamini and Hochberg,
        *Controlling the false discovery rate*, J. R. Statist. Soc. B 57 (1995).
    """
    if correction not in CORRECTIONS:
        raise UnknownName("correction", correction, CORRECTIONS)
    values = np.asarray(p, float)
    if correction == "none" or not len(values):
        return values.tolist()
    if correction == "bh":
        return np.asarray(stats.false_discovery_control(values, method="bh")).tolist()
    order = np.argsort(values)
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    p_values = np.empty_like(values)
    p_values[order] = np.minimum(steps, 1.0)
    return p_values.tolist()


Scale: TypeAlias = Literal["ratio", "difference"]

_NUMBERS = ("", "%", "bit", "bits", "nat")
"""Units of what is a number in itself, such as a score."""


_RESAMPLES = 1000

_RANGES = (1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078)
"""The expected range of two to ten independent normal values, in standard deviations."""


_TIGHT = 1 - 2 * (1 - CONFIDENCE)
_LEAST = 1e-12


@dataclass(frozen=True)
class Estimate:
    """The change of a figure from one side to the other.

    Args:
        scale: Whether ``value`` is ``after / before`` or ``after - before``.
        before: The median of the one.
        after: That of the other.
        value: The change of the median.
        interval: Its 95 % interval; ``None`` where the samples are too few.
        p: Of the hypothesis that nothing changed, two-sided: at most 5 % exactly if the interval leaves "no change" out.
            Between single launches measured apart, of the hypothesis that it changed by no more than the margin or
            ``starts``, whichever is more.
        p_equivalent: Of the hypothesis that it changed by more than the margin: the larger of two one-sided tests.
        basis: What was taken to be independent: ``"launches"`` (or runs, or records), or ``"blocks"`` of a single launch.
        counts: How many of these each side has, the earlier one first.
        why: Why there is no interval; empty where there is one.
        missed: How many runs never reached what the figure is the time to.
        wander: How far the machine is seen to have wandered while sides were measured apart: a share of the median, or in
            the unit of a difference. A change counts only beyond that.
        starts: The relative change that is put down to two starts of a process: `BETWEEN_STARTS` where times of single
            launches were measured apart, else 0.
    """

    scale: Scale
    before: float
    after: float
    value: float
    interval: Ends | None
    p: float | None
    p_equivalent: float | None
    basis: Basis
    counts: tuple[int, int]
    why: str = ""
    missed: int = 0
    wander: float = 0.0
    starts: float = 0.0

    @property
    def least_p(self) -> float:
        """The least that p could have been with so many launches; 0 for blocks."""
        return least_p(*self.counts) if self.basis == "launches" else 0.0


@dataclass(frozen=True)
class MedianDraws:
    """The median of one side, within one launch, and what it might have been.

    Args:
        value: The median.
        draws: Resampled medians.
        groups: Of how many blocks.
        wander: How far the machine is seen to have wandered from block to block, in the unit of ``value``; 0 where it is not
            seen, or hits both sides.
    """

    value: float
    draws: NDArray[np.float64]
    groups: int
    wander: float = 0.0

    def __add__(self, other: MedianDraws) -> MedianDraws:
        groups = min(self.groups, other.groups)
        return MedianDraws(self.value + other.value, self.draws + other.draws, groups, self.wander + other.wander)


def scale_of(figure: Figure) -> Scale:
    """Whether a change of the figure is a ratio; pure numbers, such as scores, and shares change by a difference."""
    positive = all(value > 0 for value in figure.medians)
    return "ratio" if figure.unit not in _NUMBERS and positive else "difference"


def estimate(before: Figure, after: Figure, margin: float, *, apart: bool, seed: int = 0) -> Estimate:
    """The change from one figure to another.

    Where both have several launches (runs, records), their medians are compared by ranks: see
    `deep_bench.measure.statistics.Shift`. Else blocks are resampled, as `deep_bench.measure.compare.ratio` does.

    Args:
        before: The one.
        after: The other.
        margin: The relative change that counts as none.
        apart: Whether they were measured one after the other. Then slow changes of the machine are in the difference, and
            the intervals are stretched by what the autocorrelation of each shows of them. What differs from launch to
            launch they still do not hold: only a change that is surely beyond the margin is one, and of a time only one
            that is surely beyond `BETWEEN_STARTS`.
        seed: Of the resampling.
    """
    scale: Scale = "ratio" if scale_of(before) == scale_of(after) == "ratio" else "difference"
    basis, reason = grounds(before.launches, after.launches)
    if basis == "launches":
        return over_launches(before, after, scale, margin)
    if reason:
        counts = (len(before.medians), len(after.medians))
        value = _change(before.median, after.median, scale)
        return Estimate(scale, before.median, after.median, value, None, None, None, basis, counts, reason)
    random = np.random.default_rng(seed)
    ours, theirs = (median_draws(figure, random, apart=apart) for figure in (after, before))
    return over_blocks(theirs, ours, scale, margin, apart=apart, unit=after.unit)


def over_launches(before: Figure, after: Figure, scale: Scale, margin: float) -> Estimate:
    """The change from the medians of some launches to those of others, by ranks."""
    transform = partial(np.log) if scale == "ratio" else partial(np.asarray)
    late, late_before = (np.isinf(figure.medians) for figure in (after, before))
    ours, theirs = (transform(_least(figure)) for figure in (after, before))
    rank_shift = shift(ours, theirs, late=late, late_before=late_before)
    counts = (len(theirs), len(ours))
    ends = rank_shift.interval()
    allowed = log1p(margin) if scale == "ratio" else margin * abs(before.median)
    return Estimate(
        scale,
        before.median,
        after.median,
        _change(before.median, after.median, scale),
        None if ends is None else _shown(ends, scale),
        None if ends is None else min(2 * min(rank_shift.below(0.0), rank_shift.above(0.0)), 1.0),
        None if ends is None else max(rank_shift.below(-allowed), rank_shift.above(allowed)),
        "launches",
        counts,
        grounds(before.launches, after.launches)[1],
        int(late.sum() + late_before.sum()),
    )


def _least(figure: Figure) -> NDArray[np.float64]:
    """The median of each launch; of a run that missed what it was to reach, how long it is known to have gone on."""
    medians = [float(np.median(np.concatenate(groups))) for groups in figure.launches if groups]
    return np.array(medians)


def median_draws(figure: Figure, random: np.random.Generator, *, apart: bool) -> MedianDraws:
    """Resampled medians of a figure that has grounds for an interval."""
    groups = [group for launch in figure.launches for group in launch if len(group)]
    draws = resampled_medians(groups, random, _RESAMPLES)
    value = float(np.median(np.concatenate(groups)))
    if not apart:
        return MedianDraws(value, draws, len(groups))
    batches = batch_medians(groups)
    center = np.median(draws)
    return MedianDraws(value, center + neighbour_stretch(batches) * (draws - center), len(batches), wander(batches))


def wander(medians: Times) -> float:
    r"""How far medians in a row wander, beyond what values without an order do.

    .. math:: \sqrt{\max(0,\ (\max m - \min m)^2 - (d_n s)^2)}, \quad s^2 = \frac{1}{2 (n - 1)} \sum (m_{i+1} - m_i)^2

    where :math:`d_n` is the expected range of n independent normal values: what neighbours differ by explains no more.

    Args:
        medians: Of two to ten blocks, or of neighbouring blocks together.

    Example:
        >>> wander(np.array([1.0, 1.2, 1.0, 1.2])), round(wander(np.array([1.0, 1.1, 1.2, 1.3])), 2)
        (0.0, 0.26)

    Source:
        von Neumann, *Distribution of the ratio of the mean square successive difference to the variance*, Ann. Math.
        Statist. 12 (1941), for s; Tippett, Biometrika 17 (1925), for the range.
    """
    steps = np.diff(medians)
    noise = float(steps @ steps) / (2 * len(steps))
    return sqrt(max(float(np.ptp(medians)) ** 2 - _RANGES[len(steps) - 1] ** 2 * noise, 0.0))


def over_blocks(before: MedianDraws, after: MedianDraws, scale: Scale, margin: float, *, apart: bool, unit: str) -> Estimate:
    r"""The change between two resampled medians.

    The interval is the percentile interval of the bootstrap, each side stretched from the normal distribution's quantile to
    that of Student's t. The p-value turns that around: :math:`t = \text{change} / s`, where s is the distance of the end
    that faces "no change" over its quantile.

    Two starts may differ by a share that no block shows. Then a change is one that is beyond that share as well as the
    margin, and none is one that is within the margin whatever the starts did, which takes a margin beyond that share.

    Args:
        before: The one.
        after: The other.
        scale: Of the change.
        margin: The relative change that counts as none.
        apart: Whether they were measured one after the other: whether the p-value is of a change beyond the margin and the
            share of two starts, not of any change.
        unit: Of the figure: two starts differ in times, not in scores.
    """
    ours, theirs = after.draws, before.draws
    if scale == "ratio":
        ours, theirs = (np.log(np.maximum(draws, np.finfo(float).tiny)) for draws in (ours, theirs))
    draws, groups = ours - theirs, min(before.groups, after.groups)
    center, low, high = _spread(draws, CONFIDENCE, groups)
    tight = _spread(draws, _TIGHT, groups)
    starts = BETWEEN_STARTS if apart and differs_by_start(unit) else 0.0
    within, started = (log1p(share) if scale == "ratio" else share * abs(before.value) for share in (margin, starts))
    wandered = sqrt(sum((side.wander / (abs(side.value) if scale == "ratio" else 1.0)) ** 2 for side in (before, after)))
    degrees = groups - 1
    reach = float(stats.t.isf((1 - CONFIDENCE) / 2, degrees))
    far = max(abs(center) - wandered - (max(within, started) if apart else 0.0), 0.0)
    p = 2 * float(stats.t.sf(far / (low if center > 0 else high), degrees))
    room = within - started - wandered
    sides = ((room + center) / tight[1], (room - center) / tight[2])
    return Estimate(
        scale,
        before.value,
        after.value,
        _change(before.value, after.value, scale),
        _shown((center - reach * low - wandered, center + reach * high + wandered), scale),
        min(p, 1.0),
        max(float(stats.t.sf(side, degrees)) for side in sides),
        "blocks",
        (before.groups, after.groups),
        wander=wandered,
        starts=starts,
    )


def _spread(draws: NDArray[np.float64], confidence: float, groups: int) -> tuple[float, float, float]:
    """The middle of some draws, and a standard error below and above it, as the quantiles of this confidence give it."""
    tail = (1 - confidence) / 2
    low, center, high = np.quantile(draws, (tail, 0.5, 1 - tail))
    unit = sqrt(groups / (groups - 1)) / float(stats.norm.isf(tail))
    return float(center), max(unit * float(center - low), _LEAST), max(unit * float(high - center), _LEAST)


def _change(before: float, after: float, scale: Scale) -> float:
    if scale == "difference":
        return after - before
    if before == after == inf:
        return float("nan")
    return after / before if before else inf


def _shown(ends: Sequence[float], scale: Scale) -> Ends:
    low, high = ends
    if scale == "difference":
        return low, high
    return _exp(low), _exp(high)


def _exp(x: float) -> float:
    return exp(x) if x < log(1e300) else inf


Word: TypeAlias = Literal["faster", "slower", "better", "worse", "equivalent", "cannot tell", "not comparable"]

LEVEL = 0.05
"""The chance of a false claim."""


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


def word_for(estimate: Estimate, p: float | None, p_equivalent: float | None, unit: str, direction: Direction) -> Word:
    """The word for a change.

    *Equivalent* is a claim of its own, by two one-sided tests against the margin (Schuirmann 1987); it goes before
    *faster* and *slower*, since a change within the margin counts as none.

    Args:
        estimate: The change.
        p: Of the hypothesis that there is none.
        p_equivalent: Of the hypothesis that it is beyond the margin.
        unit: Of the figure.
        direction: Which is better.
    """
    if p is None or p_equivalent is None:
        return "cannot tell"
    if p_equivalent <= LEVEL:
        return "equivalent"
    if p > LEVEL:
        return "cannot tell"
    ends = estimate.interval
    assert ends is not None
    up = ends[0] > (1 if estimate.scale == "ratio" else 0)
    good = up == (direction == "higher")
    if is_speed(unit):
        return "faster" if good else "slower"
    return "better" if good else "worse"
