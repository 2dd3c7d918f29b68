"""A file that a process prints to, kept short while it grows: its begin and its end."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

MOST_BYTES = 4 * 2**20
"""A longer log is cut."""

_KEPT_BYTES = 2**20
"""What is kept of its begin, and of its end."""


class CappedLog:
    """A log file that another process appends to, and that this one cuts whenever it looks and finds it too long.

    The other process writes to a file, not to a pipe: whatever it prints, it never waits for this one. What it prints
    between the reading of the end and the cutting is lost. A file that is no longer there, or a terminal, is left alone.

    Args:
        path: The file; it is made if it is not there.

    Raises:
        OSError: It cannot be opened.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, CappedLog(Path(folder) / "log") as log:
        ...     written = log.file.write(b"first" + bytes(2 * MOST_BYTES) + b"last")
        ...     log.trim(), log.path.stat().st_size < MOST_BYTES
        (True, True)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = open(path, "a+b", buffering=0)  # noqa: SIM115 - closed by `close`; appending, so all writers go to the end

    def trim(self) -> bool:
        """Cut the middle out if the log is too long, and say whether it was."""
        if self.file.closed:
            return False
        size = os.fstat(self.file.fileno()).st_size
        if size <= MOST_BYTES:
            return False
        tail = os.pread(self.file.fileno(), _KEPT_BYTES, size - _KEPT_BYTES)
        self.file.truncate(_KEPT_BYTES)
        self.file.write(f"\n[… {size - 2 * _KEPT_BYTES} bytes of this log were left out …]\n".encode() + tail)
        return True

    def close(self) -> None:
        """Cut it a last time, and let go of it."""
        self.trim()
        self.file.close()

    def __enter__(self) -> CappedLog:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()
