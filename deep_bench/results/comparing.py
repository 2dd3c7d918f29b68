"""`compare`: results of two sides, figure by figure; totals over cases; when a comparison should fail.

Totals are ratios of total times: ratios themselves are never averaged. Conditions are written as a command line has them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from deep_bench.errors import Incomparable, InvalidArgument, UnknownName
from deep_bench.measure.compare import (
    CORRECTIONS,
    Estimate,
    TotalPart,
    corrected,
    estimate,
    is_speed,
    ratio_of_totals,
)
from deep_bench.results.change import Change, Comparison, change_of, not_comparable
from deep_bench.results.comparisons import Comparisons, same_record
from deep_bench.results.pairing import (
    ONCE_A_START,
    OWNED,
    RECORD,
    Pair,
    Pairing,
    first_few,
    labels_with_factor,
    names_of,
    pair,
    told_apart,
)
from deep_bench.results.result import Result

__all__ = [
    "Change",
    "Comparison",
    "Comparisons",
    "Condition",
    "Estimate",
    "compare",
    "compare_within",
    "failures",
    "unjudged",
]


def compare(
    before: Sequence[Result],
    after: Sequence[Result],
    *,
    factor: str | None = None,
    margin: float = 0.02,
    correction: str = "holm",
    allow: Collection[str] = (),
    metrics: Collection[str] = (),
    seed: int = 0,
) -> Comparisons:
    """Compare the results of two sides: what changed from one to the other?

    Results are paired by all their labels but those of one factor, which is found if it is not named. Environments are
    compared as well: what differs beyond the factor is refused unless it is in ``allow``. Several records of one thing on a
    side are taken as launches of it.

    Args:
        before: One side, such as ``gather("baseline/")``.
        after: The other.
        factor: The label or fact that the sides differ in (``"version"``, ``"commit"``, ``"framework"``), or a group of
            facts (``"machine"``, ``"threads"``, ``"clock"``, ``"versions"``).
        margin: The relative difference that counts as none.
        correction: ``"holm"``, ``"bh"`` (Benjamini and Hochberg) or ``"none"``.
        allow: Labels, facts and groups of these that may differ as well.
        metrics: The figures to compare; all by default.
        seed: Of the resampling.

    Raises:
        Incomparable: More differs than the factor; the error lists it.
        InvalidArgument: A side without results, or a number out of range.
        UnknownName: No such factor, metric or correction.

    Example:
        >>> from datetime import datetime
        >>> from pathlib import Path
        >>> import numpy as np
        >>> from deep_bench.results import Figure
        >>> def runs_of(level):
        ...     launches = tuple((level * (1 + np.random.default_rng(i).random(9) / 100),) for i in range(8))
        ...     time = Figure("forward", "s", "lower", launches)
        ...     return [Result("network", Path("run.json"), datetime.now(), {"system": "torch"}, {"forward": time})]
        >>> found = compare(runs_of(1.0), runs_of(1.1))
        >>> found.factor, found[0].word, round(found[0].estimate.value, 3), round(found[0].p, 5)
        ('record', 'slower', 1.1, 0.00016)
    """
    _check_margin(margin, correction)
    return _compare_metric([pair(before, after, factor, allow)], margin, correction, metrics, seed)


def compare_within(
    results: Sequence[Result],
    base: str,
    *,
    factor: str = "system",
    margin: float = 0.02,
    correction: str = "holm",
    allow: Collection[str] = (),
    metrics: Collection[str] = (),
    seed: int = 0,
) -> Comparisons:
    """Compare all systems of some results with one of them, the base; those of one record took turns when they were timed.

    Args:
        results: Such as ``gather("results/run.json")``.
        base: A value of the factor; of systems a framework's name will do, where only one of them is of it.
        factor: The label by which results are told apart.
        margin: See `compare`, as for all that follows.
        correction: For all comparisons together.
        allow: What may differ beside the factor.
        metrics: The figures to compare.
        seed: Of the resampling.

    Raises:
        UnknownName: No result has that value.
        InvalidArgument: Only the base is there, or several systems are of that framework; and as `compare`.
        Incomparable: As `compare`.
    """
    _check_margin(margin, correction)
    sides: dict[str, list[Result]] = {}
    for result in results:
        sides.setdefault(result.labels.get(factor, "—"), []).append(result)
    if base not in sides:
        # the one system of a framework
        matches = [name for name, side in sides.items() if any(r.labels.get("framework") == base for r in side)]
        if factor != "system" or not matches:
            raise UnknownName(factor, base, sides)
        if len(matches) > 1:
            raise InvalidArgument(f"the base {base!r}, of which there are several systems", f"one of {', '.join(matches)}")
        base = matches[0]
    if len(sides) == 1:
        raise InvalidArgument(f"only {factor} {base!r}", "another one to compare with it", "name a second record")
    pairings = [pair(sides[base], side, factor, allow) for value, side in sides.items() if value != base]
    return _compare_metric(pairings, margin, correction, metrics, seed)


def _check_margin(margin: float, correction: str) -> None:
    if not 0 < margin < 1:
        raise InvalidArgument(f"margin={margin}", "a share above 0 and below 1, such as 0.02")
    if correction not in CORRECTIONS:
        raise UnknownName("correction", correction, CORRECTIONS)


def _compare_metric(
    pairings: Sequence[Pairing], margin: float, correction: str, metrics: Collection[str], seed: int
) -> Comparisons:
    pairs = [(pairing, result_pair) for pairing in pairings for result_pair in pairing.pairs]
    names = names_of(pairs)
    _check_metrics([result_pair for _, result_pair in pairs], metrics)
    drafts = []
    for (_, result_pair), name in zip(pairs, names, strict=True):
        shared = [m for m in result_pair.before.figures if m in result_pair.after.figures and (not metrics or m in metrics)]
        drafts += [_draft(result_pair, name, metric, margin, seed) for metric in shared]
    drafts += totals(pairings, drafts, metrics, margin, seed)
    changes = [change for (_, p), name in zip(pairs, names, strict=True) if (change := change_of(p, name)) is not None]
    # all of them with the words that hold together
    tested = [draft for draft in drafts if draft.tested]
    p = corrected([float(d.estimate.p or 0.0) for d in tested], correction)
    equivalent = corrected([float(d.estimate.p_equivalent or 0.0) for d in tested], correction)
    by_id = {
        id(d): replace(d, p=p_value, p_equivalent=equivalence_p, word=d.estimate.word_for(p_value, equivalence_p))
        for d, p_value, equivalence_p in zip(tested, p, equivalent, strict=True)
    }
    return Comparisons(
        pairings=tuple(pairings),
        comparisons=tuple([by_id.get(id(draft), draft) for draft in drafts]),
        changes=tuple(sorted(changes, key=lambda change: not change.worse)),
        margin=margin,
        correction=correction,
    )


def _check_metrics(pairs: Sequence[Pair], metrics: Collection[str]) -> None:
    """See that each metric that is asked for has a row."""
    names = dict.fromkeys(name for p in pairs for name in (*p.before.figures, *p.after.figures))
    both = [name for name in names if any(name in p.before.figures and name in p.after.figures for p in pairs)]
    for name in metrics:
        if name not in names:
            raise UnknownName("metric of these results", name, names)
        if name not in both:
            raise InvalidArgument(f"the metric {name!r}, which only one side has", f"one of {', '.join(both) or 'none'}")


def _draft(result_pair: Pair, name: str, metric: str, margin: float, seed: int) -> Comparison:
    """A comparison as if it were the only one."""
    before, after = result_pair.before.figures[metric], result_pair.after.figures[metric]
    reason = not_comparable(result_pair)
    change = estimate(before, after, margin, apart=result_pair.apart, seed=seed)
    word = "not comparable" if reason else change.word
    return Comparison(
        name, result_pair.labels, metric, change.unit, change.direction, change, word, word, change.p, change.p_equivalent,
        reason or change.why,
    )  # fmt: skip


_WHOLE = ("kind", "suite", "framework", "system", "dtype", "device", "recipe", "commit")
"""Labels that a total keeps apart; it runs over all others."""


_ALWAYS = ("system",)
"""Labels that the name of a total has also where there is only one."""


def totals(
    pairings: Sequence[Pairing], drafts: Sequence[Comparison], metrics: Collection[str], margin: float, seed: int
) -> list[Comparison]:
    """The totals over all cases of operators, or networks, that have a time on both sides and may be compared.

    Args:
        pairings: The pairs.
        drafts: The comparisons of single cases.
        metrics: The figures to compare; all if empty.
        margin: The relative difference that counts as none.
        seed: Of the resampling.
    """
    fit = {(id(draft.labels), draft.metric) for draft in drafts if draft.tested}
    entries = [
        (pairing, comparison)
        for pairing in pairings
        for (metric, _), pairs in _case_groups(pairing, fit, metrics).items()
        if _is_a_whole(pairs) and (comparison := _total(pairs, metric, margin, seed)) is not None
    ]
    always = [label for label in _ALWAYS if any(label in comparison.labels for _, comparison in entries)]
    names = told_apart(
        [_total_labels(labels_with_factor(pairing, comparison.labels), pairing.factor) for pairing, comparison in entries],
        always,
    )
    return [
        replace(comparison, name=f"{comparison.name} {name}".rstrip())
        for (_, comparison), name in zip(entries, names, strict=True)
    ]


def _case_groups(
    pairing: Pairing, fit: Container[tuple[int, str]], metrics: Collection[str]
) -> dict[tuple[str, tuple[str, ...]], list[Pair]]:
    """The pairs of each total, by the metric and the labels that are kept apart."""
    groups: dict[tuple[str, tuple[str, ...]], list[Pair]] = {}
    for matched in pairing.pairs:
        if matched.before.kind not in ("operators", "network"):
            continue
        about = tuple(matched.labels.get(label, "") for label in _WHOLE)
        for metric, figure in matched.before.figures.items():
            selected = (not metrics or metric in metrics) and metric not in ONCE_A_START and figure.unit == "s"
            if selected and (id(matched.labels), metric) in fit:
                groups.setdefault((metric, about), []).append(matched)
    return groups


def _total_labels(labels: Mapping[str, str], factor: str) -> dict[str, str]:
    """Those that totals are told apart by."""
    return {label: value for label, value in labels.items() if label in _WHOLE or label == factor}


def _is_a_whole(pairs: Sequence[Pair]) -> bool:
    """Whether there is more than one case; the sizes of one network are no parts of a whole."""
    names = {pair.labels.get("network") for pair in pairs}
    return len(pairs) > 1 and (pairs[0].before.kind == "operators" or len(names) == len(pairs))


def _total(pairs: Sequence[Pair], metric: str, margin: float, seed: int) -> Comparison | None:
    before = [TotalPart(1, pair.before.figures[metric]) for pair in pairs]
    after = [TotalPart(1, pair.after.figures[metric]) for pair in pairs]
    estimate = ratio_of_totals(after, before, margin, apart=[pair.apart for pair in pairs], seed=seed)
    if estimate.p is None and estimate.basis == "blocks":
        return None
    first = pairs[0]
    shared = dict(set.intersection(*({*pair.labels.items()} for pair in pairs)))
    name = f"total of {len(pairs)} {'cases' if first.before.kind == 'operators' else 'networks'}"
    word = estimate.word
    return Comparison(
        name, shared, metric, estimate.unit, estimate.direction, estimate, word, word, estimate.p, estimate.p_equivalent,
        cases=len(pairs),
    )  # fmt: skip


_CONDITION = re.compile(r"(slower|worse)(?::(\d+\.?\d*|\.\d+)\s*%)?|wrong|cannot-tell|unpaired")
_CONDITIONS = "slower, slower:5%, worse, worse:5%, wrong, cannot-tell or unpaired"

EXPECTED_FACTORS = frozenset({RECORD, "commit", "version", "deep-bench", *OWNED})
"""Factors that a gate takes although nobody named them: when it was measured, and versions of what is measured."""


@dataclass(frozen=True)
class Condition:
    """What should not be.

    Args:
        word: ``"slower"`` (times and rates), ``"worse"`` (these and all else), ``"wrong"``, ``"cannot-tell"``, or
            ``"unpaired"`` (a result of the first side has no counterpart).
        share: For the first two, by how much at least: the better end of the interval is beyond it.

    Example:
        >>> Condition.parse("slower:5%")
        Condition(word='slower', share=0.05)
    """

    word: str
    share: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read one.

        Raises:
            InvalidArgument: It is none.
        """
        match = _CONDITION.fullmatch(text.strip())
        if match is None:
            raise InvalidArgument(f"the condition {text!r}", _CONDITIONS)
        return cls(match[1] or text.strip(), float(match[2]) / 100 if match[2] else 0.0)

    def __str__(self) -> str:
        return f"{self.word}:{100 * self.share:g}%" if self.share else self.word


def failures(found: Comparisons, conditions: Sequence[Condition]) -> list[str]:
    """Why the comparison fails; empty if it does not.

    *Slower by 5 %* holds where the word is *slower*, all comparisons considered, and even the better end of the interval is
    beyond 5 %. What is not sure never fails, unless ``cannot-tell`` asks for it.

    Conditions that these sides are too few to judge are told by `unjudged`.

    Raises:
        Incomparable: The sides differ in something else than `MEANT`, such as the machine, that was not named as the factor.
        InvalidArgument: A share below the margin: such a change is called *equivalent*.
    """
    if conditions:
        # see that the factor is one that a gate can mean
        pairing = found.pairings[0]
        if not pairing.asked and pairing.factor not in EXPECTED_FACTORS:
            raise Incomparable(
                f"a condition to fail on, and sides that differ in {pairing.factor!r}, which is not named as the factor",
                {pairing.factor: pairing.values},
                f"measure again with it alike; or, if that is what is compared: --factor {shlex.quote(pairing.factor)}",
            )
    lines = []
    for condition in conditions:
        if 0 < condition.share < found.margin:
            raise InvalidArgument(
                f"{condition} with a margin of {100 * found.margin:g} %, below which nothing is called {condition.word}",
                advice=f"give a margin of at most {condition.share:g}",
            )
        lines += [f"{condition}: {line}" for line in _violations(found, condition)]
    return lines


def unjudged(found: Comparisons, conditions: Sequence[Condition]) -> list[str]:
    """The conditions that could not have been met, whatever changed, with what to do; empty where all were judged.

    So it is where nothing that a condition is about was tested, or not all but what a start has one value of; where both
    sides are the same record; and between single launches measured apart, where nothing under `BETWEEN_STARTS` is called
    slower.
    """
    lines = []
    for condition in conditions:
        lines += [f"cannot judge {condition}: {reason}" for reason in _untested_lines(found, condition)]
        if same_record(found):
            continue
        unresolved = [c for c in found if _concerns_change(condition, c) and c.leaves_open(condition.share)]
        if unresolved:
            least = replace(condition, share=max(comparison.estimate.starts for comparison in unresolved))
            lines.append(
                f"cannot judge {condition}: {first_few([comparison.row for comparison in unresolved])}: a side "
                "has one launch, and two starts of a "
                f"program may differ by {100 * least.share:g} %; measure each side in 4 launches or more (launches: 4 in a "
                f"recipe, --launches 4, or so many records), or ask for {least}"
            )
    return lines


def _untested_lines(comparisons: Comparisons, condition: Condition) -> Iterator[str]:
    """Why some or all that a condition is about was not tested."""
    if condition.word not in ("slower", "worse", "cannot-tell"):
        return
    about = [c for c in comparisons if condition.word == "cannot-tell" or _concerns_change(condition, c)]
    if not about:
        yield f"both sides have no {'time or rate' if condition.word == 'slower' else 'figure'} in common"
    elif same_record(comparisons):
        yield "both sides are the same record; name two measurements"
    elif not any(comparison.tested for comparison in about):
        whys = dict.fromkeys(comparison.why for comparison in about)
        yield f"nothing was tested: {first_few([comparison.row for comparison in about])}: {first_few(list(whys))}"
    elif skipped := [comparison for comparison in about if comparison.untested and comparison.metric not in ONCE_A_START]:
        whys = dict.fromkeys(comparison.estimate.why for comparison in skipped)
        yield (
            f"not tested: {first_few([comparison.row for comparison in skipped])}: {first_few(list(whys))}; or "
            "leave them out (--metric)"
        )


def _concerns_change(condition: Condition, comparison: Comparison) -> bool:
    return condition.word == "worse" or (condition.word == "slower" and is_speed(comparison.unit))


def _violations(comparisons: Comparisons, condition: Condition) -> list[str]:
    if condition.word == "wrong":
        return [f"{change.name} {change.before} → {change.after}".strip() for change in comparisons.changes if change.worse]
    if condition.word == "unpaired":
        return [result.name or result.file.name for result in comparisons.left[0]]
    if condition.word == "cannot-tell":
        return [comparison.row for comparison in comparisons if comparison.tested and comparison.word == "cannot tell"]
    words = ("slower",) if condition.word == "slower" else ("slower", "worse")
    return [
        comparison.row
        for comparison in comparisons
        if comparison.word in words and (not condition.share or comparison.beyond(condition.share))
    ]
