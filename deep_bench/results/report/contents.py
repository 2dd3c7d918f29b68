"""What a report has in it, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.measure.rules import Check
from deep_bench.results.report import (
    again,
    drawing,
    factors,
    failures,
    machine,
    ratios,
    raw,
    rules,
    summary,
    taken,
    verdicts,
)
from deep_bench.results.report.drawing import Drawn
from deep_bench.results.report.model import Block, Column, Heading, Section, Sign, Table, Text, clean
from deep_bench.results.report.naming import listed, of_kinds, subject, system_of, title_of
from deep_bench.results.report.sources import MOST, Source, sources
from deep_bench.results.result import Result
from deep_bench.results.table import problem


@dataclass(frozen=True)
class Report:
    """A report, whatever format it is written in.

    Args:
        title: Of the whole.
        facts: What stands below it: when, where, of how much.
        sections: In their order.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]


def report(
    results: Sequence[Result], *, base: str | None = None, title: str | None = None, notes: Sequence[str] = ()
) -> Report:
    """Everything that a reader of these results should see.

    Args:
        results: What ``deep_bench.results.gather`` read.
        base: What others are compared with: a system, or a label and its value (``"optimizer=Adam"``). By default the system
            that has most results.
        title: Of the report; by default what was run on what.
        notes: What a reader should know that no record says, such as why not all CPUs were used.

    Raises:
        InvalidArgument: There are no results.
        UnknownName: No result has the base.
        Unsupported: matplotlib is not installed.
    """
    refused = getattr(results, "refused", ())
    if not results:
        reason = "; ".join(str(refusal) for refusal in refused[:3])
        raise InvalidArgument(f"no results to report{f': {reason}' if reason else ''}", "records that deep_bench wrote")
    origins, files = sources(results), list(dict.fromkeys(result.file for result in results))
    compared = ratios.blocks(results, base)
    drawn = drawing.draw(results, origins)
    sections = [
        Section("verdict", "Verdict", (*verdicts.blocks(results), *(Text(clean(note)) for note in notes))),
        Section("results", "Results", tuple(summary.blocks(results, origins))),
        Section("ratios", "Ratios", tuple(compared)),
        Section("plots", "Plots", tuple(drawing.blocks(drawn))),
        Section("errors", "Errors and files that were not read", tuple(failures.blocks(results, refused))),
        Section("rules", "The twelve rules of Hoefler and Belli", tuple(_rules(results, origins, drawn, notes))),
        Section("figures", "All figures", tuple(summary.every_figure(results))),
        Section("factors", "Factors and environment", (*factors.blocks(results), *machine.blocks(results))),
        Section("repeat", "How to repeat it", tuple(again.blocks(origins, len(files)))),
        Section("data", "Raw data", tuple(raw.blocks(files))),
        Section("taken", "How the numbers were taken", tuple(taken.blocks(results, origins))),
    ]
    return Report(clean(title) if title else usual_title(results), _facts(results, files), tuple(sections))


def usual_title(results: Sequence[Result]) -> str:
    """What was run on what.

    Example:
        >>> from datetime import datetime
        >>> found = [Result("network", Path("a"), datetime(2026, 1, 1), {"system": s, "network": "lenet"}, {}) for s in "ab"]
        >>> usual_title(found)
        'lenet: a and b'
    """
    problems = list(dict.fromkeys(clean(problem(result), 80) for result in results))
    systems = list(dict.fromkeys(clean(system_of(result), 60) for result in results))
    kinds = list(of_kinds(results))
    if len(kinds) > 1:
        return f"Results of {listed([_in_sentence(kind) for kind in kinds], 6)}"
    topic = problems[0] if len(problems) == 1 else listed(list(dict.fromkeys(map(subject, results))))
    return f"{topic}{', predicted scaling' if kinds == ['scaling'] else ''}: {listed(systems)}"


def _in_sentence(kind: str) -> str:
    title = title_of(kind).partition(",")[0]
    return title if title[1:2].isupper() else title.lower()


def _facts(results: Sequence[Result], files: Sequence[Path]) -> tuple[tuple[str, str], ...]:
    begin, end = min(result.created for result in results), max(result.created for result in results)
    when = f"{begin:%Y-%m-%d %H:%M}" if begin == end else f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    machines = list(dict.fromkeys(machine.in_a_line(e) for e, _ in machine.environments(results)))
    facts = [
        ("verdict", verdicts.sentence(results)),
        ("measured", f"{when}{f' {begin:%Z}' if begin.tzinfo else ''}"),
        ("machine", "; ".join(machines[:3]) + (f"; and {len(machines) - 3} more" if len(machines) > 3 else "") or "unknown"),
        ("software", clean(machine.software(results), 300)),
        ("records", f"{len(results)} result{'s' * (len(results) != 1)} of {len(files)} record{'s' * (len(files) != 1)}"),
    ]
    return tuple(facts)


def _rules(
    results: Sequence[Result], origins: Sequence[Source], drawn: Mapping[str, Drawn], notes: Sequence[str]
) -> list[Block]:
    parts: list[Block] = [
        Text(
            "Scientific benchmarking of parallel computing systems: twelve ways to tell the masses when reporting "
            "performance results, SC 2015. Each rule holds, fails or does not apply here, for the reason beside it."
        )
    ]
    for kind in dict.fromkeys(source.kind for source in origins):
        judged: list[list[Check]] = []
        systems = len({system_of(result) for result in results if result.kind == kind})
        for source in origins:
            if source.kind == kind and source.record is not None:
                try:
                    judged.append(rules.checks(source, drawn[kind].facts, systems, notes))
                except (DeepBenchError, ValueError, ArithmeticError) as error:  # a stranger's numbers
                    parts.append(Text(f"{clean(source.file.name)} cannot be judged: {clean(error)}"))
        if judged:
            parts += [Heading(title_of(kind)), _rules_table(rules.merged(judged))]
    if len(origins) == MOST:
        parts.append(Text(f"Judged on the first {MOST} records."))
    return parts


def _rules_table(checks: Sequence[Check]) -> Table:
    rows = tuple((str(c.number), Sign(c.state), clean(c.rule), clean(c.reason, 900)) for c in checks)
    failing = [str(c.number) for c in checks if c.state == "fails"]
    caption = f"{sum(c.state == 'holds' for c in checks)} of the twelve rules hold"
    if failing:
        caption += f"; failing: {listed(failing, 12)}"
    return Table(caption, (Column("", True), Column("state"), Column("rule"), Column("why")), rows, wordy=True)
