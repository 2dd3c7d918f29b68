"""Totals over cases: the ratio of total times. Ratios themselves are never averaged."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from deep_bench.measure.grounds import grounds
from deep_bench.results.comparing.comparison import Comparison, said
from deep_bench.results.comparing.estimate import Drawn, Estimate, drawn, over_blocks, over_launches
from deep_bench.results.comparing.names import labelled, told_apart
from deep_bench.results.comparing.pairing import Pair, Pairing
from deep_bench.results.comparing.starts import ONCE
from deep_bench.results.result import Figure

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
        for (metric, _), pairs in _groups(pairing, fit, metrics).items()
        if _several(pairs) and (comparison := _total(pairs, metric, margin, seed)) is not None
    ]
    always = [label for label in _ALWAYS if any(label in comparison.labels for _, comparison in entries)]
    names = told_apart(
        [_kept(labelled(pairing, comparison.labels), pairing.factor) for pairing, comparison in entries], always
    )
    return [
        replace(comparison, name=f"{comparison.name} {name}".rstrip())
        for (_, comparison), name in zip(entries, names, strict=True)
    ]


def _groups(
    pairing: Pairing, fit: Container[tuple[int, str]], metrics: Collection[str]
) -> dict[tuple[str, tuple[str, ...]], list[Pair]]:
    """The pairs of each total, by the metric and the labels that are kept apart."""
    groups: dict[tuple[str, tuple[str, ...]], list[Pair]] = {}
    for pair in pairing.pairs:
        if pair.before.kind not in ("operators", "network"):
            continue
        about = tuple(pair.labels.get(label, "") for label in _WHOLE)
        for metric, figure in pair.before.figures.items():
            selected = (not metrics or metric in metrics) and metric not in ONCE and figure.unit == "s"
            if selected and (id(pair.labels), metric) in fit:
                groups.setdefault((metric, about), []).append(pair)
    return groups


def _kept(labels: Mapping[str, str], factor: str) -> dict[str, str]:
    """Those that totals are told apart by."""
    return {label: value for label, value in labels.items() if label in _WHOLE or label == factor}


def _several(pairs: Sequence[Pair]) -> bool:
    """Whether there is more than one case; the sizes of one network are no parts of a whole."""
    names = {pair.labels.get("network") for pair in pairs}
    return len(pairs) > 1 and (pairs[0].before.kind == "operators" or len(names) == len(pairs))


def _total(pairs: Sequence[Pair], metric: str, margin: float, seed: int) -> Comparison | None:
    figures = [(pair.before.figures[metric], pair.after.figures[metric]) for pair in pairs]
    estimate = _estimate(figures, margin, [pair.apart for pair in pairs], seed)
    if estimate is None:
        return None
    first = pairs[0]
    shared = dict(set.intersection(*({*pair.labels.items()} for pair in pairs)))
    name = f"total of {len(pairs)} {'cases' if first.before.kind == 'operators' else 'networks'}"
    figure = figures[0][0]
    word = said(estimate, estimate.p, estimate.p_equivalent, figure.unit, figure.direction)
    return Comparison(
        name, shared, metric, figure.unit, figure.direction, estimate, word, word, estimate.p, estimate.p_equivalent,
        cases=len(pairs),
    )  # fmt: skip


def _estimate(figures: Sequence[tuple[Figure, Figure]], margin: float, apart: Sequence[bool], seed: int) -> Estimate | None:
    """The ratio of the sums: launch by launch where all have several, else of resampled sums."""
    launches = [min(len(side[which].medians) for side in figures) for which in (0, 1)]
    if min(launches) > 1:
        sums = [_summed([side[which] for side in figures], launches[which]) for which in (0, 1)]
        return over_launches(sums[0], sums[1], "ratio", margin)
    if any(grounds(*(figure.launches for figure in both))[1] for both in figures):
        return None
    random = np.random.default_rng(seed)
    sides: list[list[Drawn]] = [[], []]
    for both, far in zip(figures, apart, strict=True):
        for which in (1, 0):
            sides[which].append(drawn(both[which], random, apart=far))
    return over_blocks(reduce(add, sides[0]), reduce(add, sides[1]), "ratio", margin, apart=any(apart), unit="s")


def _summed(figures: Sequence[Figure], launches: int) -> Figure:
    values = np.sum([figure.medians[:launches] for figure in figures], axis=0)
    first = figures[0]
    return Figure(first.name, first.unit, first.direction, tuple((np.array([value]),) for value in values))
