"""A folder that one run writes into at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import time
import warnings
from contextlib import suppress
from io import FileIO
from pathlib import Path

from deep_bench.errors import InvalidArgument, printable

FILE = ".lock"
"""The file that is locked. It is gone when its run ends; after a run that was killed it stays, and is nobody's."""

_TAKEN = (errno.EAGAIN, errno.EACCES)
"""What the system answers where somebody has it; anything else means that there are no locks."""

_LONGEST = 300


class FolderLock:
    """The right to write into a folder. The system takes it back when the process ends, however it does.

    Args:
        folder: The folder, which must exist when it is taken.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mine = FolderLock(folder)
        ...     mine.take()
        ...     try:
        ...         FolderLock(folder).take()
        ...     except InvalidArgument as error:
        ...         print("is in use by another run: process" in str(error))
        ...     mine.give_back()
        ...     FolderLock(folder).take()
        True
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._file: FileIO | None = None

    def take(self) -> None:
        """Take it, if this has not taken it already. Where the file system has no locks, that is a warning.

        Raises:
            InvalidArgument: Another run has it, which is named; or the file cannot be written.
        """
        if self._file is not None:
            return
        file = self._opened()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            with file:
                if error.errno in _TAKEN:
                    raise self._in_use(file) from error
            self._path.unlink(missing_ok=True)
            note = f"{self._folder} is on a file system without locks ({error.strerror}): see that no other run writes there"
            warnings.warn(note, RuntimeWarning, stacklevel=2)
            return
        if not self._is_there(file):  # another run has just ended, and taken its file away
            file.close()
            self.take()
            return
        self._file = file
        holder = f"process {os.getpid()} on {platform.node()}, since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
        with suppress(OSError):  # a full disk: others are then refused without a name
            file.truncate(0)
            file.write(holder.encode())

    def give_back(self) -> None:
        """Let others have it."""
        if self._file is not None:
            if self._is_there(self._file):
                self._path.unlink()
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.give_back()

    @property
    def _path(self) -> Path:
        return self._folder / FILE

    def _opened(self) -> FileIO:
        try:  # no link is followed, which would have another file emptied
            return FileIO(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
        except OSError as error:
            raise InvalidArgument(
                f"cannot write {self._path}: {error.strerror}", "a folder with space that can be written"
            ) from error

    def _is_there(self, file: FileIO) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False

    def _in_use(self, file: FileIO) -> InvalidArgument:
        file.seek(0)
        text = file.read(_LONGEST).decode(errors="replace").strip()
        holder = printable(text) or "a process that does not say which"
        return InvalidArgument(
            f"{self._folder} is in use by another run: {holder}",
            "one run at a time, or files of both would be mixed",
            "wait until it has ended, end it, or name another folder",
        )
