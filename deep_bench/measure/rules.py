"""The report's check of itself against the twelve rules of Hoefler and Belli.

Source:
    Hoefler and Belli, Scientific benchmarking of parallel computing systems: twelve ways to tell the masses when reporting
    performance results, SC 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from deep_bench.measure.comparison import ratio
from deep_bench.measure.record import Record, SystemRecord
from deep_bench.measure.statistics import Summary, launch_interval, summarize
from deep_bench.measure.timing import Block

_LISTED = 5

State = Literal["holds", "fails", "does not apply"]

RULES = (
    "A speed-up names its base, and the base's absolute performance is given.",
    "Reporting only a subset of benchmarks, or not using all of the machine, is explained.",
    "The arithmetic mean summarises costs only; rates take the harmonic mean.",
    "Ratios are not summarised; the costs they are based on are.",
    "Times that vary come with a confidence interval.",
    "Nothing is assumed to be normally distributed without a check.",
    "Times that vary are compared in a statistically sound way.",
    "Whether a median or mean is the useful figure is looked into; percentiles are given where they are.",
    "All factors that vary, and the whole setup, are documented.",
    "Parallel times: how they were measured, synchronised and summarised is said.",
    "Upper bounds of the performance are shown where possible.",
    "Plots show what is needed to read the results; lines connect points only where values between them make sense.",
)


@dataclass(frozen=True)
class Check:
    """One rule, whether a record keeps it, and why."""

    number: int
    rule: str
    state: State
    reason: str


def check(record: Record, *, plotted: bool = False) -> list[Check]:
    """Judge a record, as deep_bench reports it, by all twelve rules.

    Args:
        record: The run.
        plotted: Whether the report shows the samples' distribution.
    """
    facts = _Facts(record, plotted)
    return [Check(i, rule, *judge(facts)) for i, (rule, judge) in enumerate(zip(RULES, _JUDGES, strict=True), 1)]


@dataclass(frozen=True)
class _Series:
    """One quantity of one system, on one case where there are several; ``launches`` are never empty."""

    system: SystemRecord
    quantity: str
    name: str
    launches: list[list[Block]]


@dataclass(frozen=True)
class _Facts:
    record: Record
    plotted: bool

    @cached_property
    def series(self) -> list[_Series]:
        found = []
        for s in self.record.systems:
            for q in dict.fromkeys(x.quantity for x in s.samples):
                found.append(_Series(s, q, f"{s.label} {q}", s.launches(q)))
            for t in s.trials:
                for q in dict.fromkeys(x.quantity for x in t.samples if x.blocks):
                    found.append(_Series(s, q, f"{s.label} {q} on {t.case}", t.launches(q)))
        return [x for x in found if x.launches]

    @cached_property
    def timed(self) -> list[SystemRecord]:
        return [s for s in self.record.systems if any(x.system is s for x in self.series)]

    @cached_property
    def rivals(self) -> list[SystemRecord]:
        return [s for s in self.timed if s.twin_of is None]

    @cached_property
    def summaries(self) -> dict[str, list[Summary]]:
        """The summaries of each launch, by name of the series."""
        return {x.name: [summarize(blocks) for blocks in x.launches] for x in self.series}


def _speed_up(f: _Facts) -> tuple[State, str]:
    if len(f.rivals) < 2:
        return "does not apply", "a single system was timed"
    base = (
        "the absolute time of its base, which is named" if f.record.suite else "the fastest system's absolute time, its base"
    )
    return "holds", f"each ratio stands beside {base}"


def _subset(f: _Facts) -> tuple[State, str]:
    e = f.record.environment
    allowed = len(e.cpus_allowed or ())
    if e.logical_cpus and 0 < allowed < e.logical_cpus and not f.record.notes:
        return "fails", f"only {allowed} of {e.logical_cpus} CPUs could be used, and no note says why"
    failed = [s.label for s in f.record.systems if s.error]
    failed += [f"{s.label} on {t.case}" for s in f.record.systems for t in s.trials if t.error]
    return (
        "holds",
        f"failed and so not timed, each with its error: {_named(failed)}"
        if failed
        else "all that was asked for is reported",
    )


def _means(_: _Facts) -> tuple[State, str]:
    return "holds", "only times, which are costs, are summarised"


def _ratios(f: _Facts) -> tuple[State, str]:
    return (
        ("holds", "each ratio is one of two medians or of two total times; none is averaged")
        if len(f.rivals) > 1
        else ("does not apply", "no ratio is given")
    )


def _intervals(f: _Facts) -> tuple[State, str]:
    if not f.summaries:
        return "does not apply", "nothing was timed"
    without = [name for name, launches in f.summaries.items() if not _has_interval(launches)]
    if without:
        return "fails", f"too few samples for an interval: {_named(without)}"
    several = all(len(launches) > 1 for launches in f.summaries.values())
    basis = (
        "over launches of fresh processes"
        if several
        else "within one launch: it does not hold what differs between launches"
    )
    return "holds", f"95 % interval of each median, {basis}"


def _normality(_: _Facts) -> tuple[State, str]:
    return "holds", "medians, order statistics and rank tests assume no distribution"


def _comparison(f: _Facts) -> tuple[State, str]:
    if len(f.rivals) < 2:
        return "does not apply", "a single system was timed"
    main = [x for x in f.series if x.quantity == f.series[0].quantity and x.system in f.rivals]
    without = [s.label for s in f.rivals if not any(x.system is s for x in main)]
    without += [x.name if f.record.suite else x.system.label for x in main if ratio(x.launches, x.launches).interval is None]
    if without:
        return "fails", f"too few blocks for the interval of a ratio: {_named(without)}"
    return "holds", "ratios have a bootstrap interval over blocks or launches; equivalence is tested"


def _centre(f: _Facts) -> tuple[State, str]:
    split = [name for name, launches in f.summaries.items() if any(len(s.modes) > 1 for s in launches)]
    if split:
        return "fails", f"several modes, for which one median stands badly: {_named(split)}"
    return "holds", "no sign of several modes; percentiles are given where the samples are enough"


def _setup(f: _Facts) -> tuple[State, str]:
    r, e = f.record, f.record.environment
    known = {
        "command": r.command, **({"cases": r.suite} if r.suite else {"network": r.network, "data": r.data}),
        "seeds": r.recipe.seeds, "processor": e.cpu_model,
        "memory": e.memory_bytes, "kernel": e.kernel, "Python": e.python, "package versions": e.packages,
    }  # fmt: skip
    missing = [name for name, value in known.items() if not value]
    if missing:
        return "fails", f"not known: {', '.join(missing)}"
    open_facts = f"; not known: {', '.join(e.unknown)}" if e.unknown else ""
    what = "cases" if r.suite else "network, data"
    return "holds", f"command, {what}, seeds, hardware and software are in the record{open_facts}"


def _parallel(f: _Facts) -> tuple[State, str]:
    if not any(s.threaded for s in f.timed):
        return "does not apply", "nothing ran in parallel"
    return (
        "holds",
        "wall time of one process, its threads joined or its device synchronised inside the stamps; median of calls",
    )


def _bounds(f: _Facts) -> tuple[State, str]:
    if f.record.roofline is not None:
        return "holds", "each time stands beside the share of the roofline that it reached, where its cost is known"
    return "fails", "no upper bound of the performance is known here"


def _plots(f: _Facts) -> tuple[State, str]:
    return (
        ("holds", "all samples are drawn")
        if f.plotted
        else ("does not apply", "nothing is plotted; the record holds all samples")
    )


def _named(names: list[str]) -> str:
    """The names, or some of them and how many more there are."""
    return ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED} more"


def _has_interval(launches: list[Summary]) -> bool:
    if len(launches) > 1:
        return launch_interval([s.median for s in launches]) is not None
    return launches[0].interval is not None


_JUDGES: tuple[Callable[[_Facts], tuple[State, str]], ...] = (
    _speed_up, _subset, _means, _ratios, _intervals, _normality, _comparison, _centre, _setup, _parallel, _bounds, _plots,
)  # fmt: skip
