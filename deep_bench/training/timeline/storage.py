"""Timelines in files: written whole or not at all, checked when they are read."""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.file_for_hdf5 import FileForHdf5
from deep_bench.measure.record import ArrayFile
from deep_bench.measure.storage import INLINE_SAMPLES, digest, file_beside, read_model, written
from deep_bench.training.timeline.journal import read_journal
from deep_bench.training.timeline.record import ThreadRecord, TimelineRecord

_COLUMNS = {"codes": np.int32, "values": np.int64}


def new_file(path: str | Path) -> Path:
    """A path for a record: the one given, or one with a new name in the folder given.

    Raises:
        InvalidArgument: The file exists, or there is no folder for it.
    """
    path = Path(path)
    if path.is_dir():
        path /= f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}_timeline_{secrets.token_hex(4)}.json"
    if path.suffix != ".json":
        raise InvalidArgument(f"{path} for a timeline", "a file that ends in .json, or a folder that exists")
    if path.exists():
        raise InvalidArgument(f"{path} exists", "a new file, or a folder", "name another, or take the old one away")
    if not path.parent.is_dir():
        raise InvalidArgument(f"no folder {str(path.parent)!r} for {path.name}", advice="create it, or name another")
    return path


def write(record: TimelineRecord, path: Path) -> Path:
    """Write a record, its events to an HDF5 file beside it where they are many; what ``path`` held is replaced at the end.

    Raises:
        InvalidArgument: The folder cannot be written.
    """
    record = record.model_copy(update={"arrays": None})
    content: dict[str, Any]
    if sum(thread.n for thread in record.threads) > INLINE_SAMPLES:
        beside = path.with_name(f"{path.stem}_{secrets.token_hex(4)}.h5")
        written(beside, lambda temporary: _fill(temporary, record.threads))
        content = record.model_dump(mode="json", exclude={"threads": {"__all__": set(_COLUMNS)}})
        for thread in content["threads"]:
            thread |= {"codes": [], "values": []}
        content["arrays"] = ArrayFile(name=beside.name, sha256=digest(beside)).model_dump()
    else:
        content = record.model_dump(mode="json")
    text = json.dumps(content, allow_nan=False) + "\n"
    return written(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def read(path: str | Path) -> TimelineRecord:
    """Read a record, with its events from the files beside it; of a run that was killed, what it had written.

    Raises:
        InvalidRecord: Not a timeline, of another schema version, truncated or too large; or a file beside it is missing or
            was altered.
    """
    path = Path(path)
    record = read_model(path, TimelineRecord, "a timeline's JSON file")
    if record.journal is not None:
        journal = read_journal(path.with_name(record.journal))
        record.names = journal.names
        for index, blocks in sorted(journal.blocks.items()):
            codes, values = (np.concatenate(column) for column in zip(*blocks, strict=True))
            name, ident = journal.threads[index]
            record.threads.append(ThreadRecord(name=name, ident=ident, n=len(codes), codes=codes, values=values))
    if record.arrays is not None:
        _take(record, path, record.arrays)
    _check(record, path)
    return record


def _fill(path: Path, threads: list[ThreadRecord]) -> None:
    with FileForHdf5(path) as plain, h5py.File(plain, "w") as file:
        for index, thread in enumerate(threads):
            for column in _COLUMNS:
                file.create_dataset(f"{index}/{column}", data=getattr(thread, column), compression="gzip", shuffle=True)
            plain.check()


def _take(record: TimelineRecord, path: Path, arrays: ArrayFile) -> None:
    beside = file_beside(path, arrays, "its events' file")
    try:
        with h5py.File(beside, "r") as file:
            for index, thread in enumerate(record.threads):
                for column, dtype in _COLUMNS.items():
                    stored = file[f"{index}/{column}"]
                    if stored.dtype.kind not in "iu":
                        raise InvalidRecord(f"{beside}: {index}/{column} holds {stored.dtype}", "whole numbers")
                    setattr(thread, column, stored[()].astype(dtype))
    except (OSError, KeyError) as error:
        raise InvalidRecord(f"{beside} does not hold the events of {path.name}: {error}") from error
    record.arrays = None


def _check(record: TimelineRecord, path: Path) -> None:
    for thread in record.threads:
        if {len(thread.codes), len(thread.values)} != {thread.n}:
            raise InvalidRecord(f"{path}: thread {thread.name!r} has {len(thread.codes)} codes", f"{thread.n}")
        numbers = np.where(thread.codes < 0, ~thread.codes, thread.codes) // 4
        if len(numbers) and int(numbers.max()) >= len(record.names):
            raise InvalidRecord(f"{path}: thread {thread.name!r} has a code without a name")
