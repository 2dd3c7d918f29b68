"""Records of all kinds as one data set: read, shown, exported, compared, reported.

What is imported on first use only is listed in a table, so that importing this package stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.results.gathering import Refused as Refused
    from deep_bench.results.gathering import Results as Results
    from deep_bench.results.gathering import gather as gather
    from deep_bench.results.result import Figure as Figure
    from deep_bench.results.result import Result as Result

_LAZY = {
    name: f"deep_bench.results.{module}"
    for module, names in {"gathering": "Refused Results gather", "result": "Figure Result"}.items()
    for name in names.split()
}

__all__ = ["Figure", "Refused", "Result", "Results", "gather"]

__getattr__, __dir__ = lazy(__name__, _LAZY)
