"""Which result of one side belongs to which of the other, and what tells the two sides apart."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import commonpath
from pathlib import Path

from deep_bench.errors import Incomparable, InvalidArgument, UnknownName
from deep_bench.measure.record import VerdictRecord
from deep_bench.results.comparing.copies import once
from deep_bench.results.comparing.facts import GROUPS, IGNORED, differing, expanded, facts_of
from deep_bench.results.result import Figure, Result, worst

Key = tuple[tuple[str, str], ...]
SIDES = ("before", "after")
RECORD = "record"
"""The factor where nothing but the file tells the two sides apart."""


@dataclass(frozen=True)
class Pair:
    """Two results of the same thing.

    Args:
        labels: What they share.
        before: The one.
        after: The other.
        records: How many records each was made of.
        copies: The files that say again what another one of their side says, and count for nothing.
        shared: The files of the later side whose measurement is one of the earlier side.
    """

    labels: Mapping[str, str]
    before: Result
    after: Result
    records: tuple[int, int]
    copies: tuple[Path, ...] = ()
    shared: tuple[Path, ...] = ()

    @property
    def apart(self) -> bool:
        """Whether they were measured one after the other, not by turns within one run."""
        return self.before.file != self.after.file or self.records != (1, 1)


@dataclass(frozen=True)
class Pairing:
    """All pairs, what is left, and what differs.

    Args:
        pairs: In the order of the first side.
        left: The results of each side that have no counterpart.
        factor: What is compared: the label or fact that tells the sides apart.
        values: The factor's values on each side.
        across: What else differs and was allowed to, with an example of both values.
        asked: Whether the factor was named; else it was found.
        further: How many pairs have other values of the factor than these.
    """

    pairs: tuple[Pair, ...]
    left: tuple[tuple[Result, ...], tuple[Result, ...]]
    factor: str
    values: tuple[str, str]
    across: Mapping[str, tuple[str, str]]
    asked: bool = False
    further: int = 0


def pair(before: Sequence[Result], after: Sequence[Result], factor: str | None, allow: Collection[str]) -> Pairing:
    """Pair the results of two sides by all their labels but those of the factor and those that may differ.

    Several results of one side that no label tells apart are taken together: each is a launch of its own, and counts once
    however often it was copied.

    Args:
        before: One side.
        after: The other.
        factor: The label, fact or group of facts that tells the sides apart; ``None`` to find it.
        allow: Further ones that may differ.

    Raises:
        InvalidArgument: A side is empty.
        UnknownName: No result has a label or fact of such a name.
        Incomparable: More differs than the factor, or results of one side differ in it.
    """
    for name, side in zip(SIDES, (before, after), strict=True):
        if not side:
            raise InvalidArgument(f"no results on the side {name!r}", "at least one", "name a record or a folder of records")
    names = _known([*before, *after])
    for name in (*allow, *([factor] if factor else ())):
        if name not in names and name not in GROUPS and name != RECORD:
            raise UnknownName("label or fact", name, {*names, *GROUPS})
    allowed = expanded(allow, names)
    free = allowed | expanded([factor] if factor else [], names)
    sides, explicit = [_grouped(side, free) for side in (before, after)], factor is not None
    if not sides[0].keys() & sides[1].keys() and factor is None:
        factor = _only_one(_telling(before, after, allowed), names)
        free = allowed | expanded([factor], names)
        sides = [_grouped(side, free) for side in (before, after)]
    return replace(_checked(sides, factor, free, allowed, names), asked=explicit)


def _known(results: Iterable[Result]) -> set[str]:
    return {name for result in results for name in (*result.labels, *facts_of(result))} - (IGNORED - {"host"})


def _grouped(results: Sequence[Result], free: Collection[str]) -> dict[Key, list[Result]]:
    """The results of one side by the labels that count."""
    groups: dict[Key, list[Result]] = {}
    for result in sorted(results, key=lambda result: result.created):
        key = tuple(sorted((k, v) for k, v in result.labels.items() if k not in free and k not in IGNORED))
        groups.setdefault(key, []).append(result)
    return groups


def _telling(before: Sequence[Result], after: Sequence[Result], allowed: Collection[str]) -> dict[str, tuple[str, str]]:
    """The labels whose values on one side are all others than on the other side."""
    names = dict.fromkeys(name for result in (*before, *after) for name in result.labels)
    differences = {}
    for name in names:
        values = [dict.fromkeys(result.labels.get(name, "—") for result in side) for side in (before, after)]
        if name not in IGNORED and name not in allowed and not values[0].keys() & values[1].keys():
            differences[name] = (", ".join(values[0]), ", ".join(values[1]))
    return differences


def _only_one(differences: Mapping[str, tuple[str, str]], names: Collection[str]) -> str:
    """The one name that accounts for all that differs.

    Raises:
        Incomparable: There is none.
    """
    if not differences:
        raise Incomparable("no result of one side has the labels of one of the other", {}, "compare results of one thing")
    candidates = sorted(differences, key=lambda name: (name == "system", name))  # a system's label repeats all its options
    for name in candidates:
        if differences.keys() <= expanded([name], names) and (name != "system" or len(differences) == 1):
            return name
    raise Incomparable("the two sides differ in more than one factor", differences, _advice(differences))


def _advice(names: Collection[str]) -> str:
    first, *remaining = names
    return (
        f"say what is compared, and what may differ beside it: --factor {shlex.quote(first)} {_options(remaining)}".rstrip()
    )


def _checked(
    sides: Sequence[Mapping[Key, list[Result]]],
    factor: str | None,
    free: Collection[str],
    allowed: Collection[str],
    names: Collection[str],
) -> Pairing:
    """The pairs, if nothing differs between the results of one but what may."""
    pairs, unpaired = _paired(sides, allowed)
    differences = [_differences(result_pair.before, result_pair.after) for result_pair in pairs]
    by_name: dict[str, tuple[str, str]] = {}
    for values in differences:
        by_name = {**values, **by_name}
    beyond = {name: values for name, values in by_name.items() if name not in free}
    if not pairs:
        both = [[result for group in side.values() for result in group] for side in sides]
        telling = _telling(both[0], both[1], free)
        raise Incomparable("no result of one side has the labels of one of the other", telling, _advice_beside(telling))
    if factor is None:
        factor = _only_one(beyond, names) if beyond else RECORD
    elif beyond:
        raise Incomparable(f"the two sides differ in more than {factor!r}", beyond, _advice_beside(beyond))
    named = dict.fromkeys(values[factor] for values in differences if factor in values)
    first, *remaining = named or [_names_of(sides)]
    factor_names = expanded([factor], names).difference(allowed)
    across = {name: both for name, both in by_name.items() if name not in factor_names}
    return Pairing(pairs, unpaired, factor, first, across, further=len(remaining))


def _names_of(sides: Sequence[Mapping[Key, list[Result]]]) -> tuple[str, str]:
    """The file of each side; of several, how many there are, and the folder that holds them."""
    before, after = (_name_of([result.file for group in side.values() for result in group]) for side in sides)
    return before, after


def _name_of(results: Sequence[Path]) -> str:
    files = {file.absolute() for file in results}
    if len(files) == 1:
        return files.pop().stem
    return f"{len(files)} records of {Path(commonpath(files)).name or '/'}"


def _paired(
    sides: Sequence[Mapping[Key, list[Result]]], allowed: Collection[str]
) -> tuple[tuple[Pair, ...], tuple[tuple[Result, ...], tuple[Result, ...]]]:
    before, after = (
        {key: _together(side, key, group, allowed) for key, group in groups.items()}
        for side, groups in zip(SIDES, sides, strict=True)
    )
    pairs = [_pair(key, before[key], after[key], [side[key] for side in sides]) for key in before if key in after]
    unpaired = (
        tuple(result for key, result in before.items() if key not in after),
        tuple(result for key, result in after.items() if key not in before),
    )
    return tuple(pairs), unpaired


def _pair(key: Key, before: Result, after: Result, groups: Sequence[list[Result]]) -> Pair:
    ours, theirs = unique = [once(group) for group in groups]
    first = {id(result) for side in unique for result in side.values()}
    copies = tuple(result.file for group in groups for result in group if id(result) not in first)
    shared = tuple(result.file for key, result in theirs.items() if key in ours)
    return Pair(dict(key), before, after, (len(ours), len(theirs)), copies, shared)


def _differences(before: Result, after: Result) -> dict[str, tuple[str, str]]:
    """What differs between two results: facts, then labels."""
    return differing({**facts_of(before), **_counting(before)}, {**facts_of(after), **_counting(after)})


def _advice_beside(names: Collection[str]) -> str:
    return f"measure again with these alike, or say that they may differ: {_options(names)}"


def _options(names: Iterable[str]) -> str:
    return " ".join(f"--across {shlex.quote(name)}" for name in names)


def _counting(result: Result) -> dict[str, str]:
    return {name: value for name, value in result.labels.items() if name not in IGNORED}


def _together(side: str, key: Key, results: Sequence[Result], allowed: Collection[str]) -> Result:
    """Several results of one thing as one, each record a launch of its own.

    Raises:
        Incomparable: They differ in what is not allowed to.
    """
    first = results[0]
    for peer in results[1:]:
        beyond = {name: values for name, values in _differences(first, peer).items() if name not in allowed}
        if beyond:
            subject = " ".join(value for _, value in key) or "one thing"
            raise Incomparable(
                f"{len(results)} results of {subject} on the side {side!r} differ among themselves",
                beyond,
                "name the records of one side only, or allow what may differ within it",
            )
    if len(results) == 1:
        return first
    measured = once(results).values()
    names = dict.fromkeys(name for result in measured for name in result.figures)
    figures = {name: _joined([result.figures[name] for result in measured if name in result.figures]) for name in names}
    return replace(
        first,
        figures=figures,
        verdict=worst(*sorted((r.verdict for r in results if r.verdict is not None), key=_precision)),
        errors=tuple(error for result in results for error in result.errors),
        complete=all(result.complete for result in results),
        notes=tuple(dict.fromkeys(note for result in results for note in result.notes)),
    )


def _precision(verdict: VerdictRecord) -> float:
    return float("inf") if verdict.significant_bits is None else verdict.significant_bits


def _joined(figures: Sequence[Figure]) -> Figure:
    """The launches of all."""
    late = tuple(flag for f in figures for flag in (f.censored or (False,) * len(f.launches)))
    return replace(
        figures[0],
        launches=tuple(launch for figure in figures for launch in figure.launches),
        censored=late if any(late) else (),
        remark="; ".join(dict.fromkeys(figure.remark for figure in figures if figure.remark)),
    )
