"""What the threads and the children of this process compute."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping

import psutil


def thread_times() -> dict[int, int]:
    """Number of each other thread of this process to the CPU time that it has had, in nanoseconds; empty where not Linux."""
    if sys.platform != "linux":
        return {}
    current_thread = threading.get_native_id()
    times = {}
    for entry in os.listdir("/proc/self/task"):
        number = int(entry)
        if number == current_thread:
            continue
        try:
            times[number] = time.clock_gettime_ns((~number << 3) | 6)  # the CPU clock of one thread, as the kernel names it
        except OSError:
            continue  # it has ended meanwhile
    return times


def child_times() -> dict[int, int]:
    """Number of each child process to the CPU time that it has had, in nanoseconds."""
    times = {}
    for child in psutil.Process().children(recursive=True):
        try:
            spent = child.cpu_times()
        except psutil.Error:
            continue  # it has ended meanwhile
        times[child.pid] = int((spent.user + spent.system) * 1e9)
    return times


def running_children() -> set[int]:
    """The numbers of the child processes that are computing at this moment."""
    pids = set()
    for child in psutil.Process().children(recursive=True):
        try:
            if child.status() == psutil.STATUS_RUNNING:
                pids.add(child.pid)
        except psutil.Error:
            continue  # it has ended meanwhile
    return pids


def python_threads() -> dict[int, str]:
    """Number of each thread that Python code has started to its name."""
    return {t.native_id: t.name for t in threading.enumerate() if t.native_id is not None}


def rates(before: Mapping[int, int], after: Mapping[int, int], elapsed_ns: int) -> dict[int, float]:
    """The share of the time between two looks that each was busy.

    Example:
        >>> rates({1: 50}, {1: 75, 2: 100}, 100)
        {1: 0.25, 2: 1.0}
    """
    return {number: (ns - before.get(number, 0)) / elapsed_ns for number, ns in after.items()}


def busiest(
    before: Mapping[int, int], after: Mapping[int, int], idle: Mapping[int, float], elapsed_ns: int
) -> tuple[int, int]:
    """Which had the most CPU time between two looks, and how much in nanoseconds; ``(0, 0)`` if none had any.

    Args:
        before, after: The two looks.
        idle: The share of the time that each is busy anyway, of which twice as much is taken off.
        elapsed_ns: The time between the looks.

    Example:
        >>> busiest({1: 5, 2: 5}, {1: 9, 2: 5, 3: 1}, {}, 10), busiest({1: 5}, {1: 9}, {1: 0.4}, 10)
        ((1, 4), (0, 0))
    """
    spent = {n: int(ns - before.get(n, 0) - 2 * idle.get(n, 0.0) * elapsed_ns) for n, ns in after.items()}
    number = max(spent, key=lambda n: spent[n], default=0)
    return (number, spent[number]) if spent and spent[number] > 0 else (0, 0)
