"""`Results`: many results as one data set, chosen by their labels, as a table of text and in files of other programs.

Tables have one row for each figure or sample; the forms of ReFrame, JUBE and Ramble are in `deep_bench.results.formats`.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from math import isfinite
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, overload

from rich import box
from rich.console import Console
from rich.table import Table

from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName, on_a_line, printable, short_digests
from deep_bench.measure import units
from deep_bench.records.store import written
from deep_bench.records.table import columns, data_frame, print_line, print_table
from deep_bench.results import formats
from deep_bench.results.formats import cell_value, finite, rows, sample_rows
from deep_bench.results.formats import columns as formats_columns
from deep_bench.results.result import Figure, Result, distinguishing_labels, group_by, text_of

if TYPE_CHECKING:
    import pandas

__all__ = ["FORMATS", "export", "rows", "sample_rows"]

_WIDE = 110
"""From so many columns on, each row is one line."""


_MOST_CHARACTERS = 56
"""Columns that all but problem and system take in a narrow table."""


_MOST_LABELS = 4
"""Labels that tell a row from others of its name, at most; more can be asked for."""


_NO_VALUE = "–"


def results_text(results: Results, labels: Sequence[str] = (), width: int | None = None) -> str:
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
    for line in _notes_below(results):
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
    while True:
        counts = Counter(names.values())
        alike = [file for file, name in names.items() if counts[name] > 1 and len(file.parts) > depth]
        if not alike:
            return names
        depth += 1
        names |= {file: "/".join(file.with_suffix("").parts[-depth:]) for file in alike}


def problem_name(result: Result) -> str:
    """What was run, in words.

    Example:
        >>> from datetime import datetime
        >>> problem_name(Result("operators", Path("r"), datetime(2026, 1, 1), {"operator": "Gelu", "case": "4x8"}, {}))
        'Gelu 4x8'
        >>> about = {"operator": "allreduce", "bytes": "67108868", "ranks": "4"}
        >>> problem_name(Result("communication", Path("r"), datetime(2026, 1, 1), about, {}))
        'allreduce 67.108868 MB, 4 ranks'
        >>> about = {"network": "lenet", "scenario": "Server", "mode": "find-peak"}
        >>> problem_name(Result("mlperf", Path("r"), datetime(2026, 1, 1), about, {}))
        'lenet, Server find-peak'
    """
    of = result.labels
    if result.kind == "communication" and of.get("bytes", "").isdecimal():
        words = [f"{of.get('operator', _NO_VALUE)} {units.in_bytes(int(of['bytes']), digits=None)}"]
    elif "case" in of:
        name, operator = of["case"], of.get("operator", "").rpartition("::")[2]
        words = [name if name.startswith(operator) else f"{operator} {name}"]
    else:
        words = [of.get("network") or of.get("recipe") or _NO_VALUE]
        words += [f"on {of['data']}"] if "data" in of else []
    words += [f"{of['scenario']} {of.get('mode', '')}".strip()] if result.kind == "mlperf" and "scenario" in of else []
    words += [f"{of['ranks']} ranks"] if of.get("ranks", "1") != "1" else []
    return ", ".join([" ".join(words[:2]), *words[2:]]) if "data" in of else ", ".join(words)


def amount_text(value: float, unit: str) -> str:
    """A value with its unit.

    Example:
        >>> amount_text(0.0012, "s"), amount_text(0.98765, ""), amount_text(float("inf"), "s")
        ('1.200 ms', '0.9877', 'not reached')
    """
    return "not reached" if unit == "s" and not isfinite(value) else units.amount(value, unit)


def interval_text(figure: Figure) -> str:
    """The ends of the interval.

    Example:
        >>> import numpy as np
        >>> interval_text(Figure("forward", "s", "lower", ((np.array([1, 5, 2, 6, 3, 4]) * 1e-3,),)))
        '0.5000 to 6.500 ms'
    """
    interval = figure.interval
    if interval is None:
        return "none"
    if not isfinite(interval.high):
        return f"{amount_text(interval.low, figure.unit)} to no end"
    return units.amount_range(interval.low, interval.high, figure.unit)


def _spread_text(figure: Figure) -> str:
    """Half the width of the interval over the median."""
    interval = figure.interval
    if interval is None:
        return ""
    half = (interval.high - interval.low) / 2 / figure.median if figure.median else float("nan")
    if not isfinite(half):
        return " ±?"
    return f" ±{100 * half:.2g} %" if half < 0.99 else " ±>99 %"


def _state_text(result: Result) -> list[str]:
    return [result.outcome, *([] if result.complete else ["incomplete"])]


def _distinguishing_values(results: Results, labels: Sequence[str]) -> list[list[str]]:
    """For each result the labels, and their values, that tell it from others of its name; not those shown anyhow."""
    by_id: dict[int, list[str]] = {}
    for group in group_by(results, lambda result: (result.kind, problem_name(result), result.labels.get("system"))):
        names = [name for name in distinguishing_labels([group]) if name not in labels]
        overflow = [f"and {len(names) - _MOST_LABELS} more labels"] if len(names) > _MOST_LABELS else []
        for result in group:
            shown = [f"{name} {short_digests(result.labels.get(name, _NO_VALUE))}" for name in names[:_MOST_LABELS]]
            by_id[id(result)] = [*shown, *overflow]
    return [by_id[id(result)] for result in results]


def _wide(results: Results, labels: Sequence[str]) -> Table:
    names = short_names(results.files())
    table = Table(pad_edge=False, box=box.SIMPLE_HEAD)
    for name in ("record", "begun (UTC)", "kind", "what", "system", *labels, "verdict", "figure", "median (95 % interval)"):
        table.add_column(name)
    for result, apart in zip(results, _distinguishing_values(results, labels), strict=True):
        figure, of = result.main, result.labels
        cells = (
            names[result.file],
            f"{result.created:%Y-%m-%d %H:%M}",
            result.kind,
            ", ".join([problem_name(result), *apart]),
            of.get("system", _NO_VALUE),
            *(of.get(name, _NO_VALUE) for name in labels),
            ", ".join(_state_text(result)),
            _NO_VALUE if figure is None else figure.name,
            _NO_VALUE if figure is None else f"{amount_text(figure.median, figure.unit)} ({interval_text(figure)})",
        )
        table.add_row(*map(on_a_line, cells))
    return table


def _narrow(results: Results, labels: Sequence[str], width: int) -> Table:
    """Several lines a row: the record is named in the first of its rows, and labels are below what was run."""
    names, before = short_names(results.files()), None
    room = max(width - _MOST_CHARACTERS, 16)
    table = Table("record", "what", "system", "verdict", "figure", pad_edge=False, box=box.SIMPLE_HEAD)
    for result, apart in zip(results, _distinguishing_values(results, labels), strict=True):
        figure, of = result.main, result.labels
        head = [f"{result.created:%Y-%m-%d %H:%M}", result.kind, on_a_line(names[result.file])]
        shown = [_NO_VALUE]
        if figure is not None:
            shown = [*wrap(figure.name, 16), *wrap(f"{amount_text(figure.median, figure.unit)}{_spread_text(figure)}", 16)]
        texts = [on_a_line(problem_name(result)), *apart, *(f"{name}={of[name]}" for name in labels if name in of)]
        cells = (
            "" if result.file == before else "\n".join(head),
            "\n".join(line for words in texts for line in wrap(words, room - room // 2)),
            "\n".join(wrap(of.get("system", _NO_VALUE), room // 2)),
            "\n".join(line for word in _state_text(result) for line in wrap(word, 10)),
            "\n".join(shown),
        )
        table.add_row(*map(printable, cells))
        before = result.file
    return table


def _notes_below(results: Results) -> list[str]:
    count, files = len(results), len(results.files())
    lines = [f"{count} result{'s' * (count != 1)} of {files} record{'s' * (files != 1)}"]
    if unfinished := sum(not result.complete for result in results):
        lines.append(f"incomplete: {unfinished}, of runs that were interrupted or killed, or still go on")
    if bad := sum(not result.ok for result in results):
        lines.append(f"failed or found wrong: {bad}")
    return lines + [on_a_line(f"not read: {refused}") for refused in results.refused]


_BATCH = 50_000
"""Rows of Parquet that are in memory at a time."""


def _write_csv(results: Results, path: Path, samples: bool) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, formats_columns(results, samples), lineterminator="\n")
        writer.writeheader()
        for row in sample_rows(results) if samples else rows(results):
            writer.writerow({name: cell_value(value) for name, value in row.items()})


def _write_json(results: Results, path: Path, samples: bool) -> None:
    with open(path, "w", encoding="utf-8") as file:
        before = "[\n"
        for row in sample_rows(results) if samples else rows(results):
            file.write(before + json.dumps({name: finite(value) for name, value in row.items()}, allow_nan=False))
            before = ",\n"
        file.write("\n]\n" if before != "[\n" else "[]\n")


def _write_parquet(results: Results, path: Path, samples: bool) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    schema = pa.schema([(name, columns[kind]) for name, kind in formats_columns(results, samples).items()])
    table = sample_rows(results) if samples else rows(results)
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(table, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


class Results(Sequence[Result]):
    """Results of any kinds, in their order; a slice or a choice of them is one again.

    Args:
        results: What was read.
        refused: What was not.
    """

    def __init__(self, results: Iterable[Result] = (), refused: Iterable[Refused] = ()) -> None:
        self._results = tuple(results)
        self.refused = tuple(refused)

    @overload
    def __getitem__(self, at: int) -> Result: ...
    @overload
    def __getitem__(self, at: slice) -> Results: ...
    def __getitem__(self, at: int | slice) -> Result | Results:
        return Results(self._results[at], self.refused) if isinstance(at, slice) else self._results[at]

    def __len__(self) -> int:
        return len(self._results)

    def where(self, /, **labels: Any) -> Results:
        """Those that have all of these labels.

        Args:
            **labels: Name to a value, or to several of which any will do. ``*`` in a value stands for any characters;
                ``None`` for results without the label. A name with a dot is given as ``**{"option.threads": 1}``.

        Raises:
            UnknownName: No result has such a label.

        Example:
            >>> from datetime import datetime
            >>> both = Results(
            ...     Result("network", Path("a.json"), datetime(2026, 1, 1), {"system": name, "ranks": "1"}, {})
            ...     for name in ("torch", "torch:threads=1"))
            >>> [found.labels["system"] for found in both.where(system="torch:*", ranks=[1, 2])]
            ['torch:threads=1']
            >>> both.where(sytem="torch")
            Traceback (most recent call last):
                ...
            deep_bench.errors.UnknownName: unknown label 'sytem'
            Expected: one of ranks, system
            What to do: did you mean 'system'?
        """
        names = self.labels()
        for name in labels:
            if self and name not in names:
                raise UnknownName("label", name, names)
        tests = {name: _label_test(value) for name, value in labels.items()}
        return Results(
            (r for r in self if all(test(r.labels.get(name)) for name, test in tests.items())),
            self.refused,
        )

    def labels(self) -> dict[str, tuple[str, ...]]:
        """Each label, and the values that it has, numbers by their size."""
        by_label: dict[str, dict[str, None]] = {}
        for result in self:
            for name, value in result.labels.items():
                by_label.setdefault(name, {})[value] = None
        return {name: tuple(sorted(by_label[name], key=_natural_order)) for name in sorted(by_label)}

    def files(self) -> tuple[Path, ...]:
        """The files that were read, each once."""
        return tuple(dict.fromkeys(result.file for result in self))

    def export(self, path: str | Path, format: str = "table", *, samples: bool = False) -> Path:  # noqa: A002
        """Write them to a file that another program reads; see `deep_bench.results.results.export`.

        Raises:
            InvalidArgument, FrameworkMissing: As there.
        """

        return export(self, path, format, samples=samples)

    def to_dataframe(self, *, samples: bool = False) -> pandas.DataFrame:
        """A row for each figure, or for each sample, as `deep_bench.results.formats` gives them.

        Raises:
            FrameworkMissing: pandas is not installed.
        """
        table = sample_rows(self) if samples else rows(self)
        return data_frame(table, "deep_bench.results.formats", list(formats_columns(self, samples)))

    def table(self, labels: Sequence[str] = (), width: int | None = None) -> str:
        """One row for each, as text.

        Args:
            labels: Further labels, each a column.
            width: Columns of text; by default those of the terminal, or 160 where there is none.

        Raises:
            UnknownName: No result has such a label.
        """

        return results_text(self, labels, width)

    def __repr__(self) -> str:
        return self.table()


@dataclass(frozen=True)
class Refused:
    """A file that was not read.

    Args:
        file: Its path.
        reason: Why.
    """

    file: Path
    reason: str

    def __str__(self) -> str:
        name = on_a_line(self.file)
        return self.reason if name in self.reason else f"{name}: {self.reason}"


def _label_test(value: Any) -> Callable[[str | None], bool]:
    """Whether a label's value is what is asked for."""
    choices = value if isinstance(value, list | tuple | set | frozenset) else [value]
    texts = [".*".join(map(re.escape, text_of(choice).split("*"))) for choice in choices if choice is not None]
    pattern = re.compile("|".join(texts), re.DOTALL)
    missing = None in choices
    return lambda label: missing if label is None else bool(texts) and pattern.fullmatch(label) is not None


def _natural_order(text: str) -> tuple[tuple[int, float, str], ...]:
    """Numbers in a text by their size.

    Example:
        >>> sorted(["128x8", "8x8", "torch", "16"], key=_natural_order)
        ['8x8', '16', '128x8', 'torch']
    """
    parts = re.findall(r"(\d+)|(\D+)", text)
    return tuple((0, float(number), "") if number else (1, 0.0, words) for number, words in parts)


_Writer = Callable[[Results, Path, bool], object]


def _text_writer(text: Callable[[Results], str]) -> _Writer:
    return lambda results, path, _: path.write_text(text(results), encoding="utf-8", errors="replace")


FORMATS: Mapping[str, Mapping[str, _Writer]] = {
    "benchpark": {".json": _text_writer(formats.ramble_json)},
    "jube": {".csv": _text_writer(formats.jube_table), ".dat": _text_writer(formats.jube_table)},
    "reframe": {".json": _text_writer(formats.reframe_report), ".log": _text_writer(formats.reframe_log)},
    "table": {".csv": _write_csv, ".json": _write_json, ".parquet": _write_parquet},
}
"""Format to the end of a file's name to what writes it."""


def export(results: Results, path: str | Path, format: str = "table", *, samples: bool = False) -> Path:  # noqa: A002
    """Write results to a file that another program reads.

    Args:
        results: What `deep_bench.results.gather` read.
        path: The file; the end of its name tells its form.
        format: ``"table"``: a row for each figure (``.csv``, ``.json``, ``.parquet``); ``"reframe"``: a run report
            (``.json``) or a performance log (``.log``); ``"jube"``: a result table (``.csv``, ``.dat``); ``"benchpark"``:
            Ramble's results with their figures of merit (``.json``).
        samples: A row for each sample, in a table.

    Returns:
        The file.

    Raises:
        InvalidArgument: No such format, a name whose end does not fit it, samples in a format that has none, or a file that
            cannot be written.
        FrameworkMissing: Parquet without pyarrow.
    """
    target = path_of(path, "a file to write")
    check_export(target, format, samples)
    write = FORMATS[format][target.suffix.lower()]
    return written(target, lambda temporary: write(results, temporary, samples))


def check_export(path: Path, format: str = "table", samples: bool = False) -> None:  # noqa: A002
    """See that `export` can write such a file.

    Raises:
        InvalidArgument, FrameworkMissing: As `export`.

    Example:
        >>> check_export(Path("all.xlsx"))
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: all.xlsx for the format 'table'
        Expected: a name that ends in .csv, .json, .parquet
    """
    if format not in FORMATS:
        raise InvalidArgument(f"format {format!r}", f"one of {', '.join(FORMATS)}")
    if path.suffix.lower() not in FORMATS[format]:
        raise InvalidArgument(f"{path} for the format {format!r}", f"a name that ends in {', '.join(FORMATS[format])}")
    if samples and format != "table":
        raise InvalidArgument(f"samples in the format {format!r}, which has no place for them", "the format 'table'")
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise FrameworkMissing(
                f"{path} needs pyarrow, which is not installed here",
                advice="pip install 'deep-bench[parquet]', or write a .csv",
            ) from error


def path_of(value: Any, what: str) -> Path:
    """A path, as it was named.

    Args:
        value: Text, or what ``os.fspath`` makes text of.
        what: It is to be, for messages.

    Raises:
        InvalidArgument: It is none.

    Example:
        >>> path_of(["a.json"], "a record, or a folder of records")
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: ['a.json'] is a list, which is no path
        Expected: a record, or a folder of records: text or a pathlib.Path
        What to do: give several as arguments of their own: gather(*paths)
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(text, str) and "\0" not in text:
        return Path(text)
    several = isinstance(value, list | tuple | set | frozenset)
    kind = "None" if value is None else f"a {type(value).__name__}"
    raise InvalidArgument(
        f"{value!r:.200} is {kind}, which is no path" if text is None else f"{text!r:.200} is no path",
        f"{what}: text or a pathlib.Path",
        "give several as arguments of their own: gather(*paths)" if several else "",
    )


def _in_utc(moment: datetime) -> datetime:
    """One without a time zone is taken to be in UTC, as all that deep_bench writes."""
    return moment.astimezone(UTC) if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
