"""A file that only grows, one JSON line after the other: what a run that is killed leaves of its timeline."""

from __future__ import annotations

import base64
import errno
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.training.timeline.codes import Name

Columns = tuple[NDArray[np.int32], NDArray[np.int64]]


@dataclass
class Kept:
    """What a journal holds: all names, each thread's name and ident, and its blocks of codes and values in order."""

    names: list[Name] = field(default_factory=list)
    threads: dict[int, tuple[str, int]] = field(default_factory=dict)
    blocks: dict[int, list[Columns]] = field(default_factory=dict)


class Journal:
    """Appends blocks of events; each is handed to the operating system whole before `write` returns.

    Args:
        path: A new file.

    Raises:
        InvalidArgument: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open(path, "xb", buffering=0)  # noqa: SIM115 (open for as long as the timeline is)
        except OSError as error:
            raise InvalidArgument(
                f"cannot write {path}: {error.strerror}", "a new file in a folder that can be written"
            ) from error

    def write(
        self,
        names: Sequence[Name],
        thread: int,
        thread_name: str,
        ident: int,
        codes: NDArray[np.int32],
        values: NDArray[np.int64],
    ) -> None:
        """Append the events of one thread, with all names known so far.

        Raises:
            OSError: They could not be written; then nothing may be written after them.
        """
        line = {
            "names": names,
            "thread": thread,
            "thread_name": thread_name,
            "ident": ident,
            "codes": _packed(codes),
            "values": _packed(values),
        }
        data = json.dumps(line).encode() + b"\n"
        if self._file.write(data) != len(data):
            raise OSError(errno.ENOSPC, "only a part of the line could be written")

    def read(self) -> Kept:
        """All that was written so far."""
        return read_journal(self.path)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def remove(self) -> None:
        """Close the file and delete it."""
        self._file.close()
        self.path.unlink()


def read_journal(path: Path) -> Kept:
    """What a journal holds; a last line that was cut off when its process was killed does not count.

    Raises:
        InvalidRecord: The file is missing, or damaged elsewhere than at its end.
    """
    journal = Kept()
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith("\n"):
                    break
                try:
                    _take(journal, json.loads(line))
                except (ValueError, KeyError, TypeError, zlib.error) as error:
                    raise InvalidRecord(
                        f"{path}, line {number}, is damaged: {error}", advice="restore it from a copy"
                    ) from error
    except OSError as error:
        raise InvalidRecord(f"cannot read {path}: {error.strerror}", "the stamps of a run that did not finish") from error
    return journal


def _take(journal: Kept, line: dict[str, Any]) -> None:
    journal.names = [Name(*entry) for entry in line["names"]]
    thread = line["thread"]
    journal.threads[thread] = line["thread_name"], line["ident"]
    codes, values = _unpacked(line["codes"], np.dtype(np.int32)), _unpacked(line["values"], np.dtype(np.int64))
    if len(codes) != len(values):
        raise ValueError(f"{len(codes)} codes with {len(values)} values")
    journal.blocks.setdefault(thread, []).append((codes, values))


def _packed(array: np.ndarray) -> str:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(little.tobytes(), level=1)).decode("ascii")


def _unpacked(text: str, dtype: np.dtype) -> np.ndarray:
    array = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype.newbyteorder("<"))
    return array.astype(dtype)
