"""``FileForHdf5``: a file that HDF5 writes, whose failures are Python's."""

from __future__ import annotations

import os
from io import SEEK_CUR, SEEK_END, SEEK_SET
from pathlib import Path
from types import TracebackType
from typing import Any


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
