"""Records in files: written whole or not at all, checked when they are read. Nothing is pickled.

`FileForHdf5` is a file that HDF5 writes, whose failures are Python's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC
from io import SEEK_CUR, SEEK_END, SEEK_SET
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import h5py
import numpy as np
from pydantic import BaseModel, ValidationError

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.metrics import MetricRecord
from deep_bench.records.fields import MOMENTS, nanoseconds
from deep_bench.records.model import SCHEMA_VERSION, ArrayFile, Record, SampleSet

M = TypeVar("M", bound=BaseModel)

INLINE_SAMPLES = 5_000
"""Up to so many samples stay in the JSON file; more go to HDF5."""


_COLUMNS = {"ns": np.int64, "preempted": np.bool_, "cpu_ns": np.int64}
_LARGEST_JSON_BYTES = 256 * 2**20
_LARGEST_ARRAYS_BYTES = 4 * 2**30


class RecordWriter:
    """Keeps a record's file up to date while the run goes on, so that a run that is killed leaves what it had.

    Args:
        folder: An existing folder that can be written.
        record: The record so far; it is written at once.

    Attributes:
        path: The JSON file.

    Raises:
        InvalidArgument: The folder is missing or read-only, or there is no space.
    """

    def __init__(self, folder: Path, record: Record) -> None:
        self.path = _new_path(Path(folder), record)
        self._arrays: Path | None = None
        self.write(record)

    def write(self, record: Record) -> Path:
        """Replace what the file holds by ``record``: the arrays first, under a new name, then the JSON that names them.

        Raises:
            InvalidArgument: The folder can no longer be written; what it held is there still.
        """
        content, sets = _split(record)
        old, arrays_path = self._arrays, None
        try:
            if sets:
                arrays_path = self.path.with_name(f"{self.path.stem}_{secrets.token_hex(4)}.h5")
                columns: dict[str, np.ndarray] = {}
                for name, samples in sets.items():
                    for column, dtype in _COLUMNS.items():
                        values = [getattr(block, column) for block in samples.blocks if getattr(block, column) is not None]
                        columns[f"{name}/{column}"] = np.concatenate([*values, np.empty(0, dtype)])
                replace(arrays_path, lambda temporary: fill_columns(temporary, columns))
                content["arrays"] = {"name": arrays_path.name, "sha256": digest(arrays_path)}
            replace(self.path, lambda temporary: temporary.write_text(_json(content), encoding="utf-8"))
            self._arrays = arrays_path
            if old:
                old.unlink()
        except OSError as error:
            self._drop(arrays_path)
            raise InvalidArgument(
                f"cannot write the record {self.path}: {error.strerror or error}", "a folder with space that can be written"
            ) from error
        return self.path

    def _drop(self, arrays: Path | None) -> None:
        """Remove arrays that no record names."""
        named = self.path.read_bytes() if self.path.exists() else b""
        if arrays is not None and arrays.name.encode() not in named:
            arrays.unlink(missing_ok=True)


def save(record: Record, folder: Path) -> Path:
    """Write a record to a new file, named for its time and network; see `RecordWriter`."""
    return RecordWriter(folder, record).path


def load(path: Path) -> Record:
    """Read a record, with its samples from the HDF5 file beside it.

    Raises:
        InvalidRecord: Not a record, of another schema version, truncated, or too large; or its HDF5 file is missing or
            was altered.
    """
    path = Path(path)
    content = _read_json(path)
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        advice = (
            "read it with the version of deep_bench that wrote it" if isinstance(version, int) else "name a record's file"
        )
        raise InvalidRecord(f"{path} has schema version {version!r}", f"{SCHEMA_VERSION}", advice)
    try:
        record = Record.model_validate(content)
    except ValidationError as error:
        raise _refused(str(path), error, "a record as docs/record.schema.json describes it") from error
    if record.arrays is not None:
        _fill(record, path, record.arrays)
    for place, samples in _sets(record).items():
        least = 0 if samples.quantity.startswith(MOMENTS) else 1
        for number, block in enumerate(samples.blocks):
            where = f"{path}: {place.replace('/', '.')}.blocks.{number}"
            lengths = {column: len(v) for column in _COLUMNS if (v := getattr(block, column)) is not None}
            if set(lengths.values()) != {block.n}:
                raise InvalidRecord(f"{where} has {lengths}", f"{block.n} of each")
            for column, values, smallest in (("ns", block.ns, least), ("cpu_ns", block.cpu_ns, 0)):
                try:
                    nanoseconds(np.asarray(() if values is None else values, np.int64), smallest)
                except ValueError as error:
                    raise InvalidRecord(f"{where}.{column}: {error}", "the times of calls, in nanoseconds") from error
    for i, system in enumerate(record.systems):
        for k, trial in enumerate(system.trials):
            for j, metric in enumerate(trial.metrics):
                try:
                    MetricRecord.model_validate(metric)
                except ValidationError as error:
                    raise _refused(f"{path}: systems.{i}.trials.{k}.metrics.{j}", error, "what a metric found") from error
    record.arrays = None
    return record


def _new_path(folder: Path, record: Record) -> Path:
    if not folder.is_dir():
        raise InvalidArgument(
            f"no folder {str(folder)!r} for the record", "an existing folder", "create it, or name another"
        )
    of = record.network or record.suite
    name = re.sub(r"[^\w.-]+", "_", of.name if of else "run")[:60]
    return folder / f"{record.created.astimezone(UTC):%Y-%m-%dT%H-%M-%S}_{name}_{secrets.token_hex(4)}.json"


def _split(record: Record) -> tuple[dict[str, Any], dict[str, SampleSet]]:
    """The record as JSON data, and the sample sets that go to HDF5, taken out of it."""
    sets = _sets(record)
    if sum(block.n for s in sets.values() for block in s.blocks) <= INLINE_SAMPLES:
        return record.model_dump(mode="json"), {}
    columns = {"samples": {"__all__": {"blocks": {"__all__": set(_COLUMNS)}}}}
    outside: Any = {"systems": {"__all__": {**columns, "trials": {"__all__": columns}}}}
    content = record.model_dump(mode="json", exclude=outside)
    for name, samples in sets.items():
        written: Any = content
        for part in name.split("/"):
            written = written[int(part) if part.isdecimal() else part]
        written["dataset"] = name
        for block, whole in zip(written["blocks"], samples.blocks, strict=True):
            block |= {column: [] for column in _COLUMNS if getattr(whole, column) is not None}
    return content, sets


def _json(content: dict[str, Any]) -> str:
    text = json.dumps(content, indent=1, allow_nan=False)
    numbers = r"(?:-?\d+(?:\.\d+)?(?:e[-+]?\d+)?|true|false)"
    return re.sub(rf"\[\n\s*({numbers}(?:,\n\s*{numbers})*)\n\s*\]", lambda m: f"[{' '.join(m[1].split())}]", text) + "\n"


def fill_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name to a new HDF5 file.

    Raises:
        OSError: There is no space, a quota or limit is reached, …
    """
    with FileForHdf5(path) as plain, h5py.File(plain, "w") as file:
        for name, values in columns.items():
            packed = {"compression": "gzip", "shuffle": True} if len(values) else {}
            file.create_dataset(name, data=values, **packed)
            plain.check()


def read_columns(path: Path, columns: Mapping[str, tuple[type, int | None]], contents: str) -> dict[str, np.ndarray]:
    """Rows of whole numbers, or of truth values, that `fill_columns` wrote.

    Args:
        path: The file, of which nothing but these is read.
        columns: Name to NumPy type and length; any length where that is ``None``.
        contents: What they are, for messages.

    Raises:
        InvalidRecord: The file cannot be read; it does not hold such a column itself, or one of another type or length, or
            one that is too large.
    """
    arrays: dict[str, np.ndarray] = {}
    try:
        with h5py.File(path, "r") as file:
            for name, (dtype, length) in columns.items():
                places = accumulate(name.split("/"), "{}/{}".format)  # no link on the way may lead to other files
                if not all(isinstance(file.get(place, getlink=True), h5py.HardLink) for place in places):
                    raise KeyError(f"{name} is not in this file")
                stored = file[name]
                if stored.is_virtual or stored.external:
                    raise KeyError(f"{name} is not in this file")
                if stored.ndim != 1 or (length is not None and stored.shape != (length,)):
                    raise InvalidRecord(f"{path}: {name} holds {stored.shape} samples", f"({length},)")
                if stored.dtype.kind not in ("b" if dtype is np.bool_ else "iu"):
                    raise InvalidRecord(f"{path}: {name} holds {stored.dtype}", dtype.__name__)
                if stored.size * 8 > _LARGEST_ARRAYS_BYTES:
                    raise InvalidRecord(f"{path}: {name} has {stored.size} entries", "fewer than fit into 4 GiB")
                values = stored[()]
                arrays[name] = values.astype(dtype)
                if not np.can_cast(values.dtype, dtype) and not np.array_equal(values, arrays[name]):
                    raise InvalidRecord(f"{path}: {name} holds numbers that are too large", dtype.__name__)
    except (OSError, KeyError, AttributeError) as error:  # a group has none of a column's attributes
        raise InvalidRecord(f"{path} does not hold {contents}: {error}") from error
    return arrays


def replace(target: Path, fill: Callable[[Path], Any]) -> None:
    """Write a file beside ``target``, see it safely on the disk, and rename it."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        fill(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def written(target: Path, fill: Callable[[Path], Any]) -> Path:
    """What `replace` does, and the file.

    Raises:
        InvalidArgument: It cannot be written.
    """
    try:
        replace(target, fill)
    except OSError as error:
        raise InvalidArgument(
            f"cannot write {target}: {error.strerror or error}", "a folder with space that can be written"
        ) from error
    return target


def read_model(path: Path, kind: type[M], what: str) -> M:
    """A model that was written as one JSON file.

    Args:
        path: The file.
        kind: The model's class.
        what: What the file should be, for messages.

    Raises:
        InvalidRecord: It cannot be read, is too large, or is no such model.
    """
    try:
        size = path.stat().st_size
        if size > _LARGEST_JSON_BYTES:
            raise InvalidRecord(f"{path} has {size} bytes", f"at most {_LARGEST_JSON_BYTES}")
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", what) from error
    except ValidationError as error:
        raise _refused(str(path), error, what) from error


def file_beside(path: Path, arrays: ArrayFile, what: str, most_bytes: int | None = None) -> Path:
    """The file of arrays beside a record, as it was written.

    Args:
        path: The record's file.
        arrays: What the record says of it.
        what: What to call it, for messages.
        most_bytes: A larger one is refused; none by default.

    Raises:
        InvalidRecord: It is missing, too large, or was altered.
    """
    beside = path.with_name(arrays.name)
    if not beside.is_file():
        raise InvalidRecord(f"{path}: {what} {arrays.name} is missing", advice="keep both files in one folder")
    if most_bytes is not None and beside.stat().st_size > most_bytes:
        raise InvalidRecord(f"{beside} has {beside.stat().st_size} bytes", f"at most {most_bytes}")
    if digest(beside) != arrays.sha256:
        raise InvalidRecord(f"{beside} was altered", f"SHA-256 {arrays.sha256}", "restore it from a copy")
    return beside


def arrays_beside(path: Path) -> Path | None:
    """The file of arrays that a record that is about to be replaced has."""
    if not path.exists():
        return None
    arrays = json.loads(path.read_text(encoding="utf-8")).get("arrays")
    return path.with_name(arrays["name"]) if arrays else None


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > _LARGEST_JSON_BYTES:
            raise InvalidRecord(f"{path} has {size} bytes", f"at most {_LARGEST_JSON_BYTES}", "name a record's file")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", "a record's JSON file") from error
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"{path} is not JSON, or truncated: {error}", "a record's JSON file") from error
    if not isinstance(content, dict):
        raise InvalidRecord(f"{path} holds no record", "a record's JSON file")
    return content


def _fill(record: Record, path: Path, arrays: ArrayFile) -> None:
    """Read the samples that lie in HDF5 into the record's blocks."""
    beside = file_beside(path, arrays, "its samples' file", _LARGEST_ARRAYS_BYTES)
    holders = {
        f"{samples.dataset}/{column}": [block for block in samples.blocks if getattr(block, column) is not None]
        for samples in _sets(record).values()
        if samples.dataset is not None
        for column in _COLUMNS
    }
    lengths = {name: (_COLUMNS[name.rpartition("/")[2]], sum(b.n for b in blocks)) for name, blocks in holders.items()}
    for name, values in read_columns(beside, lengths, f"the samples of {path.name}").items():
        blocks = holders[name]
        for block, end in zip(blocks, np.cumsum([block.n for block in blocks]), strict=True):
            setattr(block, name.rpartition("/")[2], values[end - block.n : end])
    for samples in _sets(record).values():
        samples.dataset = None


def _refused(where: str, error: ValidationError, expected: str) -> InvalidRecord:
    """The first of what is wrong, with its place."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return InvalidRecord(": ".join(filter(None, (where, place, first["msg"]))), expected)


def _sets(record: Record) -> dict[str, SampleSet]:
    """All samples of a record, by their place in it."""
    sets: dict[str, SampleSet] = {}
    for i, system in enumerate(record.systems):
        holders = [(f"systems/{i}", system.samples)]
        holders += [(f"systems/{i}/trials/{k}", trial.samples) for k, trial in enumerate(system.trials)]
        sets |= {f"{place}/samples/{j}": s for place, samples in holders for j, s in enumerate(samples)}
    return sets


class FileForHdf5:
    """A new file as h5py takes one that is not its own; an error of the system is raised by `check`, and at the end.

    HDF5 cannot close a file that it cannot write, and crashes at the end of the process. So it is never told: what it writes
    after an error is held in memory until the block ends.

    Args:
        path: The file; what it holds is lost.

    Raises:
        OSError: At the end of the block: there is no space, a quota or limit is reached, …

    Example:
        >>> import h5py, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with FileForHdf5(Path(folder, "a.h5")) as plain, h5py.File(plain, "w") as file:
        ...         file["x"] = [1, 2]
        ...     h5py.File(Path(folder, "a.h5"))["x"][()].tolist()
        [1, 2]
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        self._at = self._size = 0
        self._failure: BaseException | None = None
        self._held: list[tuple[int, bytes]] = []

    def __enter__(self) -> FileForHdf5:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        del kind, trace
        os.close(self._file)
        if self._failure is not None and self._failure is not error:
            raise self._failure from error

    def check(self) -> None:
        """Raise what has failed, if something has."""
        if self._failure is not None:
            raise self._failure

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        """Go to a place."""
        self._at = {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._size}[whence] + offset
        return self._at

    def tell(self) -> int:
        """The place."""
        return self._at

    def read(self, size: int) -> bytes:
        """What was written here."""
        buffer = bytearray(min(size, self._size - self._at))
        self.readinto(buffer)
        return bytes(buffer)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with what was written here, zeros where nothing was."""
        view, at = memoryview(buffer).cast("B"), self._at
        count = 0
        try:
            count = os.preadv(self._file, [view], at)
        except BaseException as failure:  # Ctrl-C too: nothing may be raised amid HDF5
            self._failure = self._failure or failure
        view[count:] = bytes(len(view) - count)
        for begin, content in self._held:
            first, last = max(begin, at), min(begin + len(content), at + len(view))
            if first < last:
                view[first - at : last - at] = content[first - begin : last - begin]
        self._at += len(view)
        return len(view)

    def write(self, content: Any) -> int:
        """Write all of it."""
        remaining, at = memoryview(content).cast("B"), self._at
        self._at += len(remaining)
        self._size = max(self._size, self._at)
        size = len(remaining)
        try:
            while len(remaining) and self._failure is None:
                done = os.pwrite(self._file, remaining, at)
                remaining, at = remaining[done:], at + done
        except BaseException as failure:
            self._failure = failure
        if len(remaining):
            self._held.append((at, bytes(remaining)))
        return size

    def truncate(self, size: int | None = None) -> int:
        """Make the file so long."""
        self._size = self._at if size is None else size
        try:
            if self._failure is None:
                os.ftruncate(self._file, self._size)
        except BaseException as failure:
            self._failure = failure
        return self._size

    def flush(self) -> None:
        """Nothing is held back that could be written."""
