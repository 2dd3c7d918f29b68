"""Reports of results: a page, Markdown or a PDF that can stand beside a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.results.report.contents import Report as Report
    from deep_bench.results.report.contents import report as report
    from deep_bench.results.report.writing import write as write

_HERE = "deep_bench.results.report"
_LAZY = {"Report": f"{_HERE}.contents", "report": f"{_HERE}.contents", "write": f"{_HERE}.writing"}

__all__ = ["Report", "report", "write"]

__getattr__, __dir__ = lazy(__name__, _LAZY)
