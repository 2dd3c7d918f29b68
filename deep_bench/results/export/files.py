"""Results in files: tables of one row for each figure or sample, and the forms of ReFrame, JUBE and Ramble."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from deep_bench.errors import FrameworkMissing, InvalidArgument
from deep_bench.measure.storage import written
from deep_bench.results.export import jube, ramble, reframe
from deep_bench.results.export.rows import Row, cell, columns, finite, rows, sample_rows
from deep_bench.results.gathering import Results
from deep_bench.results.paths import path_of

_BATCH = 50_000
"""Rows of Parquet that are in memory at a time."""


def _csv(results: Results, path: Path, samples: bool) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns(results, samples), lineterminator="\n")
        writer.writeheader()
        for row in sample_rows(results) if samples else rows(results):
            writer.writerow({name: cell(value) for name, value in row.items()})


def _json(results: Results, path: Path, samples: bool) -> None:
    entries = sample_rows(results) if samples else rows(results)
    with open(path, "w", encoding="utf-8") as file:
        before = "[\n"
        for row in entries:
            file.write(before + json.dumps({name: finite(value) for name, value in row.items()}, allow_nan=False))
            before = ",\n"
        file.write("\n]\n" if before != "[\n" else "[]\n")


def _parquet(results: Results, path: Path, samples: bool) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    types = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns(results, samples).items()])
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in _batches(sample_rows(results) if samples else rows(results)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def _batches(entries: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(entries, _BATCH)):
        yield batch


_Write = Callable[[Results, Path, bool], None]


def _sites(write: Callable[[Results], str]) -> _Write:
    return lambda results, path, _: _text(path, write(results))


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", errors="replace")


FORMATS: Mapping[str, Mapping[str, _Write]] = {
    "benchpark": {".json": _sites(ramble.results_json)},
    "jube": {".csv": _sites(jube.table), ".dat": _sites(jube.table)},
    "reframe": {".json": _sites(reframe.run_report), ".log": _sites(reframe.performance_log)},
    "table": {".csv": _csv, ".json": _json, ".parquet": _parquet},
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
    check(target, format, samples)
    write = FORMATS[format][target.suffix.lower()]
    return written(target, lambda temporary: write(results, temporary, samples))


def check(path: Path, format: str = "table", samples: bool = False) -> None:  # noqa: A002
    """See that `export` can write such a file.

    Raises:
        InvalidArgument, FrameworkMissing: As `export`.

    Example:
        >>> check(Path("all.xlsx"))
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
