"""One record, found by a part of its name."""

from __future__ import annotations

from pathlib import Path

from deep_bench.errors import InvalidArgument, InvalidRecord, on_a_line
from deep_bench.results.reading.files import find, kind_of
from deep_bench.results.reading.kinds import NO_RESULTS

_SHOWN = 10


def chosen(path: Path) -> Path:
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
    files = [file for file, fault in find(folder) if not fault]
    named = [file for file in files if part in file.name and _is_record(file)]
    matches = named or [file for file in files if part in file.relative_to(folder).as_posix() and _is_record(file)]
    if len(matches) == 1:
        return matches[0]
    description = f"records in {on_a_line(folder)}" + (f" with {part!r} in their name" if part else "")
    listed = ", ".join(on_a_line(file.relative_to(folder)) for file in matches[:_SHOWN])
    suffix = f", and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
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
