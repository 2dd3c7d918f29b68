"""What can go wrong with native code."""

from __future__ import annotations

from deep_bench.errors import DeepBenchError


class BuildFailed(DeepBenchError):
    """A compiler refused a source; the message holds what it wrote, as it wrote it."""


class KernelFailed(DeepBenchError):
    """A native function reported that it failed."""


class MemoryViolation(DeepBenchError):
    """A native function touched memory that is not its own; ``report`` holds the sanitizer's text."""

    report: str = ""
