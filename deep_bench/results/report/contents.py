"""What a report has in it, and in which order: `report` makes the sections, with plots of the results that can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported
from deep_bench.measure.rules import RuleCheck
from deep_bench.results.report import provenance, rules, summary
from deep_bench.results.report.model import (
    MOST_SOURCES,
    Block,
    Column,
    Heading,
    Lines,
    Picture,
    Pictures,
    RecordSource,
    Section,
    Sign,
    Table,
    Text,
    clean,
    enumeration,
    further_labels,
    of_kinds,
    record_sources,
    subject_of,
    system_numbers,
    system_of,
    title_of,
)
from deep_bench.results.report.rules import Plots
from deep_bench.results.result import Figure, Result
from deep_bench.results.results import problem_name

if TYPE_CHECKING:
    from deep_bench.results.report.plots import Looks, PlotRow


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
    origins, files = record_sources(results), list(dict.fromkeys(result.file for result in results))
    compared = summary.ratio_blocks(results, base)
    drawn = draw(results, origins)
    sections = [
        Section("verdict", "Verdict", (*summary.verdict_blocks(results), *(Text(clean(note)) for note in notes))),
        Section("results", "Results", tuple(summary.summary_blocks(results, origins))),
        Section("ratios", "Ratios", tuple(compared)),
        Section("plots", "Plots", tuple(plot_blocks(drawn))),
        Section("errors", "Errors and files that were not read", tuple(summary.failure_blocks(results, refused))),
        Section("rules", "The twelve rules of Hoefler and Belli", tuple(_rule_blocks(results, origins, drawn, notes))),
        Section("figures", "All figures", tuple(summary.figure_blocks(results))),
        Section(
            "factors", "Factors and environment", (*provenance.factor_blocks(results), *provenance.machine_blocks(results))
        ),
        Section("repeat", "How to repeat it", tuple(provenance.repetition_blocks(origins, len(files)))),
        Section("data", "Raw data", tuple(provenance.data_blocks(files))),
        Section("taken", "How the numbers were taken", tuple(provenance.method_blocks(results, origins))),
    ]
    begin, end = min(result.created for result in results), max(result.created for result in results)
    when = f"{begin:%Y-%m-%d %H:%M}" if begin == end else f"{begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    machines = list(dict.fromkeys(provenance.machine_line(e) for e, _ in provenance.environments(results)))
    facts = [
        ("verdict", summary.verdict_sentence(results)),
        ("measured", f"{when}{f' {begin:%Z}' if begin.tzinfo else ''}"),
        ("machine", "; ".join(machines[:3]) + (f"; and {len(machines) - 3} more" if len(machines) > 3 else "") or "unknown"),
        ("software", clean(provenance.software(results), 300)),
        ("records", f"{len(results)} result{'s' * (len(results) != 1)} of {len(files)} record{'s' * (len(files) != 1)}"),
    ]
    return Report(clean(title) if title else usual_title(results), tuple(facts), tuple(sections))


def usual_title(results: Sequence[Result]) -> str:
    """What was run on what.

    Example:
        >>> from pathlib import Path
        >>> from datetime import datetime
        >>> found = [Result("network", Path("a"), datetime(2026, 1, 1), {"system": s, "network": "lenet"}, {}) for s in "ab"]
        >>> usual_title(found)
        'lenet: a and b'
    """
    problems = list(dict.fromkeys(clean(problem_name(result), 80) for result in results))
    systems = list(dict.fromkeys(clean(system_of(result), 60) for result in results))
    kinds = list(of_kinds(results))
    if len(kinds) > 1:
        titles = [title_of(kind).partition(",")[0] for kind in kinds]
        return f"Results of {enumeration([t if t[1:2].isupper() else t.lower() for t in titles], 6)}"
    topic = problems[0] if len(problems) == 1 else enumeration(list(dict.fromkeys(map(subject_of, results))))
    return f"{topic}{', predicted scaling' if kinds == ['scaling'] else ''}: {enumeration(systems)}"


def _rule_blocks(
    results: Sequence[Result], origins: Sequence[RecordSource], drawn: Mapping[str, Plots], notes: Sequence[str]
) -> list[Block]:
    parts: list[Block] = [
        Text(
            "Scientific benchmarking of parallel computing systems: twelve ways to tell the masses when reporting "
            "performance results, SC 2015. Each rule holds, fails or does not apply here, for the reason beside it."
        )
    ]
    for kind in dict.fromkeys(source.kind for source in origins):
        judged: list[list[RuleCheck]] = []
        systems = len({system_of(result) for result in results if result.kind == kind})
        for source in origins:
            if source.kind == kind and source.record is not None:
                try:
                    judged.append(rules.checks(source, drawn[kind], systems, notes))
                except (DeepBenchError, ValueError, ArithmeticError) as error:  # a stranger's numbers
                    parts.append(Text(f"{clean(source.file.name)} cannot be judged: {clean(error)}"))
        if judged:
            merged = rules.merge_checks(judged)
            failing = [str(check.number) for check in merged if check.state == "fails"]
            caption = f"{sum(check.state == 'holds' for check in merged)} of the twelve rules hold"
            caption += f"; failing: {enumeration(failing, 12)}" if failing else ""
            columns = (Column("", True), Column("state"), Column("rule"), Column("why"))
            rows = tuple((str(c.number), Sign(c.state), clean(c.rule), clean(c.reason, 900)) for c in merged)
            parts += [Heading(title_of(kind)), Table(caption, columns, rows, wordy=True)]
    if len(origins) == MOST_SOURCES:
        parts.append(Text(f"Judged on the first {MOST_SOURCES} records."))
    return parts


MOST_PANELS = 12
"""Problems that are drawn of each kind of record."""


MOST_ROWS = 12
"""Results in a panel."""


MOST_RECORDS = 4
"""Records of training, communication and scaling that are drawn, each on its own."""


_DRAWN_BY_RECORD = ("communication", "training", "scaling")


def draw(results: Sequence[Result], sources: Sequence[RecordSource]) -> dict[str, Plots]:
    """All plots, by kind of record.

    Raises:
        Unsupported: matplotlib is not installed.
    """
    try:
        from deep_bench.results.report.plots import Looks
    except ImportError as error:
        raise Unsupported("a report without matplotlib", advice="pip install 'deep-bench[report]'") from error
    looks = Looks(system_numbers(results))
    return {
        kind: _pictures_by_record([source for source in sources if source.kind == kind], kind_results, looks)
        if kind in _DRAWN_BY_RECORD
        else _by_problem(kind, kind_results, looks)
        for kind, kind_results in of_kinds(results).items()
    }


def plot_blocks(drawn: Mapping[str, Plots]) -> list[Block]:
    """The plots as a section holds them."""
    parts: list[Block] = []
    for kind, group in drawn.items():
        if group.pictures or group.notes:
            parts.append(Heading(title_of(kind)))
            parts += [Pictures(group.pictures)] if group.pictures else []
            parts += [Lines(group.notes)] if group.notes else []
    return parts or [Text("There is nothing to draw.")]


def _by_problem(kind: str, results: Sequence[Result], looks: Looks) -> Plots:
    """Panels of the problems that take longest: in each the systems below each other."""
    from deep_bench.results.report.plots import distribution_picture, interval_picture

    panels = _panels(results)
    longest = sorted(panels, key=lambda key: -max(row.figure.median for row in panels[key]))[:MOST_PANELS]
    selected = {key: panels[key][:MOST_ROWS] for key in panels if key in longest}
    pictures: list[Picture] = []
    for number, ((title, _), rows) in enumerate(selected.items()):
        for quantity, make in (("times", interval_picture), ("samples", distribution_picture)):
            picture = make(f"{clean(kind)}-{quantity}-{number}", title, rows, looks)
            pictures += [picture] if picture is not None else []
    omitted = sum(map(len, panels.values())) - sum(map(len, selected.values()))
    which = f"the {MOST_PANELS} problems that take longest, and {MOST_ROWS} results of each at most, are drawn"
    note = f"{omitted} of {len(results)} results are not drawn but are in the tables: {which}."
    shown = [row for rows in selected.values() for row in rows]
    unseen = sum(row.unseen for row in shown)
    notes = [note] if omitted else []
    if unseen:
        notes.append(f"{unseen} samples are not above 0, or are no number, and have no place on a logarithmic axis.")
    samples = sum(row.raw.count + sum(map(len, row.raw.aside)) for row in shown)
    return Plots(tuple(pictures), omitted, tuple(notes), samples, unseen)


def _panels(results: Sequence[Result]) -> dict[tuple[str, str], list[PlotRow]]:
    """Problem and figure to a row for each result that has a number to show."""
    from deep_bench.results.report.plots import PlotRow as Row

    telling = further_labels(results)
    panels: dict[tuple[str, str], list[Row]] = {}
    for number, result in enumerate(results):
        figure = result.main
        if figure is not None and isfinite(figure.median):
            words = [system_of(result), *(f"{name} {values[number]}" for name, values in telling.items())]
            row = Row(
                system_of(result),
                clean(", ".join(words)),
                figure,
                _raw_figure(result, figure),
                "" if result.ok else clean(result.outcome),
            )
            panels.setdefault((clean(problem_name(result)), figure.name), []).append(row)
    return panels


def _raw_figure(result: Result, figure: Figure) -> Figure:
    """The figure whose samples are drawn. MLPerf's own is a percentile: there the latencies that it is one of."""
    if result.kind != "mlperf" or figure.count > 1:
        return figure
    return max(
        (candidate for candidate in result.figures.values() if candidate.unit == figure.unit),
        key=lambda candidate: candidate.count,
    )


def _pictures_by_record(sources: Sequence[RecordSource], results: Sequence[Result], looks: Looks) -> Plots:
    """Panels of the first records of a kind, each on its own."""
    readable = [source for source in sources if source.record is not None][:MOST_RECORDS]
    pictures: list[Picture] = []
    notes: list[str] = []
    for number, source in enumerate(readable):
        try:
            panels, remarks = _record_pictures(source, f"{source.kind}-{number}", looks, alone=len(sources) == 1)
        except (DeepBenchError, ValueError, ArithmeticError) as error:  # a stranger's numbers: all else is drawn
            panels, remarks = [], [f"{clean(source.file.name)} cannot be drawn: {clean(error)}"]
        pictures += panels
        notes += remarks
    shown = {source.file for source in readable}
    omitted = [result for result in results if result.file not in shown]
    if omitted:
        which = f"the first {MOST_RECORDS} records are drawn"
        notes.append(f"{len(omitted)} of {len(results)} results are not drawn but are in the tables: {which}.")
    drawn = [result for result in results if result.file in shown]
    unsized = [result for result in drawn if result.kind == "communication" and "bytes" not in result.labels]
    if unsized:
        names = enumeration(list(dict.fromkeys(map(subject_of, unsized))))
        notes.append(f"Without a size, and so in the tables only: {names}.")
    return Plots(tuple(pictures), len(omitted) + len(unsized), tuple(notes))


def _record_pictures(source: RecordSource, name: str, looks: Looks, alone: bool) -> tuple[list[Picture], list[str]]:
    from deep_bench.results.report import plots

    topic = clean(problem_name(source.results[0]))
    title = topic if alone else f"{topic} ({source.created:%m-%d %H:%M})"
    if source.kind == "training":
        return plots.training_pictures(source.record, name, title, looks), plots.runs_left_out([source.record])
    if source.kind == "scaling":
        scheme = source.results[0].labels.get("scheme", "")
        return plots.scaling_pictures(source.record, name, clean(f"{source.record.title or topic}, {scheme}")), []
    from deep_bench.distributed.collectives.result import CommunicationResult

    return plots.communication_pictures(CommunicationResult(source.record, source.file), name, looks), []
