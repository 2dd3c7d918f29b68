"""What is known of a process: what it printed, the memory it had, and why it ended, as far as can be told from outside.

What it prints goes to a file that is kept short while it grows. This file also runs in lean workers (see
`deep_bench.environments`).
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

MEMORY_WORDS = ("out of memory", "bad_alloc", "allocate memory", "oom when allocating", "unable to allocate")
"""What frameworks write when an allocation fails, in lower case."""


def oom_kills() -> int | None:
    """How many processes the kernel has killed for want of memory: in this cgroup if that counts them, else at all.

    None where nothing counts them.
    """
    counts = [line.split()[1] for line in _counters() if line.startswith("oom_kill ")]
    return int(counts[0]) if counts else None


def cause(returncode: int, oom_kills_before: int | None) -> str:
    """What happened to a process, in words.

    Args:
        returncode: As `subprocess.Popen` gives it: a negative signal number, or the exit status.
        oom_kills_before: `oom_kills` from before the process was started.
    """
    if returncode >= 0:
        return f"ended with exit status {returncode}"
    name = signal.Signals(-returncode).name
    if name != "SIGKILL":
        return (
            f"crashed ({name})" if name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT") else f"was ended by {name}"
        )
    kill_count = oom_kills()
    if kill_count is None or oom_kills_before is None:
        return f"was killed ({name}), perhaps because it was out of memory"
    return f"ran out of memory: the kernel killed it ({name})" if kill_count > oom_kills_before else f"was killed ({name})"


def _counters() -> Iterator[str]:
    for file in (*_cgroup_files(), Path("/proc/vmstat")):
        if file.is_file():
            yield from file.read_text(encoding="ascii").splitlines()


def _cgroup_files() -> Iterator[Path]:
    cgroup_file = Path("/proc/self/cgroup")
    for line in cgroup_file.read_text(encoding="utf-8").splitlines() if cgroup_file.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield Path(f"/sys/fs/cgroup{path}/memory.events")
        elif "memory" in controllers.split(","):
            yield Path(f"/sys/fs/cgroup/memory{path}/memory.oom_control")


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


def peak_memory_bytes() -> int:
    """The most memory that this process has had resident so far, in bytes.

    From ``/proc`` where there is one: on Linux ``ru_maxrss`` starts at the parent's size.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
