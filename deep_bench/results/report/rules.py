"""The twelve rules of Hoefler and Belli, of each kind of record: whether they hold, and why.

`deep_bench.measure.rules` judges records of networks and operators; this does the same for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from deep_bench.measure.record import Record
from deep_bench.measure.rules import RULES, Check, State, check
from deep_bench.measure.statistics import modes
from deep_bench.results.report.naming import listed, system_of
from deep_bench.results.report.sources import Source
from deep_bench.results.result import Figure, Result
from deep_bench.results.table import problem

Said = tuple[State, str]

_OWN = ("network", "operators")
_FEWEST_TO_COMPARE = 4


@dataclass(frozen=True)
class Plots:
    """What the report shows of a kind of record.

    Args:
        drawn: Whether there are plots.
        left_out: How many results they leave out.
    """

    drawn: bool
    left_out: int = 0


def checks(source: Source, plots: Plots, systems: int) -> list[Check]:
    """All twelve rules for a record, as the report shows it.

    Args:
        source: The record.
        plots: What is drawn of its kind.
        systems: How many systems the report has of its kind, of this record or another.
    """
    facts = _Facts(source, systems)
    if source.kind in _OWN and isinstance(source.record, Record):
        found = check(source.record, plotted=plots.drawn)
        return [Check(1, RULES[0], *_speed_up(facts)), *found[1:11], Check(12, RULES[11], *_plots(source.kind, plots))]
    judged = [judge(facts) for judge in _JUDGES]
    return [
        Check(i, rule, *said)
        for i, (rule, said) in enumerate(zip(RULES, [*judged, _plots(source.kind, plots)], strict=True), 1)
    ]


@dataclass(frozen=True)
class _Facts:
    source: Source
    systems: int

    @cached_property
    def figures(self) -> list[tuple[Result, Figure]]:
        return [(result, result.main) for result in self.source.results if result.main is not None]

    @property
    def kind(self) -> str:
        return self.source.kind

    @property
    def predicted(self) -> bool:
        return self.kind == "scaling"

    @property
    def ranks(self) -> int:
        return max((int(r.labels["ranks"]) for r in self.source.results if r.labels.get("ranks", "").isdecimal()), default=1)


def _speed_up(f: _Facts) -> Said:
    if f.predicted:
        return "holds", "the base of each speed-up is one rank alone, whose time of a step was measured and is given"
    if f.systems < 2:
        return "does not apply", "a single system was measured"
    return "holds", "each ratio stands beside the absolute value of its base, which is named"


def _subset(f: _Facts) -> Said:
    e = f.source.results[0].environment
    allowed, logical = (len(e.cpus_allowed or ()), e.logical_cpus or 0) if e is not None else (0, 0)
    if 0 < allowed < logical and not f.source.value("notes"):
        return "fails", f"only {allowed} of {logical} CPUs could be used, and no note says why"
    failed = [f"{system_of(r)} on {problem(r)}" for r in f.source.results if r.errors]
    ended = "" if all(r.complete for r in f.source.results) else "; the run ended early, which is said"
    return "holds", (
        f"failed, each with its error: {listed(failed)}" if failed else "all that was asked for is reported"
    ) + ended


def _means(f: _Facts) -> Said:
    texts = {
        "training": "times are costs; a rate over a run is all samples over all time, the harmonic mean",
        "communication": "bandwidths are the amount over the median time; means are of times, as OSU reports them",
        "scaling": "the mean step is a cost; speed-ups follow from it",
    }
    return "holds", texts.get(f.kind, "medians are given, and no means of rates")


def _ratios(f: _Facts) -> Said:
    if f.systems < 2 and not f.predicted:
        return "does not apply", "no ratio is given"
    return "holds", "each ratio is of two medians or two means of costs; none is averaged"


def _intervals(f: _Facts) -> Said:
    if not f.figures:
        return "does not apply", "nothing was measured"
    if f.predicted:
        return (
            "holds",
            "each predicted mean has an interval by drawing measured steps again; how far the model is off is not in it",
        )
    without = [f"{system_of(r)} on {problem(r)}" for r, figure in f.figures if figure.interval is None]
    if without:
        runs = " (six runs are the fewest)" if f.kind == "training" else ""
        return "fails", f"a single value, or too few samples for an interval{runs}: {listed(without)}"
    over = listed(list(dict.fromkeys(figure.interval.basis for _, figure in f.figures if figure.interval is not None)))
    return "holds", f"95 % interval of each median, over {'runs' if f.kind == 'training' else over}"


def _normality(f: _Facts) -> Said:
    if f.predicted:
        return "holds", "measured steps are drawn again; no distribution is assumed"
    more = ", the Kaplan-Meier estimate" if f.kind == "training" else ""
    return "holds", f"medians, order statistics{more} and tests of ranks assume no distribution"


def _comparison(f: _Facts) -> Said:
    if f.systems < 2 or f.predicted:
        return "does not apply", "nothing measured is compared with anything else"
    few = [f"{system_of(r)} on {problem(r)}" for r, figure in f.figures if not _comparable(figure)]
    if few:
        return "fails", f"too few samples for the interval of a ratio: {listed(few)}"
    return (
        "holds",
        "ratios have intervals, and no difference is a test of its own; all tests of a table are corrected together",
    )


def _comparable(figure: Figure) -> bool:
    return len(figure.medians) >= _FEWEST_TO_COMPARE or (len(figure.medians) == 1 and figure.interval is not None)


def _centre(f: _Facts) -> Said:
    if f.kind == "training":
        return "holds", "each run is shown beside the median; runs that missed the target are in the estimate as such"
    if f.predicted:
        return "holds", "the mean is given, since a run costs their sum, and where 90 % of the steps lie"
    split = [f"{system_of(r)} on {problem(r)}" for r, figure in f.figures if _several_modes(figure)]
    if split:
        return "fails", f"several modes, for which one median stands badly: {listed(split)}"
    return "holds", "no sign of several modes"


def _several_modes(figure: Figure) -> bool:
    import numpy as np

    return any(groups and len(modes(np.concatenate(groups))) > 1 for groups in figure.launches)


def _setup(f: _Facts) -> Said:
    e = f.source.results[0].environment
    if e is None:
        return "fails", "the environment is not known"
    recipe = f.source.value("recipe")
    known = {
        "command": f.source.command, "recipe": recipe, "processor": e.cpu_model, "memory": e.memory_bytes,
        "kernel": e.kernel, "Python": e.python, "package versions": e.packages,
    }  # fmt: skip
    missing = [name for name, value in known.items() if not value]
    if missing:
        return "fails", f"not known: {', '.join(missing)}"
    beyond = "; all assumptions are listed" if f.predicted else ""
    open_facts = f"; not known: {listed(list(e.unknown), 8)}" if e.unknown else ""
    return "holds", f"command, recipe, seeds, hardware and software are in the record{beyond}{open_facts}"


def _parallel(f: _Facts) -> Said:
    if f.kind == "communication":
        return (
            "holds",
            "a barrier, then the operation; the largest time over the ranks of each repetition; the median of these",
        )
    if f.predicted:
        return "holds", "a step lasts until the slowest rank has updated; what each rank computes was measured alone"
    if f.ranks > 1:
        return "holds", "the clock of rank 0; each rank's computing, waiting and messages are in the record"
    return "holds", "wall time of one process, in which its threads or its device have finished when a stamp is taken"


def _bounds(f: _Facts) -> Said:
    if f.predicted:
        return "holds", "the ideal speed-up is drawn"
    if f.kind == "communication" and _has_prediction(f.source):
        return "holds", "what the cheapest known algorithm costs under LogGP is shown beside each time"
    return "fails", "no upper bound of the performance is known here"


def _has_prediction(source: Source) -> bool:
    systems = source.value("systems") or ()
    return any(getattr(system, "facts", {}).get("link") is not None for system in systems)


def _plots(kind: str, plots: Plots) -> Said:
    if not plots.drawn:
        return "does not apply", "nothing is plotted; the tables and the records have it all"
    texts = {
        "training": "each run is drawn; lines connect evaluations of one run",
        "communication": "medians with their intervals, not connected; predictions are dashed and marked as such",
        "scaling": "all is marked as predicted; lines connect predictions, measured points stand alone",
    }
    left = f"; {plots.left_out} results are in the tables only" if plots.left_out else ""
    return "holds", f"{texts.get(kind, 'intervals and all raw samples are drawn, and nothing is connected')}{left}"


_JUDGES: tuple[Callable[[_Facts], Said], ...] = (
    _speed_up, _subset, _means, _ratios, _intervals, _normality, _comparison, _centre, _setup, _parallel, _bounds,
)  # fmt: skip


def merged(found: Sequence[Sequence[Check]]) -> list[Check]:
    """The rules over several records: the worst state of each, with the reasons and how many records have it.

    Example:
        >>> one, two = (Check(1, "rule", state, state) for state in ("holds", "fails"))
        >>> merged([[one], [two], [one]])[0].state, merged([[one], [two], [one]])[0].reason
        ('fails', 'in 1 of 3 records: fails')
    """
    rows = []
    for column in zip(*found, strict=True):
        order = ("fails", "holds", "does not apply")
        state = min((check.state for check in column), key=order.index)
        same = [check for check in column if check.state == state]
        reasons = list(dict.fromkeys(check.reason for check in same))
        where = "" if len(same) == len(column) else f"in {len(same)} of {len(column)} records: "
        more = f" (and {len(reasons) - 2} more reasons)" if len(reasons) > 2 else ""
        rows.append(Check(column[0].number, column[0].rule, state, f"{where}{' | '.join(reasons[:2])}{more}"))
    return rows
