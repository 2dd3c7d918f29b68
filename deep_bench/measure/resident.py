"""How much memory this process holds, and the most that it held since a moment."""

from __future__ import annotations

import psutil

from deep_bench.measure.system import peak_memory_bytes


def resident_bytes() -> int:
    """The memory of this process that is in RAM now."""
    return int(psutil.Process().memory_info().rss)


def forget_peak() -> bool:
    """Let the peak of this process's memory begin anew, at what it holds now; whether the system allows that.

    Source:
        Linux, proc(5): writing 5 to ``/proc/self/clear_refs`` resets the peak resident set size.
    """
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return False
    return True


__all__ = ["forget_peak", "peak_memory_bytes", "resident_bytes"]
