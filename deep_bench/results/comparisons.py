"""`Comparisons`: all that a comparison of two sides found, as text and as a forest plot.

The text is readable in 80 columns: outcomes first, then tables, then what a reader must know to judge the words. The plot
has each ratio with its interval on a logarithmic axis.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import exp, log
from pathlib import Path
from typing import Any, overload

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.errors import InvalidArgument, printable, short_digests, shortened
from deep_bench.measure.compare import BY_WALL, CORRECTIONS, LEVEL, Estimate
from deep_bench.measure.units import amount_range, significant, time_unit
from deep_bench.records.pictures import COLOURS, SMALL, footnotes, new_figure, tidy, write
from deep_bench.records.store import written
from deep_bench.records.table import columns, print_note, print_table
from deep_bench.results.change import Change, Comparison
from deep_bench.results.pairing import RECORD, Pair, Pairing, facts_of, first_few
from deep_bench.results.result import Result


@dataclass(frozen=True)
class Comparisons(Sequence[Comparison]):
    """What was found. Printing it shows the report.

    Args:
        pairings: What was paired; several where one base was compared with several others.
        comparisons: One for each figure of each pair, totals last.
        changes: Outcomes that are not right, or others than before; the worst first.
        margin: The relative difference that counts as none.
        correction: How many comparisons were taken into account.
    """

    pairings: tuple[Pairing, ...]
    comparisons: tuple[Comparison, ...]
    changes: tuple[Change, ...]
    margin: float
    correction: str

    @overload
    def __getitem__(self, index: int) -> Comparison: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Comparison]: ...
    def __getitem__(self, index: int | slice) -> Comparison | Sequence[Comparison]:
        return self.comparisons[index]

    def __len__(self) -> int:
        return len(self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    @property
    def factor(self) -> str:
        """What tells the sides apart."""
        return self.pairings[0].factor

    @property
    def pairs(self) -> list[Pair]:
        """All pairs of results."""
        return [pair for pairing in self.pairings for pair in pairing.pairs]

    @property
    def tests(self) -> int:
        """How many comparisons the correction takes into account."""
        return sum(comparison.tested for comparison in self.comparisons)

    @property
    def left(self) -> tuple[tuple[Result, ...], tuple[Result, ...]]:
        """The results of each side that have no counterpart, each once."""
        both = [{id(r): r for p in self.pairings for r in p.left[which]}.values() for which in (0, 1)]
        return tuple(both[0]), tuple(both[1])

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know to judge the words, as sentences."""
        return tuple(line for note in _NOTES for line in note(self))

    def __str__(self) -> str:
        return self.table()

    def table(self, width: int | None = None) -> str:
        """The report as text.

        Args:
            width: Characters in a line; by default those of the terminal.
        """

        return comparison_text(self, width)

    def plot(self, file: str | Path) -> Path:
        """A forest plot: each ratio with its interval.

        Raises:
            InvalidArgument: There is no ratio to show, or the file cannot be written.
        """

        return forest_plot(self, file)

    def as_json(self) -> dict[str, Any]:
        """All of it in plain types; infinities and NaN are ``None``."""
        first = self.pairings[0]
        names = ["before", "after"]
        return {
            "factor": self.factor,
            "values": [] if self.factor == RECORD else [dict(zip(names, p.values, strict=True)) for p in self.pairings],
            "further": sum(p.further for p in self.pairings),
            "across": {name: list(values) for name, values in first.across.items()},
            "margin": self.margin,
            "correction": {"name": self.correction, "promise": CORRECTIONS[self.correction], "tests": self.tests},
            "copies": list(dict.fromkeys(str(path) for pair in self.pairs for path in pair.copies)),
            "shared": list(dict.fromkeys(str(path) for pair in self.pairs for path in pair.shared)),
            "changes": [{**asdict(change), "worse": change.worse} for change in self.changes],
            "comparisons": [_as_json(entry) for entry in self.comparisons],
            "unpaired": {
                name: [{"name": r.name, "file": str(r.file), "labels": dict(r.labels)} for r in side]
                for name, side in zip(names, self.left, strict=True)
            },
            "notes": list(self.notes),
        }

    def save(self, file: str | Path) -> Path:
        """Write `as_json` to a file.

        Raises:
            InvalidArgument: It cannot be written.
        """
        import json

        text = json.dumps(self.as_json(), indent=1, allow_nan=False) + "\n"
        return written(Path(file), lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _as_json(comparison: Comparison) -> dict[str, Any]:
    fields = asdict(comparison)
    for name in ("unit", "direction", "by_wall"):  # which stand beside the estimate
        del fields["estimate"][name]
    return _plain_value(fields)


def _plain_value(x: Any) -> Any:
    if isinstance(x, dict):
        return {name: _plain_value(value) for name, value in x.items()}
    if isinstance(x, list | tuple):
        return [_plain_value(value) for value in x]
    if isinstance(x, float):
        return x if abs(x) < float("inf") else None
    return x


_WANDERS = 0.005


def _tests_note(comparisons: Comparisons) -> Iterable[str]:
    if comparisons.tests > 1:
        yield f"{comparisons.tests} tests; {CORRECTIONS[comparisons.correction]}; intervals are of each alone"
        otherwise = sum(comparison.word != comparison.alone for comparison in comparisons if comparison.tested)
        if otherwise:
            yield f"alone, {otherwise} of them would be called otherwise"
    if any(comparison.tested and comparisons.margin > comparison.estimate.starts for comparison in comparisons):
        yield f"equivalent: the change is within {100 * comparisons.margin:g} %, by two one-sided tests"


def _method_note(comparisons: Comparisons) -> Iterable[str]:
    bases = {comparison.estimate.basis for comparison in comparisons if comparison.tested}
    if "launches" in bases:
        yield "over medians of launches (runs, records): intervals and p-values of Mann and Whitney's exact rank test"
    if "blocks" in bases:
        yield "over blocks of one launch: bootstrap with Student's t; p-values belong to these intervals"
    by_wall = [comparison.row for comparison in comparisons if comparison.estimate.by_wall]
    if by_wall:
        yield f"{first_few(by_wall)}: {BY_WALL}"
    late = [comparison.metric for comparison in comparisons if comparison.estimate.missed]
    if late:
        yield (
            f"{first_few(late)}: runs that missed the target count as later than all they outlasted "
            "(Gehan's generalisation of the rank test)"
        )


def _single_launch_note(comparisons: Comparisons) -> Iterable[str]:
    timed = [comparison for comparison in comparisons if comparison.tested and comparison.estimate.basis == "blocks"]
    if timed and any(pair.apart for pair in comparisons.pairs):
        yield from _taken_apart_note(comparisons, timed)
        restless = [c for c in timed if c.estimate.scale == "ratio" and c.estimate.wander > _WANDERS]
        if restless:
            most = max(comparison.estimate.wander for comparison in restless)
            yield (
                f"{first_few([c.metric for c in restless])}: times wandered by up to {100 * most:.2g} % from block to "
                "block, as on a machine that drifts: only a change beyond that as well is called one"
            )
    elif timed:
        yield "one launch each: what differs from one start of a process to the next is in no interval (--launches 10)"


def _taken_apart_note(comparisons: Comparisons, timed: Sequence[Comparison]) -> Iterable[str]:
    figures = [figure for pair in comparisons.pairs for r in (pair.before, pair.after) for figure in r.figures.values()]
    each = "one launch each" if all(len(figure.launches) <= 1 for figure in figures) else "one launch on a side"
    hidden = "what differs from one start of a process to the next, and what else changed meanwhile, is in no interval"
    starts = max(comparison.estimate.starts for comparison in timed)
    if starts:
        yield (
            f"{each}, measured one after the other: {hidden}; so nothing under "
            f"{100 * max(starts, comparisons.margin):g} % is "
            f"called faster or slower, and equivalent takes a margin beyond {100 * starts:g} %; for smaller changes "
            "measure several launches of each side (launches: 4 or more in a recipe, or --launches), best by turns"
        )
    metrics = [comparison.metric for comparison in timed if not comparison.estimate.starts]
    if metrics:
        yield (
            f"{first_few(metrics)}: {each}: only a change that is surely beyond {100 * comparisons.margin:g} % is called one"
        )


def _records_note(comparisons: Comparisons) -> Iterable[str]:
    several = {pair.records for pair in comparisons.pairs if pair.records != (1, 1)}
    if several:
        counts = ", ".join(f"{before} and {after}" for before, after in sorted(several))
        yield f"several records of one thing count as launches of it: {counts} of the two sides"
    copies = {file for pair in comparisons.pairs for file in pair.copies}
    if copies:
        names = first_few(sorted(file.name for file in copies))
        yield f"{len(copies)} with the same samples as another record of their side count for nothing, as copies: {names}"
    if same_record(comparisons):
        yield "both sides are the same record: this compares it with itself, and says nothing"
    elif shared := [file.name for pair in comparisons.pairs for file in pair.shared]:
        yield f"{first_few(shared)}: the same record is on both sides, which hides a change"


def same_record(found: Comparisons) -> bool:
    """Whether the later side has nothing that the earlier one has not."""
    return all(len(pair.shared) == pair.records[1] for pair in found.pairs)


def _too_few_note(comparisons: Comparisons) -> Iterable[str]:
    least = [
        comparison
        for comparison in comparisons
        if comparison.tested and comparison.estimate.least_p * (comparisons.tests or 1) > LEVEL
    ]
    if comparisons.correction == "holm" and least:
        before, after = least[0].estimate.counts
        yield (
            f"with {before} and {after} launches p is at least {least[0].estimate.least_p:.2g}: among "
            f"{comparisons.tests} tests "
            "that is not enough to tell anything; take more launches, fewer metrics (--metric), or --correction bh"
        )
    whys: dict[str, set[str]] = {}
    for comparison in comparisons:
        whys.setdefault(comparison.metric, set()).add(comparison.estimate.why)
    untold: dict[str, list[str]] = {}
    for comparison in comparisons:
        if comparison.untested:
            untold.setdefault(comparison.estimate.why, []).append(
                comparison.row if len(whys[comparison.metric]) > 1 else comparison.metric
            )
    for reason, rows in untold.items():
        yield f"not tested: {first_few(rows)}: {reason}"


def _one_sided_note(comparisons: Comparisons) -> Iterable[str]:
    for side, opposite in (("before", "after"), ("after", "before")):
        lone = [
            name
            for pair in comparisons.pairs
            for name in getattr(pair, side).figures
            if name not in getattr(pair, opposite).figures and pair.before.ok and pair.after.ok
        ]
        if lone:
            yield f"only on the side {side!r}: {first_few(lone)}"


def _unchecked_note(comparisons: Comparisons) -> Iterable[str]:
    pairs = comparisons.pairs
    unchecked = sum(any(r.outcome == "unchecked" for r in (pair.before, pair.after)) for pair in pairs)
    if unchecked:
        yield f"not checked for being right: {unchecked} of {len(pairs)} pairs"
    if any(not r.complete for pair in pairs for r in (pair.before, pair.after)):
        yield "some runs did not come to their end; what they measured counts"


def _code_note(comparisons: Comparisons) -> Iterable[str]:
    both = [tuple(facts_of(r)["commit"] for r in (pair.before, pair.after)) for pair in comparisons.pairs[:1]]
    if both and all("with changes" in commit for commit in both[0]) and both[0][0] == both[0][1]:
        yield "both sides have changes beyond their common commit, which no record holds: their code may differ"


_NOTES: tuple[Callable[[Comparisons], Iterable[str]], ...] = (
    _tests_note,
    _method_note,
    _single_launch_note,
    _records_note,
    _too_few_note,
    _one_sided_note,
    _unchecked_note,
    _code_note,
)


_UNPAIRED = 10


def comparison_text(found: Comparisons, width: int | None = None) -> str:
    """All of it."""
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
    for line in _outcome_lines(found):
        print_note(console, line)
    shown = [comparison for comparison in found if comparison.tested or comparison.why != comparison.estimate.why]
    for scale in ("ratio", "difference"):
        rows = [comparison for comparison in shown if comparison.estimate.scale == scale]
        if rows:
            ratio = rows[0].estimate.scale == "ratio"
            named = any(comparison.name for comparison in rows)
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
            table.add_column("what")
            table.add_column("before → after", justify="right")
            table.add_column("ratio (95 %)" if ratio else "difference (95 %)", justify="right")
            table.add_column("")
            for comparison in rows:
                name = f"{comparison.name} {comparison.metric}" if named else comparison.metric
                table.add_row(
                    Text(name), Text(medians_text(comparison)), Text(change_text(comparison.estimate)), Text(comparison.word)
                )
            print_table(console, table)
    if not shown:
        print_note(console, "nothing could be compared; see below why")
    for note in (*found.notes, *_unpaired_lines(found)):
        print_note(console, note)
    return printable(out.getvalue().rstrip("\n"))


def _outcome_lines(comparisons: Comparisons) -> Iterator[str]:
    for change in comparisons.changes:
        reason = f": {_change_line(change.reason, 200)}" if change.reason else ""
        name = f"{change.name}: " if change.name else ""
        transition = f"{change.before} → {change.after}" if change.before != change.after else f"still {change.after}"
        yield f"{'! ' if change.worse else '  '}{name}{transition}{reason}"
    for pairing in comparisons.pairings:
        values = "" if pairing.factor == RECORD else f"{pairing.factor} "
        suffix = f", and {pairing.further} more such pairs" if pairing.further else ""
        yield f"{values}{_change_line(pairing.values[0], 60)} → {_change_line(pairing.values[1], 60)}{suffix}"
    for name, (before, after) in comparisons.pairings[0].across.items():
        yield f"differs as well, as allowed: {name} {_change_line(before, 60)} → {_change_line(after, 60)}"


def _change_line(text: str, most: int) -> str:
    return shortened(short_digests(" ".join(text.split())), most)


def medians_text(one: Comparison) -> str:
    """The two medians, in one unit.

    Example:
        >>> from deep_bench.measure.compare import Estimate
        >>> one = Estimate("ratio", 0.0012, 0.0013, 1.08, (1.05, 1.11), 0.01, 0.5, "blocks", (12, 12))
        >>> medians_text(Comparison("", {}, "forward", "s", "lower", one, "slower", "slower"))
        '1.200 → 1.300 ms'
    """
    before, after = one.estimate.before, one.estimate.after
    if one.unit == "s":
        finite = [value for value in (before, after) if 0 < value < float("inf")]
        length, unit = time_unit(max(finite, default=1.0))
        return f"{_median_text(before / length)} → {_median_text(after / length)} {unit}"
    return amount_range(before, after, one.unit, " → ")


def _median_text(x: float) -> str:
    return "never" if x == float("inf") else significant(x, 4)


def change_text(estimate: Estimate) -> str:
    """The change with its interval.

    Example:
        >>> change_text(Estimate("ratio", 1.0, 1.1, 1.1, (1.04, 1.16), 0.01, 0.5, "blocks", (12, 12)))
        '1.100 (1.040–1.160)'
    """
    if estimate.scale == "ratio":
        ends = "" if estimate.interval is None else f" ({'–'.join(map(_ratio_text, estimate.interval))})"
        return f"{_ratio_text(estimate.value)}{ends}"
    ends = "" if estimate.interval is None else f" ({estimate.interval[0]:+.4g} to {estimate.interval[1]:+.4g})"
    return f"{estimate.value:+.4g}{ends}"


def _ratio_text(x: float) -> str:
    if x != x or abs(x) == float("inf"):
        return "∞" if x == x else "?"
    return f"{x:.3f}" if 0.1 <= x < 10 else significant(x, 3)


def _unpaired_lines(comparisons: Comparisons) -> Iterator[str]:
    for name, side in zip(("before", "after"), comparisons.left, strict=True):
        for result in side[:_UNPAIRED]:
            labels = _change_line(", ".join(f"{label} {value}" for label, value in result.labels.items()), 200)
            yield f"only on the side {name!r}: {result.name or result.file.name} ({labels})"
        if len(side) > _UNPAIRED:
            yield f"only on the side {name!r}: {len(side) - _UNPAIRED} more results"


_LOOK = {
    "faster": (COLOURS[2], "v"),
    "better": (COLOURS[2], "v"),
    "slower": (COLOURS[1], "^"),
    "worse": (COLOURS[1], "^"),
    "equivalent": (COLOURS[0], "o"),
    "cannot tell": ("#777777", "s"),
    "not comparable": ("#000000", "x"),
}
"""Word to colour and marker, so that colour is not all that tells them apart."""


_MOST_ROWS = 200
_ROW_HEIGHT = 0.28
_FARTHEST = 100.0
_LABEL_SPACE = 0.15
"""Between two ticks, as a share of half the axis."""


_TICK_STEPS = (1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)


def forest_plot(found: Comparisons, file: str | Path) -> Path:
    """Draw it.

    Args:
        found: The comparisons.
        file: Where to write it; the end of the name tells the format.

    Raises:
        InvalidArgument: There is no ratio to show, or the file cannot be written.
    """
    rows = [c for c in found if c.estimate.scale == "ratio" and c.estimate.interval is not None]
    if not rows:
        raise InvalidArgument("no ratio with an interval to show", "a time or rate with enough blocks or launches")
    shown = rows[:_MOST_ROWS]
    figure = new_figure(1.6 + _ROW_HEIGHT * len(shown))
    axes = figure.subplots()
    for place, comparison in enumerate(shown):
        _draw_interval(axes, place, comparison)
    _set_scale(axes, shown, found.margin)
    named = any(comparison.name for comparison in shown)
    names = [shortened(f"{comparison.name} {comparison.metric}" if named else comparison.metric, 60) for comparison in shown]
    axes.set_yticks(range(len(shown)), names, fontsize=SMALL)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    _set_titles(axes, found)
    omitted = sum(comparison.estimate.scale != "ratio" for comparison in found)
    lines = [f"95 % intervals of each alone; the words hold for all {found.tests} tests together ({found.correction})"]
    lines += [f"not shown: {omitted} figures that change by a difference"] * bool(omitted)
    lines += [f"not shown: {len(rows) - _MOST_ROWS} further ratios"] * (len(rows) > _MOST_ROWS)
    footnotes(figure, lines)
    return write(figure, file)


def _draw_interval(axes: Axes, place: int, comparison: Comparison) -> None:
    ends = comparison.estimate.interval
    assert ends is not None
    colour, marker = _LOOK[comparison.word]
    low, high = (float(np.clip(end, 1 / _FARTHEST, _FARTHEST)) for end in ends)
    axes.plot([low, high], [place, place], color=colour, linewidth=1.6, solid_capstyle="butt", zorder=2)
    value = comparison.estimate.value
    if value == value:
        at = np.clip(value, 1 / _FARTHEST, _FARTHEST)
        axes.plot(at, place, marker, color=colour, markersize=6, label=comparison.word, zorder=3)


def _set_scale(axes: Axes, rows: list[Comparison], margin: float) -> None:
    """A logarithmic axis that is as long on both sides of 1 as the farther end needs."""
    ends = [end for comparison in rows for end in (comparison.estimate.interval or ()) if 0 < end < float("inf")]
    far = min(max([abs(log(end)) for end in ends] + [log(1 + 2 * margin)]) * 1.08, log(_FARTHEST))
    axes.set_xscale("log")
    axes.set_xlim(exp(-far), exp(far))
    ticks: list[float] = []
    for step in _TICK_STEPS:
        if log(step) <= far and log(step) - log(ticks[-1] if ticks else 1.0) >= _LABEL_SPACE * far:
            ticks.append(step)
    axes.set_xticks([1 / step for step in reversed(ticks)] + [1.0, *ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.3g}"))
    axes.axvline(1, color="black", linewidth=0.8, zorder=1)
    axes.axvspan(1 / (1 + margin), 1 + margin, color="black", alpha=0.07, linewidth=0, zorder=0)


def _set_titles(axes: Axes, comparisons: Comparisons) -> None:
    first = comparisons.pairings[0]
    before, after = (shortened(short_digests(value), 50) for value in first.values)
    prefix = "" if first.factor == RECORD else f"{first.factor}: "
    over = after if len(comparisons.pairings) == 1 else "each"
    axes.set_xlabel(f"ratio (shaded: within {100 * comparisons.margin:g} %)\n{prefix}{over} over {before}")
    handles, words = axes.get_legend_handles_labels()
    unique = dict(zip(words, handles, strict=True))
    axes.legend(
        unique.values(),
        unique.keys(),
        fontsize=SMALL,
        ncols=len(unique),
        frameon=False,
        loc="lower right",
        bbox_to_anchor=(1, 1),
    )
    tidy(axes, axis="x")
