"""A comparison as text, readable in 80 columns: outcomes first, then tables, then what to know."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.errors import printable, short_digests, shortened
from deep_bench.measure.tables import columns, print_note, print_table
from deep_bench.measure.units import amount_range, significant, time_unit
from deep_bench.results.comparing.comparison import Comparison
from deep_bench.results.comparing.comparisons import Comparisons
from deep_bench.results.comparing.estimate import Estimate
from deep_bench.results.comparing.pairing import RECORD

_UNPAIRED = 10


def as_text(found: Comparisons, width: int | None = None) -> str:
    """All of it."""
    out = io.StringIO()
    console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
    for line in _head(found):
        print_note(console, line)
    shown = [comparison for comparison in found if comparison.tested or comparison.why != comparison.estimate.why]
    for scale in ("ratio", "difference"):
        rows = [comparison for comparison in shown if comparison.estimate.scale == scale]
        if rows:
            print_table(console, _table(rows))
    if not shown:
        print_note(console, "nothing could be compared; see below why")
    for note in (*found.notes, *_unpaired(found)):
        print_note(console, note)
    return printable(out.getvalue().rstrip("\n"))


def _head(comparisons: Comparisons) -> Iterator[str]:
    for change in comparisons.changes:
        reason = f": {_line(change.reason, 200)}" if change.reason else ""
        name = f"{change.name}: " if change.name else ""
        transition = f"{change.before} → {change.after}" if change.before != change.after else f"still {change.after}"
        yield f"{'! ' if change.worse else '  '}{name}{transition}{reason}"
    for pairing in comparisons.pairings:
        values = "" if pairing.factor == RECORD else f"{pairing.factor} "
        suffix = f", and {pairing.further} more such pairs" if pairing.further else ""
        yield f"{values}{_line(pairing.values[0], 60)} → {_line(pairing.values[1], 60)}{suffix}"
    for name, (before, after) in comparisons.pairings[0].across.items():
        yield f"differs as well, as allowed: {name} {_line(before, 60)} → {_line(after, 60)}"


def _line(text: str, most: int) -> str:
    return shortened(short_digests(" ".join(text.split())), most)


def _table(rows: Sequence[Comparison]) -> Table:
    ratio = rows[0].estimate.scale == "ratio"
    named = any(comparison.name for comparison in rows)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("what")
    table.add_column("before → after", justify="right")
    table.add_column("ratio (95 %)" if ratio else "difference (95 %)", justify="right")
    table.add_column("")
    for comparison in rows:
        name = f"{comparison.name} {comparison.metric}" if named else comparison.metric
        table.add_row(Text(name), Text(both(comparison)), Text(changed(comparison.estimate)), Text(comparison.word))
    return table


def both(one: Comparison) -> str:
    """The two medians, in one unit.

    Example:
        >>> from deep_bench.results.comparing.estimate import Estimate
        >>> one = Estimate("ratio", 0.0012, 0.0013, 1.08, (1.05, 1.11), 0.01, 0.5, "blocks", (12, 12))
        >>> both(Comparison("", {}, "forward", "s", "lower", one, "slower", "slower"))
        '1.200 → 1.300 ms'
    """
    before, after = one.estimate.before, one.estimate.after
    if one.unit == "s":
        finite = [value for value in (before, after) if 0 < value < float("inf")]
        length, unit = time_unit(max(finite, default=1.0))
        return f"{_value(before / length)} → {_value(after / length)} {unit}"
    return amount_range(before, after, one.unit, " → ")


def _value(x: float) -> str:
    return "never" if x == float("inf") else significant(x, 4)


def changed(estimate: Estimate) -> str:
    """The change with its interval.

    Example:
        >>> changed(Estimate("ratio", 1.0, 1.1, 1.1, (1.04, 1.16), 0.01, 0.5, "blocks", (12, 12)))
        '1.100 (1.040–1.160)'
    """
    if estimate.scale == "ratio":
        ends = "" if estimate.interval is None else f" ({_ratio(estimate.interval[0])}–{_ratio(estimate.interval[1])})"
        return f"{_ratio(estimate.value)}{ends}"
    ends = "" if estimate.interval is None else f" ({estimate.interval[0]:+.4g} to {estimate.interval[1]:+.4g})"
    return f"{estimate.value:+.4g}{ends}"


def _ratio(x: float) -> str:
    if x != x or abs(x) == float("inf"):
        return "∞" if x == x else "?"
    return f"{x:.3f}" if 0.1 <= x < 10 else significant(x, 3)


def _unpaired(comparisons: Comparisons) -> Iterator[str]:
    for name, side in zip(("before", "after"), comparisons.left, strict=True):
        for result in side[:_UNPAIRED]:
            yield f"only on the side {name!r}: {result.name or result.file.name} ({_labels(result.labels)})"
        if len(side) > _UNPAIRED:
            yield f"only on the side {name!r}: {len(side) - _UNPAIRED} more results"


def _labels(labels: object) -> str:
    assert isinstance(labels, dict)
    return _line(", ".join(f"{name} {value}" for name, value in labels.items()), 200)
