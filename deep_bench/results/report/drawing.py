"""Which results are drawn, and what is left out of the plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from deep_bench.errors import DeepBenchError, Unsupported
from deep_bench.results.report.model import Block, Heading, Lines, Picture, Pictures, Text, clean
from deep_bench.results.report.naming import further, listed, numbered, of_kinds, subject, system_of, title_of
from deep_bench.results.report.rules import Plots
from deep_bench.results.report.sources import Source
from deep_bench.results.result import Figure, Result
from deep_bench.results.table import problem

if TYPE_CHECKING:
    from deep_bench.results.report.plots.axes import Looks
    from deep_bench.results.report.plots.rows import Row

MOST_PANELS = 12
"""Problems that are drawn of each kind of record."""

MOST_ROWS = 12
"""Results in a panel."""

MOST_RECORDS = 4
"""Records of training, communication and scaling that are drawn, each on its own."""

_BY_RECORD = ("communication", "training", "scaling")


@dataclass(frozen=True)
class Drawn:
    """The plots of one kind of record.

    Args:
        pictures: All of them.
        left_out: How many results are in the tables only.
        notes: What a reader should know.
        samples: How many raw samples the results that are drawn have.
        unseen: How many of these have no place on the axis.
    """

    pictures: tuple[Picture, ...]
    left_out: int
    notes: tuple[str, ...]
    samples: int = 0
    unseen: int = 0

    @property
    def facts(self) -> Plots:
        """What the rules must know."""
        return Plots(bool(self.pictures), self.left_out, self.samples, self.unseen)


def draw(results: Sequence[Result], sources: Sequence[Source]) -> dict[str, Drawn]:
    """All plots, by kind of record.

    Raises:
        Unsupported: matplotlib is not installed.
    """
    try:
        from deep_bench.results.report.plots.axes import Looks
    except ImportError as error:
        raise Unsupported("a report without matplotlib", advice="pip install 'deep-bench[report]'") from error
    looks = Looks(numbered(results))
    return {
        kind: _by_record([source for source in sources if source.kind == kind], kind_results, looks)
        if kind in _BY_RECORD
        else _by_problem(kind, kind_results, looks)
        for kind, kind_results in of_kinds(results).items()
    }


def blocks(drawn: Mapping[str, Drawn]) -> list[Block]:
    """The plots as a section holds them."""
    parts: list[Block] = []
    for kind, group in drawn.items():
        if group.pictures or group.notes:
            parts.append(Heading(title_of(kind)))
            parts += [Pictures(group.pictures)] if group.pictures else []
            parts += [Lines(group.notes)] if group.notes else []
    return parts or [Text("There is nothing to draw.")]


def _by_problem(kind: str, results: Sequence[Result], looks: Looks) -> Drawn:
    """Panels of the problems that take longest: in each the systems below each other."""
    from deep_bench.results.report.plots.rows import distribution, intervals

    panels = _panels(results)
    longest = sorted(panels, key=lambda key: -max(row.figure.median for row in panels[key]))[:MOST_PANELS]
    selected = {key: panels[key][:MOST_ROWS] for key in panels if key in longest}
    pictures: list[Picture] = []
    for number, ((title, _), rows) in enumerate(selected.items()):
        for quantity, make in (("times", intervals), ("samples", distribution)):
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
    return Drawn(tuple(pictures), omitted, tuple(notes), samples, unseen)


def _panels(results: Sequence[Result]) -> dict[tuple[str, str], list[Row]]:
    """Problem and figure to a row for each result that has a number to show."""
    from deep_bench.results.report.plots.rows import Row

    telling = further(results)
    panels: dict[tuple[str, str], list[Row]] = {}
    for number, result in enumerate(results):
        figure = result.main
        if figure is not None and isfinite(figure.median):
            words = [system_of(result), *(f"{name} {values[number]}" for name, values in telling.items())]
            row = Row(
                system_of(result),
                clean(", ".join(words)),
                figure,
                _raw(result, figure),
                "" if result.ok else clean(result.outcome),
            )
            panels.setdefault((clean(problem(result)), figure.name), []).append(row)
    return panels


def _raw(result: Result, figure: Figure) -> Figure:
    """The figure whose samples are drawn. MLPerf's own is a percentile: there the latencies that it is one of."""
    if result.kind != "mlperf" or figure.count > 1:
        return figure
    return max(
        (candidate for candidate in result.figures.values() if candidate.unit == figure.unit),
        key=lambda candidate: candidate.count,
    )


def _by_record(sources: Sequence[Source], results: Sequence[Result], looks: Looks) -> Drawn:
    """Panels of the first records of a kind, each on its own."""
    readable = [source for source in sources if source.record is not None][:MOST_RECORDS]
    pictures: list[Picture] = []
    notes: list[str] = []
    for number, source in enumerate(readable):
        try:
            panels, remarks = _of_record(source, f"{source.kind}-{number}", looks, alone=len(sources) == 1)
        except (DeepBenchError, ValueError, ArithmeticError) as error:  # a stranger's numbers: all else is drawn
            panels, remarks = [], [f"{clean(source.file.name)} cannot be drawn: {clean(error)}"]
        pictures += panels
        notes += remarks
    shown = {source.file for source in readable}
    omitted = [result for result in results if result.file not in shown]
    if omitted:
        which = f"the first {MOST_RECORDS} records are drawn"
        notes.append(f"{len(omitted)} of {len(results)} results are not drawn but are in the tables: {which}.")
    unsized = [result for result in results if result.file in shown and _unsized(result)]
    if unsized:
        names = listed(list(dict.fromkeys(map(subject, unsized))))
        notes.append(f"Without a size, and so in the tables only: {names}.")
    return Drawn(tuple(pictures), len(omitted) + len(unsized), tuple(notes))


def _unsized(result: Result) -> bool:
    return result.kind == "communication" and "bytes" not in result.labels


def _of_record(source: Source, name: str, looks: Looks, alone: bool) -> tuple[list[Picture], list[str]]:
    from deep_bench.results.report.plots import communication, scaling, training

    topic = clean(problem(source.results[0]))
    title = topic if alone else f"{topic} ({source.created:%m-%d %H:%M})"
    if source.kind == "training":
        return training.pictures_of(source.record, name, title, looks), training.left_out([source.record])
    if source.kind == "scaling":
        scheme = source.results[0].labels.get("scheme", "")
        return scaling.pictures_of(source.record, name, clean(f"{source.record.title or topic}, {scheme}")), []
    from deep_bench.distributed.collectives.result import Result as Communication

    return communication.pictures_of(Communication(source.record, source.file), name, looks), []
