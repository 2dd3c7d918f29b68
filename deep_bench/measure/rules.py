"""The report's check of itself against the twelve rules of Hoefler and Belli: judged here for records of every kind.

What a rule asks is collected as `Facts`: of a `Record` by `facts_of`, of other kinds by what reports them.

Source:
    Hoefler and Belli, Scientific benchmarking of parallel computing systems: twelve ways to tell the masses when reporting
    performance results, SC 2015.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from deep_bench.measure.environment import Environment
from deep_bench.measure.statistics import grounds, launch_interval, select, summarize
from deep_bench.measure.timing import Block
from deep_bench.records.model import Record, SystemRecord

_LISTED = 5

State = Literal["holds", "fails", "does not apply"]
Ruling: TypeAlias = tuple[State, str]

_GRANTS = ("SLURM_CPUS_PER_TASK", "SLURM_CPUS_ON_NODE", "PBS_NUM_PPN", "PBS_NP", "LSB_DJOB_NUMPROC")
"""In which a scheduler says how many CPUs it gave."""

_ABOUT_CPUS = re.compile(r"\b(cpus?|cores?|processors?|affinity|taskset|bound|pinned)\b", re.IGNORECASE)

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
class RuleCheck:
    """One rule, whether a record keeps it, and why."""

    number: int
    rule: str
    state: State
    reason: str


@dataclass(frozen=True)
class TimedFigure:
    """One figure of a report.

    Args:
        name: Of what it is.
        basis: What its interval is over, such as "launches of fresh processes"; ``None`` where it has none.
        ratio: Whether it is one of those that are compared.
        lacking: Why a ratio with it has no interval; empty where it has one.
        split: Whether its samples cluster at several places.
    """

    name: str
    basis: str | None
    ratio: bool = True
    lacking: str = ""
    split: bool = False


@dataclass(frozen=True)
class RuleFacts:
    """What the rules are judged by.

    Args:
        systems: How many systems are compared.
        environment: Where it ran.
        notes: What explains that not all of a machine was used.
        cpus: The CPUs that ranks were bound to, of one node; empty for a single process.
        failed: What failed, each with its error in the report.
        complete: Whether it came to its end.
        timed: All figures.
        known: What must be known of the setup, to its value.
        documented: What is in the record, in words.
        settled: Number of a rule to what is said of it for this kind of record, whatever was measured.
    """

    systems: int
    environment: Environment | None
    notes: Sequence[str] = ()
    cpus: Sequence[int] = ()
    failed: Sequence[str] = ()
    complete: bool = True
    timed: Sequence[TimedFigure] = ()
    known: Mapping[str, Any] = field(default_factory=dict)
    documented: str = ""
    settled: Mapping[int, Ruling] = field(default_factory=dict)


def check(record: Record, *, plotted: bool = False) -> list[RuleCheck]:
    """Judge a record, as deep_bench reports it, by all twelve rules.

    Args:
        record: The run.
        plotted: Whether the report shows the samples' distribution.
    """
    return judged(facts_of(record, plotted=plotted))


def kept_line(record: Record) -> str:
    """How many of the rules a record keeps, and which it breaks."""
    checks = check(record)
    failing = ", ".join(str(c.number) for c in checks if c.state == "fails")
    holding = sum(c.state == "holds" for c in checks)
    fails = f", not rule {failing}" if failing else ""
    return f"of the twelve rules of Hoefler and Belli {holding} hold{fails} (why: deep-bench show --rules)"


def judged(facts: RuleFacts) -> list[RuleCheck]:
    """Judge a report by all twelve rules.

    Example:
        >>> checks = judged(RuleFacts(1, None))
        >>> checks[0].state, checks[8].state, checks[8].reason
        ('does not apply', 'fails', 'the environment is not known')
    """
    return [
        RuleCheck(i, rule, *(facts.settled.get(i) or judge(facts)))
        for i, (rule, judge) in enumerate(zip(RULES, _JUDGES, strict=True), 1)
    ]


def facts_of(record: Record, *, plotted: bool = False) -> RuleFacts:
    """What a record of networks or operators gives to judge by.

    Args:
        record: The run.
        plotted: Whether the report shows the samples' distribution.
    """
    series = _series(record)
    systems = {system.label for system, _, _, _ in series}
    main = series[0][1] if series else ""
    timed_labels = {system.label for system, quantity, _, _ in series if quantity == main}
    timed = [
        _timed_figure(
            name,
            launches,
            ratio=system.twin_of is None and (quantity == main or system.label not in timed_labels),
            lacking="" if system.label in timed_labels else f"{main} was not timed",
        )
        for system, quantity, name, launches in series
    ]
    r, e = record, record.environment
    failed = [s.label for s in r.systems if s.error]
    failed += [f"{s.label} on {t.case}" for s in r.systems for t in s.trials if t.error]
    return RuleFacts(
        systems=sum(s.twin_of is None and s.label in systems for s in r.systems),
        environment=e,
        notes=r.notes,
        failed=failed,
        complete=r.complete and not r.interrupted,
        timed=timed,
        known={
            "command": r.command,
            **({"cases": r.suite} if r.suite else {"network": r.network, "data": r.data}),
            "seeds": r.recipe.seeds,
            **known_of(e),
        },
        documented=f"command, {'cases' if r.suite else 'network, data'}, seeds, hardware and software",
        settled=_settled_rulings(record, plotted),
    )


_Series: TypeAlias = tuple[SystemRecord, str, str, list[list[Block]]]
"""A system, a quantity, the name of both with the case where there are several, and launches, never empty."""


def _series(record: Record) -> list[_Series]:
    series: list[_Series] = []
    for s in record.systems:
        for q in dict.fromkeys(x.quantity for x in s.samples):
            series.append((s, q, f"{s.label} {q}", s.launches(q)))
        for t in s.trials:
            for q in dict.fromkeys(x.quantity for x in t.samples):
                series.append((s, q, f"{s.label} {q} on {t.case}", t.launches(q)))
    return [entry for entry in series if entry[3]]


def _timed_figure(name: str, launches: list[list[Block]], *, ratio: bool, lacking: str) -> TimedFigure:
    summaries = [summarize(blocks) for blocks in launches]
    if len(launches) > 1:
        interval = launch_interval([s.median for s in summaries])
    else:
        interval = summaries[0].interval
    groups = [select(blocks)[0] for blocks in launches]
    return TimedFigure(
        name,
        None if interval is None else basis_of(interval.basis),
        ratio=ratio,
        lacking=lacking or grounds(groups, groups)[1],
        split=any(len(s.modes) > 1 for s in summaries),
    )


def basis_of(basis: str) -> str:
    """What an interval is over, in words.

    Example:
        >>> basis_of("launches"), basis_of("blocks")
        ('launches of fresh processes', 'blocks within one launch')
    """
    return "launches of fresh processes" if basis == "launches" else f"{basis} within one launch"


def known_of(e: Environment) -> dict[str, Any]:
    """What must be known of where it ran."""
    return {
        "processor": e.cpu_model,
        "memory": e.memory_bytes,
        "kernel": e.kernel,
        "Python": e.python,
        "package versions": e.packages,
    }


def _settled_rulings(record: Record, plotted: bool) -> dict[int, Ruling]:
    threaded = any(s.threaded for s in record.systems if s.samples or s.trials)
    return {
        3: ("holds", "only times, which are costs, are summarised"),
        6: ("holds", "medians, order statistics and rank tests assume no distribution"),
        10: (
            "holds",
            "wall time of one process, its threads joined or its device synchronised inside the stamps; median of calls",
        )
        if threaded
        else ("does not apply", "nothing ran in parallel"),
        11: ("holds", "each time stands beside the share of the roofline that it reached, where its cost is known")
        if record.roofline is not None
        else NO_BOUND,
        12: ("holds", "all samples are drawn")
        if plotted
        else ("does not apply", "nothing is plotted; the record holds all samples"),
    }


NO_BOUND: Ruling = ("fails", "no upper bound of the performance is known here")


def _speed_up(f: RuleFacts) -> Ruling:
    if f.systems < 2:
        return "does not apply", "a single system was measured"
    return "holds", "each ratio stands beside the absolute value of its base, which is named"


def _subset(f: RuleFacts) -> Ruling:
    part, reason = _part_of_the_machine(f)
    if part and not reason:
        return "fails", (
            f"only {part} CPUs could be used, and nothing says why: taskset, a launcher or a container may bind a process; "
            'say why with deep-bench report --note "…"'
        )
    used = [f"{part} CPUs could be used: {reason}"] if part else []
    statements = [f"failed, each with its error: {_named(f.failed)}"] if f.failed else ["all that was asked for is reported"]
    return "holds", "; ".join([*statements, *used, *([] if f.complete else ["the run ended early, which is said"])])


def _part_of_the_machine(f: RuleFacts) -> tuple[str, str]:
    """How many CPUs of how many could be used, empty for all of them; and why, empty where nobody says."""
    e = f.environment or Environment()
    allowed, logical = len(f.cpus or e.cpus_allowed or ()), e.logical_cpus or 0
    if not 0 < allowed < logical:
        return "", ""
    granted = [f"{name}={e.variables[name]}" for name in _GRANTS if _at_most(e.variables.get(name, ""), allowed)]
    remarks = [note for note in f.notes if _ABOUT_CPUS.search(note)]
    return f"{allowed} of {logical}", next(iter([*granted, *remarks]), "")


def _at_most(number: str, most: int) -> bool:
    return number.isascii() and number.isdecimal() and int(number[:9]) <= most


def _ratios(f: RuleFacts) -> Ruling:
    if f.systems < 2:
        return "does not apply", "no ratio is given"
    return "holds", "each ratio is one of two medians or of two total times; none is averaged"


def _intervals(f: RuleFacts) -> Ruling:
    if not f.timed:
        return "does not apply", "nothing was measured"
    without = [timing.name for timing in f.timed if timing.basis is None]
    if without:
        return "fails", f"a single value, or too few samples for an interval: {_named(without)}"
    bases = list(dict.fromkeys(timing.basis for timing in f.timed if timing.basis is not None))
    within = "; what differs between launches is in none within one" if any("within" in basis for basis in bases) else ""
    return "holds", f"95 % interval of each median, over {_named(bases)}{within}"


def _comparison(f: RuleFacts) -> Ruling:
    if f.systems < 2:
        return "does not apply", "a single system was measured"
    lacking = [timing for timing in f.timed if timing.ratio and timing.lacking]
    if lacking:
        return "fails", f"no interval of a ratio with {_named([timing.name for timing in lacking])}: {lacking[0].lacking}"
    return "holds", "ratios have intervals, over blocks or launches; equivalence is a test of its own"


def _centre(f: RuleFacts) -> Ruling:
    split = [timing.name for timing in f.timed if timing.split]
    if split:
        return "fails", f"several modes, for which one median stands badly: {_named(split)}"
    return "holds", "no sign of several modes; percentiles are given where the samples are enough"


def _setup(f: RuleFacts) -> Ruling:
    if f.environment is None:
        return "fails", "the environment is not known"
    missing = [name for name, value in f.known.items() if not value]
    if missing:
        return "fails", f"not known: {', '.join(missing)}"
    open_facts = f"; not known: {_named(list(f.environment.unknown))}" if f.environment.unknown else ""
    return "holds", f"{f.documented} are in the record{open_facts}"


def _unsettled(_: RuleFacts) -> Ruling:
    return "does not apply", "nothing is known of it"


def _named(names: Sequence[str]) -> str:
    """The names, or some of them and how many more there are."""
    return ", ".join(names) if len(names) <= _LISTED else f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED} more"


_JUDGES: tuple[Callable[[RuleFacts], Ruling], ...] = (
    _speed_up,
    _subset,
    _unsettled,
    _ratios,
    _intervals,
    _unsettled,
    _comparison,
    _centre,
    _setup,
    _unsettled,
    _unsettled,
    _unsettled,
)
