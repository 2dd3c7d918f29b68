"""Which results are drawn, and what is left out of the plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deep_bench.errors import Unsupported
from deep_bench.results.report.model import Block, Heading, Lines, Picture, Pictures, clean
from deep_bench.results.report.naming import further, listed, numbered, of_kinds, subject, system_of, title_of
from deep_bench.results.report.rules import Plots
from deep_bench.results.report.sources import Source
from deep_bench.results.result import Result
from deep_bench.results.table import problem

if TYPE_CHECKING:
    from deep_bench.results.report.plots.axes import Looks

MOST_PANELS = 12
"""Problems that are drawn of each kind of record."""

MOST_ROWS = 12
"""Results in a panel."""

MOST_RECORDS = 4
"""Records of training, communication and scaling that are drawn, each on its own."""

_BY_RECORD = ("communication", "training", "scaling")


@dataclass
class Drawn:
    """The plots of a report so far.

    Args:
        blocks: What the section holds.
        plots: For each kind of record what the rules must know.
    """

    blocks: list[Block] = field(default_factory=list)
    plots: dict[str, Plots] = field(default_factory=dict)


def draw(results: Sequence[Result], sources: Sequence[Source]) -> Drawn:
    """All plots.

    Raises:
        Unsupported: matplotlib is not installed.
    """
    try:
        from deep_bench.results.report.plots.axes import Looks
    except ImportError as error:
        raise Unsupported("a report without matplotlib", advice="pip install 'deep-bench[report]'") from error
    looks, found = Looks(numbered(results)), Drawn()
    for kind, those in of_kinds(results).items():
        of_kind = [source for source in sources if source.kind == kind and source.record is not None]
        pictures, left, notes = (
            _by_record(kind, of_kind, those, looks) if kind in _BY_RECORD else _by_problem(kind, those, looks)
        )
        found.plots[kind] = Plots(bool(pictures), left)
        if pictures or notes:
            found.blocks.append(Heading(title_of(kind)))
            found.blocks += [Pictures(tuple(pictures))] if pictures else []
            found.blocks += [Lines(tuple(notes))] if notes else []
    return found


def _by_problem(kind: str, results: Sequence[Result], looks: Looks) -> tuple[list[Picture], int, list[str]]:
    """Panels of the problems that take longest: in each the systems below each other."""
    from deep_bench.results.report.plots.rows import Row, distribution, intervals

    telling = further(results)
    panels: dict[tuple[str, str], list[Row]] = {}
    for number, result in enumerate(results):
        figure = result.main
        if figure is not None and figure.count:
            words = [system_of(result), *(f"{name} {values[number]}" for name, values in telling.items())]
            row = Row(system_of(result), clean(", ".join(words)), figure, "" if result.ok else clean(result.outcome))
            panels.setdefault((clean(problem(result)), figure.name), []).append(row)
    order = sorted(panels, key=lambda key: -max(row.figure.median for row in panels[key]))[:MOST_PANELS]
    kept = [key for key in panels if key in order]
    pictures: list[Picture] = []
    for number, key in enumerate(kept):
        rows, title = panels[key][:MOST_ROWS], key[0]
        for what, make in (("times", intervals), ("samples", distribution)):
            one = make(f"{clean(kind)}-{what}-{number}", title, rows, looks)
            pictures += [one] if one is not None else []
    left = sum(len(rows) for rows in panels.values()) - sum(len(panels[key][:MOST_ROWS]) for key in kept)
    which = f"the {MOST_PANELS} problems that take longest, and {MOST_ROWS} results of each at most, are drawn"
    return (
        pictures,
        left,
        [f"{left} of {len(results)} results are not drawn but are in the tables: {which}."] if left else [],
    )


def _by_record(
    kind: str, sources: Sequence[Source], results: Sequence[Result], looks: Looks
) -> tuple[list[Picture], int, list[str]]:
    """Panels of the first records of a kind, each on its own."""
    pictures: list[Picture] = []
    notes: list[str] = []
    for number, source in enumerate(sources[:MOST_RECORDS]):
        found, said = _of_record(source, f"{kind}-{number}", looks, of=len(sources))
        pictures += found
        notes += said
    shown = {source.file for source in sources[:MOST_RECORDS]}
    left = sum(result.file not in shown for result in results)
    if left:
        notes.append(
            f"{left} of {len(results)} results are not drawn but are in the tables: the first {MOST_RECORDS} records are."
        )
    unsized = [
        result
        for result in results
        if result.kind == "communication" and result.file in shown and "bytes" not in result.labels
    ]
    if unsized:
        names = listed(list(dict.fromkeys(map(subject, unsized))))
        notes.append(f"Without a size, and so in the tables only: {names}.")
    return pictures, left + len(unsized), notes


def _of_record(source: Source, name: str, looks: Looks, of: int) -> tuple[list[Picture], list[str]]:
    from deep_bench.results.report.plots import communication, scaling, training

    what = clean(problem(source.results[0]))
    title = what if of == 1 else f"{what} ({source.created:%m-%d %H:%M})"
    if source.kind == "training":
        return training.pictures_of(source.record, name, title, looks), training.left_out([source.record])
    if source.kind == "scaling":
        scheme = source.results[0].labels.get("scheme", "")
        return scaling.pictures_of(source.record, name, clean(f"{source.record.title or what}, {scheme}")), []
    from deep_bench.distributed.collectives.result import Result as Communication

    return communication.pictures_of(Communication(source.record, source.file), name, looks), []
