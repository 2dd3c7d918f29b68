"""Results in files that other programs read."""

from deep_bench.results.export.files import FORMATS, export
from deep_bench.results.export.rows import rows, sample_rows

__all__ = ["FORMATS", "export", "rows", "sample_rows"]
