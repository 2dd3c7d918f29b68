"""The raw data: records attached where they are small, else named with their hashes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from deep_bench.errors import DeepBenchError
from deep_bench.measure.record import ArrayFile
from deep_bench.measure.storage import digest, file_beside
from deep_bench.results.report.model import Attachment, Block, Cell, Column, Table, Text, clean

LARGEST_FILE = 2**20
"""Larger files are not attached."""

ALL_FILES = 3 * 2**20
"""So many bytes are attached in all, the small files first."""

_MOST = 2_500
_LARGEST_ARRAYS = 4 * 2**30


def blocks(files: Sequence[Path]) -> list[Block]:
    """A table of all files with their hashes, and those that there is room for."""
    every = list(dict.fromkeys(file for record in files[:_MOST] for file in (record, *_beside(record))))
    chosen = _chosen(every)
    rows = tuple(_row(file, file in chosen) for file in every)
    columns = (Column("file"), Column("bytes", True), Column("SHA-256"), Column("data"))
    count = sum(isinstance(row[3], Attachment) for row in rows)
    parts: list[Block] = [
        Text(
            f"{count} of {len(every)} files are attached; all raw samples are in them, and everything in this report can be "
            "computed from them. Long arrays lie in HDF5 files beside their records."
        ),
        Table("Records", columns, rows, folded=len(rows) > 12),
    ]
    if len(files) > _MOST:
        parts.append(Text(f"{len(files) - _MOST} more records are not listed."))
    return parts


def _beside(record: Path) -> list[Path]:
    """The file of arrays of a record; a name that leads elsewhere, or a file that was altered, is none."""
    try:
        if record.stat().st_size > 8 * LARGEST_FILE:
            return []
        arrays = json.loads(record.read_text(encoding="utf-8")).get("arrays")
        if not arrays or record.with_name(arrays["name"]).is_symlink():
            return []
        return [file_beside(record, ArrayFile.model_validate(arrays), "its arrays", _LARGEST_ARRAYS)]
    except (OSError, ValueError, AttributeError, KeyError, TypeError, DeepBenchError):
        return []


def _chosen(files: Sequence[Path]) -> set[Path]:
    """The files that are attached: the smallest, as long as there is room."""
    sizes = {file: _size(file) for file in files}
    selection: set[Path] = set()
    room = ALL_FILES
    for file, size in sorted(sizes.items(), key=lambda pair: (pair[1] is None, pair[1] or 0, str(pair[0]))):
        if size is not None and size <= min(LARGEST_FILE, room):
            selection.add(file)
            room -= size
    return selection


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None


def _row(file: Path, attached: bool) -> tuple[Cell, ...]:
    size = _size(file)
    try:
        sha256 = digest(file)
        data: Cell = Attachment(clean(file.name, 160), file.read_bytes()) if attached else "not attached: large"
    except OSError as error:
        sha256, data = "–", f"cannot be read any more: {error.strerror}"
    return clean(file.name, 160), "–" if size is None else str(size), sha256, data
