"""Records of runs under LoadGen in files: written whole, and judged again when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidRecord
from deep_bench.measure.file_for_hdf5 import FileForHdf5
from deep_bench.measure.record import ArrayFile
from deep_bench.measure.storage import INLINE_SAMPLES, digest, file_beside, read_model, written
from deep_bench.mlperf.inference.judgement import caveats, judged
from deep_bench.mlperf.inference.record import OWN_COLUMNS, TRACED_COLUMNS, InferenceRecord, LatencyRecord

FILE, ARRAYS = "mlperf.json", "mlperf.h5"
_LARGEST_ARRAYS_BYTES = 4 * 2**30


def save(record: InferenceRecord, folder: Path) -> Path:
    """Write a record into the folder of its run, with columns that are long in an HDF5 file beside it.

    Raises:
        InvalidArgument: It cannot be written.
    """
    columns = {name: getattr(record.latencies, name) for name in (*OWN_COLUMNS, *TRACED_COLUMNS)}
    if sum(map(len, columns.values())) <= INLINE_SAMPLES:
        content = record.model_copy(update={"arrays": None})
    else:
        file = written(folder / ARRAYS, lambda temporary: _write(temporary, columns))
        content = record.model_copy(
            update={
                "arrays": ArrayFile(name=file.name, sha256=digest(file)),
                "latencies": LatencyRecord(n=record.latencies.n),
            }
        )
    text = content.model_dump_json(indent=1) + "\n"
    return written(folder / FILE, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def load_inference(path: str | Path) -> InferenceRecord:
    """Read what `save` wrote.

    Args:
        path: The file, or the folder of the run.

    Returns:
        The record, its judgement and its remarks derived again from all else that is in it.

    Raises:
        InvalidRecord: It cannot be read, is no such record, its judgement does not follow from the rest, or its arrays are
            missing or were altered.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    record = read_model(path, InferenceRecord, "the record of a run under LoadGen, of schema version 1")
    return _judged_again(record if record.arrays is None else _with_arrays(record, record.arrays, path), path)


def _judged_again(record: InferenceRecord, path: Path) -> InferenceRecord:
    if record.judgement is None and not record.complete:
        return record
    try:
        again, new_remarks = judged(record), caveats(record)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise InvalidRecord(f"{path} cannot be judged: {error}", "figures as LoadGen gives them") from error
    verdict = record.judgement.word if record.judgement is not None else "not judged"
    if verdict != again.word:
        reasons = f" because {'; '.join(again.reasons)}" if again.reasons else ""
        raise InvalidRecord(f"{path} says {verdict}", f"{again.word}{reasons}: that follows from the rest of it")
    if record.complete != (again.word != "FAILED"):
        raise InvalidRecord(f"{path} is of a run that is {again.word}, and complete={record.complete}", "one of the two")
    remarks = list(dict.fromkeys([*record.remarks, *new_remarks]))
    return record.model_copy(update={"judgement": again, "remarks": remarks})


def _with_arrays(record: InferenceRecord, arrays: ArrayFile, path: Path) -> InferenceRecord:
    """With the columns that lie in the HDF5 file."""
    beside = file_beside(path, arrays, "its latencies' file", _LARGEST_ARRAYS_BYTES)
    try:
        with h5py.File(beside, "r") as file:
            columns = {name: _column(file, name) for name in (*OWN_COLUMNS, *TRACED_COLUMNS)}
    except (OSError, KeyError) as error:
        raise InvalidRecord(f"{beside} does not hold the latencies of {path.name}: {error}") from error
    try:
        latencies = LatencyRecord(n=record.latencies.n, **columns)
        return InferenceRecord.model_validate({**dict(record), "arrays": None, "latencies": latencies})
    except ValueError as error:
        raise InvalidRecord(f"{beside}: {error}", f"{record.latencies.n} latencies") from error


def _write(path: Path, columns: Mapping[str, NDArray[np.int64]]) -> None:
    with FileForHdf5(path) as plain, h5py.File(plain, "w") as file:
        for name, values in columns.items():
            packed = {"compression": "gzip", "shuffle": True} if len(values) else {}
            file.create_dataset(name, data=values, **packed)


def _column(file: h5py.File, name: str) -> NDArray[np.int64]:
    if not isinstance(file.get(name, getlink=True), h5py.HardLink):
        raise KeyError(f"{name} is not in this file")
    stored = file[name]
    if isinstance(stored, h5py.Dataset) and (stored.is_virtual or stored.external):
        raise KeyError(f"{name} lies in other files")
    if not isinstance(stored, h5py.Dataset) or stored.ndim != 1 or stored.dtype.kind not in "iu":
        raise KeyError(f"{name} is no column of whole numbers")
    if stored.size * 8 > _LARGEST_ARRAYS_BYTES:
        raise KeyError(f"{name} has {stored.size} entries")
    return stored[()].astype(np.int64)
