"""``compare``: results of two sides, figure by figure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.results.comparing.comparison import Comparison, change_of, not_comparable, said
from deep_bench.results.comparing.comparisons import Comparisons
from deep_bench.results.comparing.correction import CORRECTIONS, corrected
from deep_bench.results.comparing.estimate import estimate
from deep_bench.results.comparing.names import names_of
from deep_bench.results.comparing.pairing import Pair, Pairing, pair
from deep_bench.results.comparing.totals import totals
from deep_bench.results.result import Result


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
    _check(margin, correction)
    return _compared([pair(before, after, factor, allow)], margin, correction, metrics, seed)


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
    _check(margin, correction)
    sides: dict[str, list[Result]] = {}
    for result in results:
        sides.setdefault(result.labels.get(factor, "—"), []).append(result)
    if base not in sides:
        base = _of_framework(sides, factor, base)
    if len(sides) == 1:
        raise InvalidArgument(f"only {factor} {base!r}", "another one to compare with it", "name a second record")
    pairings = [pair(sides[base], side, factor, allow) for value, side in sides.items() if value != base]
    return _compared(pairings, margin, correction, metrics, seed)


def _of_framework(sides: Mapping[str, Sequence[Result]], factor: str, framework: str) -> str:
    """The one system of a framework."""
    matches = [name for name, side in sides.items() if any(r.labels.get("framework") == framework for r in side)]
    if factor != "system" or not matches:
        raise UnknownName(factor, framework, sides)
    if len(matches) > 1:
        raise InvalidArgument(f"the base {framework!r}, of which there are several systems", f"one of {', '.join(matches)}")
    return matches[0]


def _check(margin: float, correction: str) -> None:
    if not 0 < margin < 1:
        raise InvalidArgument(f"margin={margin}", "a share above 0 and below 1, such as 0.02")
    if correction not in CORRECTIONS:
        raise UnknownName("correction", correction, CORRECTIONS)


def _compared(
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
    changes = [
        verdict_change
        for (_, result_pair), name in zip(pairs, names, strict=True)
        if (verdict_change := change_of(result_pair, name)) is not None
    ]
    return Comparisons(
        pairings=tuple(pairings),
        comparisons=tuple(_corrected(drafts, correction)),
        changes=tuple(sorted(changes, key=lambda change: not change.worse)),
        margin=margin,
        correction=correction,
    )


def _check_metrics(pairs: Sequence[Pair], metrics: Collection[str]) -> None:
    """See that each metric that is asked for has a row."""
    names = dict.fromkeys(
        name for result_pair in pairs for name in (*result_pair.before.figures, *result_pair.after.figures)
    )
    both = [
        name
        for name in names
        if any(name in result_pair.before.figures and name in result_pair.after.figures for result_pair in pairs)
    ]
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
    word = "not comparable" if reason else said(change, change.p, change.p_equivalent, before.unit, before.direction)
    return Comparison(
        name,
        result_pair.labels,
        metric,
        before.unit,
        before.direction,
        change,
        word,
        word,
        change.p,
        change.p_equivalent,
        reason or change.why,
    )


def _corrected(drafts: Sequence[Comparison], correction: str) -> list[Comparison]:
    """All of them with the words that hold together."""
    tested = [draft for draft in drafts if draft.tested]
    p = corrected([float(d.estimate.p or 0.0) for d in tested], correction)
    equivalent = corrected([float(d.estimate.p_equivalent or 0.0) for d in tested], correction)
    by_id = {
        id(d): replace(
            d, p=p_value, p_equivalent=equivalence_p, word=said(d.estimate, p_value, equivalence_p, d.unit, d.direction)
        )
        for d, p_value, equivalence_p in zip(tested, p, equivalent, strict=True)
    }
    return [by_id.get(id(draft), draft) for draft in drafts]
