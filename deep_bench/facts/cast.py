"""Changes of the element type."""

from __future__ import annotations

from collections.abc import Mapping

from deep_bench.facts.row import OperatorFacts, Work
from deep_bench.facts.rules import passing

OPERATORS: Mapping[str, OperatorFacts] = {
    "BitCast": OperatorFacts(cost=Work),
    "Cast": OperatorFacts(
        cost=Work, index_arithmetic=True, passes="each", casts=True, states_type=True, growth=passing, defines_special=True
    ),
    "CastLike": OperatorFacts(cost=Work, index_arithmetic=True, casts=True, states_type=True, growth=passing),
}
"""The rows, by operator."""
