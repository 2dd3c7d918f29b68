"""`gather`: files and folders of records as one data set.

Which files may hold records is found by what is in them; the table `record_kinds` names what reads each kind.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidRecord, on_a_line
from deep_bench.registry import Registry
from deep_bench.results.result import Result
from deep_bench.results.results import Refused, Results, _in_utc, path_of

__all__ = ["NO_RESULTS", "record_kinds"]


def gather(*paths: str | Path, progress: Callable[[int, int], object] | None = None) -> Results:
    """Read records of any kind.

    Folders are searched down; what is in a file tells whether it is a record, not its name. A file that cannot be read is in
    `Results.refused` with the reason, and hides no other. What begins with a dot is skipped, and links within a folder are
    not followed.

    Args:
        *paths: Files, and folders.
        progress: Called after each file with how many were looked at, and how many there are.

    Returns:
        A result for each system and problem, the earliest run first.

    Raises:
        InvalidArgument: What is no path, a path that does not exist, or none at all.

    Example:
        >>> import tempfile
        >>> import deep_bench as db
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = db.run("digits-cnn", on=["reference"], budget=0.3, twin=False, progress=False, output=folder)
        ...     found = gather(folder)
        >>> found[0].labels["network"], found[0].labels["system"], found[0].outcome
        ('digits-cnn', 'reference', 'right')
    """
    if not paths:
        raise InvalidArgument("no records", "files or folders of records")
    places = [path_of(path, "a record, or a folder of records") for path in paths]
    named = {path.absolute() for path in places}
    files: dict[Path, tuple[Path, str]] = {}
    for path in places:
        for file, fault in find_records(path):
            files.setdefault(file.absolute() if fault else file.resolve(), (file, fault))
    results: list[Result] = []
    refused: list[Refused] = []
    for number, (file, fault) in enumerate(files.values()):
        try:
            if fault:
                raise InvalidRecord(f"{on_a_line(file)}: {fault}")
            results += _read_settled(file, explicit=file.absolute() in named)
        except Exception as error:  # strangers' files fail in their own ways: the reason is kept, and all others are read
            refused.append(Refused(file, _error_line(error, file)))
        if progress is not None:
            progress(number + 1, len(files))
    return Results(sorted(results, key=lambda r: (r.created, str(r.file))), refused)


def _read_settled(file: Path, explicit: bool) -> Sequence[Result]:
    """What `_read` gives; once more, where the run that writes the record has just replaced it and what lies beside it."""
    before = file.stat().st_ino
    try:
        return _read_file(file, explicit)
    except InvalidRecord:
        if file.stat().st_ino == before:
            raise
    return _read_file(file, explicit)


def _read_file(file: Path, explicit: bool) -> Sequence[Result]:
    kind = kind_of(file)
    if kind is None or kind in NO_RESULTS:
        if explicit:
            raise InvalidRecord(f"{on_a_line(file)} holds no results", "a record that deep_bench wrote")
        return ()
    if kind not in record_kinds:
        raise InvalidRecord(
            f"{on_a_line(file)} is of kind {kind!r}",
            f"one of {', '.join(record_kinds)}",
            "read it with the version that wrote it",
        )
    results: Sequence[Result] = record_kinds[kind](file)
    return [replace(result, created=_in_utc(result.created)) for result in results]


def _error_line(error: Exception, file: Path) -> str:
    """An error in one line, the file's name as it is but for what would end the line."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, DeepBenchError):
        text = f"{error.came}{f' (expected: {error.expected})' if error.expected else ''}"
    for name in (str(file), file.name, str(file.parent)):
        text = text.replace(name, on_a_line(name))
    return " ".join(text.split())


MEASUREMENT = "measurement"
"""The kind of a record that names none: of a network, of operators or of communication."""


record_kinds = Registry(
    "kind of record",
    "deep_bench.record_kinds",
    builtin={
        MEASUREMENT: "deep_bench.results.reading:read_measurement",
        "mlperf": "deep_bench.mlperf.inference.report:read_results",
        "scaling": "deep_bench.results.reading:read_scaling",
        "training": "deep_bench.results.reading:read_training",
    },
)
"""What ``kind`` is in a record's file, to the function that makes results of the file."""


NO_RESULTS = frozenset({"bundle", "machine", "timeline"})
"""Kinds of files that deep_bench writes beside records, and that hold no results."""


LARGEST_BYTES = 256 * 2**20
"""No record is larger: long arrays are in a file beside it."""


_HEAD_BYTES = 4096
_RECORD_BEGIN = re.compile(rb'\s*\{\s*"schema_version":\s*\d+\s*,\s*("kind":\s*"([\w.-]{1,60})"|"created")')
"""How records begin, as they are written; one that was written anew by something else is read as a whole."""


_OF_LOADGEN = re.compile(r"mlperf_log_\w{1,40}\.json")
"""Logs beside the record of a run under LoadGen, cut short where the run was ended."""


def find_records(path: Path) -> Iterator[tuple[Path, str]]:
    """The regular files of a folder and of those within it, in the order of their names, or a file itself.

    What begins with a dot is skipped, links are not followed.

    Args:
        path: A folder, or a file.

    Yields:
        A file, and why it is not read; empty for one that is looked into.

    Raises:
        InvalidArgument: There is nothing of this name, or it is no file or folder.
    """
    if path.is_file():
        yield path, ""
        return
    if not path.is_dir():
        reason = "no file or folder" if path.exists() else "it does not exist"
        raise InvalidArgument(f"{on_a_line(path)}: {reason}", "a record, or a folder of records")
    failures: list[OSError] = []
    for place, folders, files in os.walk(path, onerror=failures.append):
        linked = [name for name in folders if (Path(place) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in linked)
        for name in sorted([*files, *linked]):
            file = Path(place) / name
            if name.startswith("."):
                continue
            if not file.is_symlink():
                if stat.S_ISREG(file.lstat().st_mode):
                    yield file, ""
            elif not _leads_within(path, file) and (file.suffix == ".json" or file.is_dir()):
                # a link within the folder leads to what is found anyhow; one out of it is told
                yield file, "a link that leads out of the folder is not followed: name what it leads to"
    yield from ((Path(error.filename), f"cannot be read: {error.strerror}") for error in failures)


def _leads_within(root: Path, link: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # it leads nowhere, or in a circle
        return False


def kind_of(file: Path) -> str | None:
    """Of which kind a record is; ``None`` for a file that is none.

    Raises:
        InvalidRecord: It cannot be read, or is named as a record is and is damaged.
    """
    if _OF_LOADGEN.fullmatch(file.name):
        return None
    try:
        with open(file, "rb") as opened:
            head = opened.read(_HEAD_BYTES)
    except OSError as error:
        raise InvalidRecord(f"{on_a_line(file)} cannot be read: {error.strerror}") from error
    if match := _RECORD_BEGIN.match(head):
        return match[2].decode() if match[2] else MEASUREMENT
    named = file.suffix.lower() == ".json"
    if not head.lstrip().startswith(b"{") and not named:
        return None
    return _kind_in_text(file, named)


def _kind_in_text(file: Path, named: bool) -> str | None:
    """The kind that the whole content tells."""
    try:
        if (size := file.stat().st_size) > LARGEST_BYTES:
            raise InvalidRecord(f"{on_a_line(file)} has {size} bytes", f"at most {LARGEST_BYTES}")
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise InvalidRecord(f"{on_a_line(file)} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        if not named:
            return None
        raise InvalidRecord(f"{on_a_line(file)} is no JSON, or truncated: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("schema_version"), int):
        return None
    if "kind" in content:
        return str(content["kind"])
    return MEASUREMENT if "environment" in content else None  # profiles and rooflines have none


_MOST_NAMES = 10


def choose_record(path: Path) -> Path:
    """The record that a path means.

    Args:
        path: A record's file; a folder that holds a single record; or a folder and a part of the name of one of its records,
            which no other has: ``results/3cbf11d3``. Where no name has it, it may be a part of the path below the folder.

    Raises:
        InvalidArgument: There is none, or there are several.
    """
    if path.is_file():
        return path
    folder, part = (path, "") if path.is_dir() else (path.parent, path.name)
    if not folder.is_dir():
        raise InvalidArgument(f"{on_a_line(path)} does not exist", "a record, or a folder and a part of a record's name")
    files = [file for file, fault in find_records(folder) if not fault]
    named = [file for file in files if part in file.name and _is_record(file)]
    matches = named or [file for file in files if part in file.relative_to(folder).as_posix() and _is_record(file)]
    if len(matches) == 1:
        return matches[0]
    description = f"records in {on_a_line(folder)}" + (f" with {part!r} in their name" if part else "")
    listed = ", ".join(on_a_line(file.relative_to(folder)) for file in matches[:_MOST_NAMES])
    suffix = f", and {len(matches) - _MOST_NAMES} more" if len(matches) > _MOST_NAMES else ""
    raise InvalidArgument(
        f"{len(matches)} {description}" + (f": {listed}{suffix}" if matches else ""),
        "one",
        f"name more of it, such as {on_a_line(matches[0])}" if matches else "deep-bench ls shows the records of a folder",
    )


def _is_record(file: Path) -> bool:
    """Whether it is one, or is meant to be one: what is wrong with it is told when it is read."""
    try:
        return kind_of(file) not in (None, *NO_RESULTS)
    except InvalidRecord:
        return True
