"""Results of two sides compared: what changed, how sure that is, and whether they may be compared at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_bench.lazy import lazy

if TYPE_CHECKING:
    from deep_bench.results.comparing.comparison import Change as Change
    from deep_bench.results.comparing.comparison import Comparison as Comparison
    from deep_bench.results.comparing.comparisons import Comparisons as Comparisons
    from deep_bench.results.comparing.estimate import Estimate as Estimate
    from deep_bench.results.comparing.failing import Condition as Condition
    from deep_bench.results.comparing.failing import failures as failures
    from deep_bench.results.comparing.failing import unjudged as unjudged
    from deep_bench.results.comparing.sides import compare as compare
    from deep_bench.results.comparing.sides import compare_within as compare_within

_HERE = "deep_bench.results.comparing"
_PLACES = {
    "comparison": "Change Comparison",
    "comparisons": "Comparisons",
    "estimate": "Estimate",
    "failing": "Condition failures unjudged",
    "sides": "compare compare_within",
}
_LAZY = {name: f"{_HERE}.{module}" for module, names in _PLACES.items() for name in names.split()}

__all__ = [
    "Change", "Comparison", "Comparisons", "Condition", "Estimate", "compare", "compare_within", "failures", "unjudged",
]  # fmt: skip

__getattr__, __dir__ = lazy(__name__, _LAZY)
