"""Why a worker's process ended, as far as can be told from outside."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

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
