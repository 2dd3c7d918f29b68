"""Hardware counters of this process by ``perf_event_open``, where the system permits it; else why not."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deep_bench.errors import InvalidArgument

_HARDWARE, _SOFTWARE = 0, 1
EVENTS = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "cache-references": (_HARDWARE, 2),
    "cache-misses": (_HARDWARE, 3),
    "branches": (_HARDWARE, 4),
    "branch-misses": (_HARDWARE, 5),
    "task-clock": (_SOFTWARE, 1),
    "page-faults": (_SOFTWARE, 2),
}
"""Name, as ``perf`` spells it, to type and number. Cache misses are the last level's; the task clock is in nanoseconds.

Source: Linux, include/uapi/linux/perf_event.h; perf_event_open(2).
"""

DEFAULT = ("instructions", "cycles", "cache-misses", "branch-misses")

_SYSCALLS = {"x86_64": 298, "aarch64": 241, "ppc64le": 319, "s390x": 331, "riscv64": 241}
_ENABLE, _DISABLE, _GROUP = 0x2400, 0x2401, 1
_READ_FORMAT = 1 | 2 | 8  # time enabled, time running, group
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class _Attributes(ctypes.Structure):
    """``struct perf_event_attr``, first published form: the kernel takes what is missing for zero."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("bp_addr", ctypes.c_uint64),
    )


class Counters:
    """What the processor counted in this process while a block ran, in user mode.

    Events are read as one group, so that all are counted over the same moments. Where the processor has too few counters the
    kernel takes turns, and the counts are scaled by the time that they ran for. All threads that there are when the block
    begins are counted; those that it starts are not.

    Args:
        events: Which, of `EVENTS`.

    Attributes:
        values: Event to count; only those that are available.
        reasons: Event to why it is not available.
        running: The share of the time that the counters ran; below 1 the counts are scaled. ``None`` before the end.

    Raises:
        InvalidArgument: No such event.

    Example:
        >>> with Counters(["instructions"]) as counters:
        ...     _ = sum(range(1000))
        >>> set(counters.values) | set(counters.reasons)
        {'instructions'}
    """

    def __init__(self, events: Sequence[str] = DEFAULT) -> None:
        for event in events:
            if event not in EVENTS:
                raise InvalidArgument(f"the event {event!r}", f"one of {', '.join(EVENTS)}")
        self.events = tuple(dict.fromkeys(events))
        self.values: dict[str, float] = {}
        self.reasons: dict[str, str] = {}
        self.running: float | None = None
        self._groups: list[list[int]] = []
        self._open: tuple[str, ...] = ()

    def start(self) -> None:
        """Open the counters and let them count from zero."""
        self.close()
        self.values, self.reasons, self.running = {}, {}, None
        for event in self.events:
            try:
                os.close(_open(EVENTS[event], 0, -1))
            except OSError as error:
                self.reasons[event] = f"not available: {why_not(event, error)}"
        self._open = tuple(event for event in self.events if event not in self.reasons)
        if not self._open:
            return
        try:
            for thread in _threads():
                with suppress(ProcessLookupError):  # it has ended since
                    self._groups.append(self._group(thread))
        except OSError as error:
            self.close()
            self.reasons |= {event: f"not available: {why_not(event, error)}" for event in self._open}
            self._open = ()
            return
        for group in self._groups:
            _control(group[0], _ENABLE)

    def stop(self) -> None:
        """Let them stand, and read them."""
        for group in self._groups:
            _control(group[0], _DISABLE)
        totals, enabled_ns, running_ns = [0.0] * len(self._open), 0, 0
        for group in self._groups:
            _, enabled, running, *counts = struct.unpack(f"{3 + len(group)}Q", os.read(group[0], 8 * (3 + len(group))))
            enabled_ns, running_ns = enabled_ns + enabled, running_ns + running
            scale = enabled / running if running else 0.0
            totals = [total + count * scale for total, count in zip(totals, counts, strict=True)]
        self.close()
        if self._open and enabled_ns and not running_ns:
            reason = "not available: the processor had not enough free counters at any time; ask for fewer events"
            self.reasons |= dict.fromkeys(self._open, reason)
        elif self._open:
            self.values = dict(zip(self._open, totals, strict=True))
            self.running = running_ns / enabled_ns if enabled_ns else 1.0

    def close(self) -> None:
        """Give the counters back; harmless when there are none."""
        for group in self._groups:
            for fd in reversed(group):
                os.close(fd)
        self._groups = []

    def __enter__(self) -> Counters:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _group(self, thread: int) -> list[int]:
        """The counters of one thread; the first leads the others."""
        group: list[int] = []
        try:
            for event in self._open:
                group.append(_open(EVENTS[event], thread, group[0] if group else -1))
        except OSError:
            for fd in group:
                os.close(fd)
            raise
        return group


def why_not(event: str, error: OSError, paranoid: Path = _PARANOID) -> str:
    """Why an event cannot be counted, in words that say what to do.

    Args:
        event: Its name.
        error: What opening it gave.
        paranoid: The file with the kernel's setting.

    Example:
        >>> why_not("cycles", OSError(errno.ENOENT, "No such file or directory"))
        'the processor shows no counter for cycles here (most virtual machines have none)'
    """
    number = error.errno
    if number in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV):
        return f"the processor shows no counter for {event} here (most virtual machines have none)"
    if number in (errno.EACCES, errno.EPERM):
        with suppress(OSError, ValueError):
            level = int(paranoid.read_text(encoding="ascii"))
            if level > 2:
                return f"kernel.perf_event_paranoid is {level}: at most 2 permits it (sysctl kernel.perf_event_paranoid=2)"
        return "the system call perf_event_open is not permitted (containers forbid it by default: seccomp)"
    if number == errno.ENOSYS:
        return str(error.strerror) if error.filename == "platform" else "the kernel has no perf_event_open"
    return f"perf_event_open: {error.strerror}"


def _open(event: tuple[int, int], thread: int, leader: int) -> int:
    """A counter of one thread of this process (0: the calling one) on any CPU; a group's leader waits to be enabled."""
    if sys.platform != "linux" or platform.machine() not in _SYSCALLS:
        raise OSError(
            errno.ENOSYS, f"hardware counters are read on Linux only, not on {sys.platform} {platform.machine()}", "platform"
        )
    kind, number = event
    flags = _EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR | (_DISABLED if leader == -1 else 0)
    attributes = _Attributes(
        type=kind, size=ctypes.sizeof(_Attributes), config=number, read_format=_READ_FORMAT, flags=flags
    )
    library: Any = ctypes.CDLL(None, use_errno=True)
    close_on_exec = 8
    call = ctypes.c_long(_SYSCALLS[platform.machine()])
    fd = library.syscall(call, ctypes.byref(attributes), thread, -1, leader, ctypes.c_ulong(close_on_exec))
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(fd)


def _control(fd: int, request: int) -> None:
    import fcntl

    fcntl.ioctl(fd, request, _GROUP)


def _threads() -> list[int]:
    return [int(task) for task in os.listdir("/proc/self/task")]
