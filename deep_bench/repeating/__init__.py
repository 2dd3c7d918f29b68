"""What others need to repeat a run: bundles, repetition, and badges.

What is imported on first use only is listed in a table, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.repeating.again import repeat as repeat
    from deep_bench.repeating.bundling import bundle as bundle
    from deep_bench.repeating.evidence import Claims as Claims
    from deep_bench.repeating.manifest import Manifest as Manifest
    from deep_bench.repeating.repetition import Repetition as Repetition
    from deep_bench.repeating.unpacking import read_manifest as read_manifest
    from deep_bench.repeating.unpacking import unpack as unpack

_LAZY = {
    "Claims": "deep_bench.repeating.evidence",
    "Manifest": "deep_bench.repeating.manifest",
    "Repetition": "deep_bench.repeating.repetition",
    "bundle": "deep_bench.repeating.bundling",
    "read_manifest": "deep_bench.repeating.unpacking",
    "repeat": "deep_bench.repeating.again",
    "unpack": "deep_bench.repeating.unpacking",
}

__all__ = ["Claims", "Manifest", "Repetition", "bundle", "read_manifest", "repeat", "unpack"]

__getattr__, __dir__ = lazy(__name__, _LAZY)
