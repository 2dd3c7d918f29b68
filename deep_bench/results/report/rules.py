"""What the twelve rules of Hoefler and Belli ask of each kind of record; `deep_bench.measure.rules` judges it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from deep_bench.measure.rules import (
    NO_BOUND,
    RuleCheck,
    RuleFacts,
    Ruling,
    TimedFigure,
    basis_of,
    facts_of,
    judged,
    known_of,
)
from deep_bench.measure.statistics import grounds, modes
from deep_bench.records.model import Record
from deep_bench.results.report.model import Picture, RecordSource, system_of
from deep_bench.results.result import Figure, Result
from deep_bench.results.results import problem_name

_LAUNCHED_KINDS = ("network", "operators")


@dataclass(frozen=True)
class Plots:
    """The plots of one kind of record.

    Args:
        pictures: All of them.
        left_out: How many results are in the tables only.
        notes: What a reader should know.
        samples: How many raw samples the results that are drawn have, where these are drawn one problem at a time.
        unseen: How many of these have no place on the axis.
    """

    pictures: tuple[Picture, ...]
    left_out: int
    notes: tuple[str, ...]
    samples: int = 0
    unseen: int = 0


def checks(source: RecordSource, plots: Plots, systems: int, notes: Sequence[str] = ()) -> list[RuleCheck]:
    """All twelve rules for a record, as the report shows it.

    Args:
        source: The record.
        plots: What is drawn of its kind.
        systems: How many systems the report has of its kind, of this record or another.
        notes: What the report's author says.
    """
    if source.kind in _LAUNCHED_KINDS and isinstance(source.record, Record):
        facts = facts_of(source.record)
        settled = {**facts.settled, 12: _plots(source.kind, plots)}
    else:
        kind = source.kind
        by_number: dict[int, Ruling] = {
            3: ("holds", _MEANS.get(kind, "medians are given, and no means of rates")),
            6: ("holds", "medians, order statistics and tests of ranks assume no distribution"),
            10: ("holds", _parallel(source)),
            11: ("holds", "what the cheapest known algorithm costs under LogGP is shown beside each time")
            if kind == "communication" and _has_prediction(source)
            else NO_BOUND,
        }
        extra = _PREDICTED if kind == "scaling" else _TRAINED if kind == "training" else {}
        facts, settled = _facts(source), {**by_number, **extra, 12: _plots(kind, plots)}
    return judged(replace(facts, systems=systems, notes=[*notes, *facts.notes], settled=settled))


def _facts(source: RecordSource) -> RuleFacts:
    e = source.results[0].environment
    kind = source.kind
    return RuleFacts(
        systems=0,
        environment=e,
        notes=[note for note in _list(source, "notes") if isinstance(note, str)],
        cpus=_cpus(source),
        failed=[_result_name(result) for result in source.results if result.errors],
        complete=all(result.complete for result in source.results),
        timed=[_timed_of(result, result.main, kind) for result in source.results if result.main is not None],
        known={
            "command": source.command, "recipe": source.value("recipe"), **(known_of(e) if e is not None else {}),
        },
        documented=f"command, recipe, seeds{', assumptions' if kind == 'scaling' else ''}, hardware and software",
    )  # fmt: skip


def _list(source: RecordSource, name: str) -> list[Any]:
    """A list of the record; records of kinds from elsewhere may have anything there."""
    value = source.value(name)
    return value if isinstance(value, list) else []


def _result_name(result: Result) -> str:
    return f"{system_of(result)} on {problem_name(result)}"


def _timed_of(result: Result, figure: Figure, kind: str) -> TimedFigure:
    basis = None
    if figure.interval is not None:
        basis = "runs" if kind == "training" and len(figure.medians) > 1 else basis_of(figure.interval.basis)
    return TimedFigure(
        f"{_result_name(result)}{' (six runs are the fewest)' if kind == 'training' and basis is None else ''}",
        basis,
        lacking=grounds(figure.launches, figure.launches)[1],
        split=kind != "training" and any(len(modes(np.concatenate(groups))) > 1 for groups in figure.launches if groups),
    )


def _cpus(source: RecordSource) -> list[int]:
    """The CPUs that the ranks of the first node are bound to, together; empty for a single process."""
    places: list[dict[str, Any]] = []
    for system in _list(source, "systems"):
        rank_places = getattr(system, "facts", {}).get("ranks")
        places += [place for place in rank_places if isinstance(place, dict)] if isinstance(rank_places, list) else []
    for run in _list(source, "runs"):
        ranks = getattr(run, "ranks", None)
        places += [rank.local for rank in ranks.ranks] if ranks is not None else []
    cpu_sets = [place.get("cpus") for place in places if place.get("host") == places[0].get("host")]
    return sorted({cpu for cpus in cpu_sets if isinstance(cpus, list) for cpu in cpus if isinstance(cpu, int)})


_MEANS = {
    "training": "times are costs; a rate over a run is all samples over all time, the harmonic mean",
    "communication": "bandwidths are the amount over the median time; means are of times, as OSU reports them",
    "scaling": "the mean step is a cost; speed-ups follow from it",
}
_PREDICTED: dict[int, Ruling] = {
    1: ("holds", "the base of each speed-up is one rank alone, whose time of a step was measured and is given"),
    4: ("holds", "each ratio is of two means of costs; none is averaged"),
    5: (
        "holds",
        "each predicted mean has an interval by drawing measured steps again, without what the model is off by",
    ),
    6: ("holds", "measured steps are drawn again; no distribution is assumed"),
    7: ("does not apply", "nothing measured is compared with anything else"),
    8: ("holds", "the mean is given, since a run costs their sum, and where 90 % of the steps lie"),
    10: ("holds", "a step lasts until the slowest rank has updated; what each rank computes was measured alone"),
    11: ("holds", "the ideal speed-up is drawn"),
}
_TRAINED: dict[int, Ruling] = {
    6: ("holds", "medians, order statistics, the Kaplan-Meier estimate and tests of ranks assume no distribution"),
    8: ("holds", "each run is shown beside the median; runs that missed the target are in the estimate as such"),
}


def _parallel(source: RecordSource) -> str:
    if source.kind == "communication":
        return "a barrier, then the operation; the largest time over the ranks of each repetition; the median of these"
    if any(result.labels.get("ranks", "1") != "1" for result in source.results):
        return "the clock of rank 0; each rank's computing, waiting and messages are in the record"
    return "wall time of one process, in which its threads or its device have finished when a stamp is taken"


def _has_prediction(source: RecordSource) -> bool:
    return any(getattr(system, "facts", {}).get("link") is not None for system in _list(source, "systems"))


def _plots(kind: str, plots: Plots) -> Ruling:
    if not plots.pictures:
        return "does not apply", "nothing is plotted; the tables and the records have it all"
    texts = {
        "training": "each run is drawn; lines connect evaluations of one run",
        "communication": "medians with their intervals, not connected; predictions are dashed and marked as such",
        "scaling": "all is marked as predicted; lines connect predictions, measured points stand alone",
    }
    suffix = f"; {plots.left_out} results are in the tables only" if plots.left_out else ""
    if plots.unseen:
        return "fails", f"{plots.unseen} of {plots.samples} raw samples have no place on the axis{suffix}"
    every = (
        f"intervals and all {plots.samples} raw samples of the figures that are plotted are drawn, and nothing is connected"
    )
    return "holds", f"{texts.get(kind, every)}{suffix}"


def merge_checks(found: Sequence[Sequence[RuleCheck]]) -> list[RuleCheck]:
    """The rules over several records: the worst state of each, with the reasons and how many records have it.

    Example:
        >>> one, two = (RuleCheck(1, "rule", state, state) for state in ("holds", "fails"))
        >>> merge_checks([[one], [two], [one]])[0].state, merge_checks([[one], [two], [one]])[0].reason
        ('fails', 'in 1 of 3 records: fails')
    """
    rows = []
    for column in zip(*found, strict=True):
        order = ("fails", "holds", "does not apply")
        state = min((check.state for check in column), key=order.index)
        matches = [check for check in column if check.state == state]
        reasons = list(dict.fromkeys(check.reason for check in matches))
        where = "" if len(matches) == len(column) else f"in {len(matches)} of {len(column)} records: "
        suffix = f" (and {len(reasons) - 2} more reasons)" if len(reasons) > 2 else ""
        rows.append(RuleCheck(column[0].number, column[0].rule, state, f"{where}{' | '.join(reasons[:2])}{suffix}"))
    return rows
