"""What a reader must know to judge the words of a comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from deep_bench.results.comparing.comparison import LEVEL
from deep_bench.results.comparing.correction import CORRECTIONS
from deep_bench.results.comparing.facts import facts_of
from deep_bench.results.comparing.names import some
from deep_bench.results.comparing.pairing import Pair

if TYPE_CHECKING:
    from deep_bench.results.comparing.comparison import Comparison
    from deep_bench.results.comparing.comparisons import Comparisons

_WANDERS = 0.005


def notes(found: Comparisons) -> tuple[str, ...]:
    """All of them, as sentences."""
    return tuple(line for note in _NOTES for line in note(found))


def _tests(comparisons: Comparisons) -> Iterable[str]:
    if comparisons.tests > 1:
        yield f"{comparisons.tests} tests; {CORRECTIONS[comparisons.correction]}; intervals are of each alone"
        otherwise = sum(comparison.word != comparison.alone for comparison in comparisons if comparison.tested)
        if otherwise:
            yield f"alone, {otherwise} of them would be called otherwise"
    if any(comparison.tested and comparisons.margin > comparison.estimate.starts for comparison in comparisons):
        yield f"no difference: the change is within {100 * comparisons.margin:g} %, by two one-sided tests"


def _method(comparisons: Comparisons) -> Iterable[str]:
    bases = {comparison.estimate.basis for comparison in comparisons if comparison.tested}
    if "launches" in bases:
        yield "over medians of launches (runs, records): intervals and p-values of Mann and Whitney's exact rank test"
    if "blocks" in bases:
        yield "over blocks of one launch: bootstrap with Student's t; p-values belong to these intervals"
    late = [comparison.metric for comparison in comparisons if comparison.estimate.missed]
    if late:
        yield (
            f"{some(late)}: runs that missed the target count as later than all they outlasted "
            "(Gehan's generalisation of the rank test)"
        )


def _single_launch(comparisons: Comparisons) -> Iterable[str]:
    timed = [comparison for comparison in comparisons if comparison.tested and comparison.estimate.basis == "blocks"]
    if timed and any(pair.apart for pair in _pairs(comparisons)):
        yield from _taken_apart(comparisons, timed)
        restless = [
            comparison
            for comparison in timed
            if comparison.estimate.scale == "ratio" and comparison.estimate.wander > _WANDERS
        ]
        if restless:
            metrics, most = (
                some([comparison.metric for comparison in restless]),
                max(comparison.estimate.wander for comparison in restless),
            )
            yield (
                f"{metrics}: times wandered by up to {100 * most:.2g} % from block to block, "
                "as on a machine that drifts: only a change beyond that as well is called one"
            )
    elif timed:
        yield "one launch each: what differs from one start of a process to the next is in no interval (--launches 10)"


def _taken_apart(comparisons: Comparisons, timed: Sequence[Comparison]) -> Iterable[str]:
    figures = [figure for pair in _pairs(comparisons) for r in (pair.before, pair.after) for figure in r.figures.values()]
    each = "one launch each" if all(len(figure.launches) <= 1 for figure in figures) else "one launch on a side"
    hidden = "what differs from one start of a process to the next, and what else changed meanwhile, is in no interval"
    starts = max(comparison.estimate.starts for comparison in timed)
    if starts:
        yield (
            f"{each}, measured one after the other: {hidden}; so nothing under "
            f"{100 * max(starts, comparisons.margin):g} % is "
            f"called faster or slower, and no difference takes a margin beyond {100 * starts:g} %; for smaller changes "
            "measure several launches of each side (launches: 4 or more in a recipe, or --launches), best by turns"
        )
    metrics = [comparison.metric for comparison in timed if not comparison.estimate.starts]
    if metrics:
        yield f"{some(metrics)}: {each}: only a change that is surely beyond {100 * comparisons.margin:g} % is called one"


def _records(comparisons: Comparisons) -> Iterable[str]:
    several = {pair.records for pair in _pairs(comparisons) if pair.records != (1, 1)}
    if several:
        counts = ", ".join(f"{before} and {after}" for before, after in sorted(several))
        yield f"several records of one thing count as launches of it: {counts} of the two sides"
    copies = {file for pair in _pairs(comparisons) for file in pair.copies}
    if copies:
        names = some(sorted(file.name for file in copies))
        yield f"{len(copies)} with the same samples as another record of their side count for nothing, as copies: {names}"
    if same_record(comparisons):
        yield "both sides are the same record: this compares it with itself, and says nothing"
    elif shared := [file.name for pair in _pairs(comparisons) for file in pair.shared]:
        yield f"{some(shared)}: the same record is on both sides, which hides a change"


def same_record(found: Comparisons) -> bool:
    """Whether the later side has nothing that the earlier one has not."""
    return all(len(pair.shared) == pair.records[1] for pair in _pairs(found))


def _too_few(comparisons: Comparisons) -> Iterable[str]:
    least = [
        comparison
        for comparison in comparisons
        if comparison.tested and comparison.estimate.least_p * (comparisons.tests or 1) > LEVEL
    ]
    if comparisons.correction == "holm" and least:
        before, after = least[0].estimate.counts
        yield (
            f"with {before} and {after} launches p is at least {least[0].estimate.least_p:.2g}: among "
            f"{comparisons.tests} tests "
            "that is not enough to tell anything; take more launches, fewer metrics (--metric), or --correction bh"
        )
    whys: dict[str, set[str]] = {}
    for comparison in comparisons:
        whys.setdefault(comparison.metric, set()).add(comparison.estimate.why)
    untold: dict[str, list[str]] = {}
    for comparison in comparisons:
        if comparison.untested:
            untold.setdefault(comparison.estimate.why, []).append(
                comparison.row if len(whys[comparison.metric]) > 1 else comparison.metric
            )
    for reason, rows in untold.items():
        yield f"not tested: {some(rows)}: {reason}"


def _one_sided(comparisons: Comparisons) -> Iterable[str]:
    for side, opposite in (("before", "after"), ("after", "before")):
        lone = [
            name
            for pair in _pairs(comparisons)
            for name in getattr(pair, side).figures
            if name not in getattr(pair, opposite).figures and pair.before.ok and pair.after.ok
        ]
        if lone:
            yield f"only on the side {side!r}: {some(lone)}"


def _unchecked(comparisons: Comparisons) -> Iterable[str]:
    pairs = _pairs(comparisons)
    unchecked = sum(any(r.outcome == "unchecked" for r in (pair.before, pair.after)) for pair in pairs)
    if unchecked:
        yield f"not checked for being right: {unchecked} of {len(pairs)} pairs"
    if any(not r.complete for pair in pairs for r in (pair.before, pair.after)):
        yield "some runs did not come to their end; what they measured counts"


def _code(comparisons: Comparisons) -> Iterable[str]:
    both = [tuple(facts_of(r)["commit"] for r in (pair.before, pair.after)) for pair in _pairs(comparisons)[:1]]
    if both and all("with changes" in commit for commit in both[0]) and both[0][0] == both[0][1]:
        yield "both sides have changes beyond their common commit, which no record holds: their code may differ"


_NOTES: tuple[Callable[[Comparisons], Iterable[str]], ...] = (
    _tests, _method, _single_launch, _records, _too_few, _one_sided, _unchecked, _code,
)  # fmt: skip


def _pairs(comparisons: Comparisons) -> list[Pair]:
    return [pair for pairing in comparisons.pairings for pair in pairing.pairs]
