"""Results as a table of text."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from deep_bench.errors import UnknownName, on_a_line, printable, short_digests
from deep_bench.measure import units
from deep_bench.measure.tables import columns, print_line, print_table
from deep_bench.results.result import Figure, Result
from deep_bench.results.telling import grouped, telling

if TYPE_CHECKING:
    from deep_bench.results.gathering import Results

_WIDE = 110
"""From so many columns on, each row is one line."""

_OTHERS = 56
"""Columns that all but problem and system take in a narrow table."""

_MOST_LABELS = 4
"""Labels that tell a row from others of its name, at most; more can be asked for."""

_NONE = "–"


def as_text(results: Results, labels: Sequence[str] = (), width: int | None = None) -> str:
    """One row for each result: its record, what was run, the verdict, and the first figure with its interval.

    Rows of one name have the labels that tell them apart behind it.

    Args:
        results: What was read.
        labels: Further labels, each a column.
        width: Columns of text; by default those of the terminal, or 160 where there is none.

    Raises:
        UnknownName: No result has such a label.
    """
    names = results.labels()
    for name in labels:
        if results and name not in names:
            raise UnknownName("label", name, names)
    out, room = io.StringIO(), width or columns()
    console = Console(file=out, width=room, highlight=False, markup=False, emoji=False, color_system=None)
    if results:
        print_table(console, _wide(results, labels) if room >= _WIDE else _narrow(results, labels, room))
    for line in _below(results):
        print_line(console, line)
    return out.getvalue().rstrip("\n")


def short_names(files: Sequence[Path]) -> dict[Path, str]:
    """The end of each file's name that tells it from all others, with as many of its folders as that takes.

    Example:
        >>> short_names([Path("2026_run_0a1b.json"), Path("2026_run_77fe.json"), Path("mine.json")]).values()
        dict_values(['0a1b', '77fe', 'mine'])
        >>> short_names([Path("all/offline/mlperf.json"), Path("all/server/mlperf.json")]).values()
        dict_values(['offline/mlperf', 'server/mlperf'])
    """
    ends = {file: file.stem.replace("-", "_").rpartition("_")[2] for file in files}
    end_counts = Counter(ends.values())
    names = {file: end if end_counts[end] == 1 else file.stem for file, end in ends.items()}
    depth = 1
    while alike := [file for file, of in _alike(names).items() if of > 1 and len(file.parts) > depth]:
        depth += 1
        names |= {file: "/".join(file.with_suffix("").parts[-depth:]) for file in alike}
    return names


def _alike(names: Mapping[Path, str]) -> dict[Path, int]:
    """How many files have the name of each."""
    counts = Counter(names.values())
    return {file: counts[name] for file, name in names.items()}


def problem(result: Result) -> str:
    """What was run, in words.

    Example:
        >>> from datetime import datetime
        >>> problem(Result("operators", Path("r"), datetime(2026, 1, 1), {"operator": "Gelu", "case": "4x8"}, {}))
        'Gelu 4x8'
        >>> about = {"operator": "allreduce", "bytes": "67108868", "ranks": "4"}
        >>> problem(Result("communication", Path("r"), datetime(2026, 1, 1), about, {}))
        'allreduce 67.108868 MB, 4 ranks'
        >>> about = {"network": "lenet", "scenario": "Server", "mode": "find-peak"}
        >>> problem(Result("mlperf", Path("r"), datetime(2026, 1, 1), about, {}))
        'lenet, Server find-peak'
    """
    of = result.labels
    if result.kind == "communication" and of.get("bytes", "").isdecimal():
        words = [f"{of.get('operator', _NONE)} {units.in_bytes(int(of['bytes']), digits=None)}"]
    elif "case" in of:
        name, operator = of["case"], of.get("operator", "").rpartition("::")[2]
        words = [name if name.startswith(operator) else f"{operator} {name}"]
    else:
        words = [of.get("network") or of.get("recipe") or _NONE]
        words += [f"on {of['data']}"] if "data" in of else []
    words += [f"{of['scenario']} {of.get('mode', '')}".strip()] if result.kind == "mlperf" and "scenario" in of else []
    words += [f"{of['ranks']} ranks"] if of.get("ranks", "1") != "1" else []
    return ", ".join([" ".join(words[:2]), *words[2:]]) if "data" in of else ", ".join(words)


def amount(value: float, unit: str) -> str:
    """A value with its unit.

    Example:
        >>> amount(0.0012, "s"), amount(0.98765, ""), amount(float("inf"), "s")
        ('1.200 ms', '0.9877', 'not reached')
    """
    return "not reached" if unit == "s" and not isfinite(value) else units.amount(value, unit)


def limits(figure: Figure) -> str:
    """The ends of the interval.

    Example:
        >>> import numpy as np
        >>> limits(Figure("forward", "s", "lower", ((np.array([1, 5, 2, 6, 3, 4]) * 1e-3,),)))
        '0.5000 to 6.500 ms'
    """
    interval = figure.interval
    if interval is None:
        return "none"
    if not isfinite(interval.high):
        return f"{amount(interval.low, figure.unit)} to no end"
    return units.amount_range(interval.low, interval.high, figure.unit)


def _spread(figure: Figure) -> str:
    """Half the width of the interval over the median."""
    interval = figure.interval
    if interval is None:
        return ""
    half = (interval.high - interval.low) / 2 / figure.median if figure.median else float("nan")
    if not isfinite(half):
        return " ±?"
    return f" ±{100 * half:.2g} %" if half < 0.99 else " ±>99 %"


def _state(result: Result) -> list[str]:
    return [result.outcome, *([] if result.complete else ["incomplete"])]


def _apart(results: Results, labels: Sequence[str]) -> list[list[str]]:
    """For each result the labels, and their values, that tell it from others of its name; not those shown anyhow."""
    by_id: dict[int, list[str]] = {}
    for group in grouped(results, lambda result: (result.kind, problem(result), result.labels.get("system"))):
        names = [name for name in telling([group]) if name not in labels]
        overflow = [f"and {len(names) - _MOST_LABELS} more labels"] if len(names) > _MOST_LABELS else []
        for result in group:
            shown = [f"{name} {short_digests(result.labels.get(name, _NONE))}" for name in names[:_MOST_LABELS]]
            by_id[id(result)] = [*shown, *overflow]
    return [by_id[id(result)] for result in results]


def _wide(results: Results, labels: Sequence[str]) -> Table:
    names = short_names(results.files())
    table = Table(pad_edge=False, box=box.SIMPLE_HEAD)
    for name in ("record", "begun (UTC)", "kind", "what", "system", *labels, "verdict", "figure", "median (95 % interval)"):
        table.add_column(name)
    for result, apart in zip(results, _apart(results, labels), strict=True):
        figure, of = result.main, result.labels
        cells = (
            names[result.file],
            f"{result.created:%Y-%m-%d %H:%M}",
            result.kind,
            ", ".join([problem(result), *apart]),
            of.get("system", _NONE),
            *(of.get(name, _NONE) for name in labels),
            ", ".join(_state(result)),
            _NONE if figure is None else figure.name,
            _NONE if figure is None else f"{amount(figure.median, figure.unit)} ({limits(figure)})",
        )
        table.add_row(*map(on_a_line, cells))
    return table


def _narrow(results: Results, labels: Sequence[str], width: int) -> Table:
    """Several lines a row: the record is named in the first of its rows, and labels are below what was run."""
    names, before = short_names(results.files()), None
    room = max(width - _OTHERS, 16)
    table = Table("record", "what", "system", "verdict", "figure", pad_edge=False, box=box.SIMPLE_HEAD)
    for result, apart in zip(results, _apart(results, labels), strict=True):
        figure, of = result.main, result.labels
        head = [f"{result.created:%Y-%m-%d %H:%M}", result.kind, on_a_line(names[result.file])]
        shown = [_NONE]
        if figure is not None:
            shown = [*wrap(figure.name, 16), *wrap(f"{amount(figure.median, figure.unit)}{_spread(figure)}", 16)]
        texts = [on_a_line(problem(result)), *apart, *(f"{name}={of[name]}" for name in labels if name in of)]
        cells = (
            "" if result.file == before else "\n".join(head),
            "\n".join(line for words in texts for line in wrap(words, room - room // 2)),
            "\n".join(wrap(of.get("system", _NONE), room // 2)),
            "\n".join(line for word in _state(result) for line in wrap(word, 10)),
            "\n".join(shown),
        )
        table.add_row(*map(printable, cells))
        before = result.file
    return table


def _below(results: Results) -> list[str]:
    count, files = len(results), len(results.files())
    lines = [f"{count} result{'s' * (count != 1)} of {files} record{'s' * (files != 1)}"]
    if unfinished := sum(not result.complete for result in results):
        lines.append(f"incomplete: {unfinished}, of runs that were interrupted or killed, or still go on")
    if bad := sum(not result.ok for result in results):
        lines.append(f"failed or found wrong: {bad}")
    return lines + [on_a_line(f"not read: {refused}") for refused in results.refused]
