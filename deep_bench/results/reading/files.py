"""Which files may hold records: found by what is in them."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from deep_bench.errors import InvalidArgument, InvalidRecord, on_a_line
from deep_bench.results.reading.kinds import MEASUREMENT

LARGEST_BYTES = 256 * 2**20
"""No record is larger: long arrays are in a file beside it."""

_HEAD_BYTES = 4096
_BEGIN = re.compile(rb'\s*\{\s*"schema_version":\s*\d+\s*,\s*("kind":\s*"([\w.-]{1,60})"|"created")')
"""How records begin, as they are written; one that was written anew by something else is read as a whole."""


_OF_LOADGEN = re.compile(r"mlperf_log_\w{1,40}\.json")
"""Logs beside the record of a run under LoadGen, cut short where the run was ended."""


def find(path: Path) -> Iterator[tuple[Path, str]]:
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
            if not name.startswith("."):
                yield from _within(path, file)
    yield from ((Path(error.filename), f"cannot be read: {error.strerror}") for error in failures)


def _within(root: Path, file: Path) -> Iterator[tuple[Path, str]]:
    """A file of a folder. A link within the folder leads to what is found anyhow; one out of it is told."""
    if file.is_symlink():
        if not _leads_within(root, file) and (file.suffix == ".json" or file.is_dir()):
            yield file, "a link that leads out of the folder is not followed: name what it leads to"
    elif stat.S_ISREG(file.lstat().st_mode):
        yield file, ""


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
    if match := _BEGIN.match(head):
        return match[2].decode() if match[2] else MEASUREMENT
    named = file.suffix.lower() == ".json"
    if not head.lstrip().startswith(b"{") and not named:
        return None
    return _kind_inside(file, named)


def _kind_inside(file: Path, named: bool) -> str | None:
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
