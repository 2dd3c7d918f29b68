"""Branches and loops."""

from __future__ import annotations

from collections.abc import Mapping

from deep_bench.facts.row import OperatorFacts

OPERATORS: Mapping[str, OperatorFacts] = {
    "If": OperatorFacts(settings=(0,)),
    "Loop": OperatorFacts(settings=(0, 1)),
    "Scan": OperatorFacts(),
}
"""The rows, by operator."""
