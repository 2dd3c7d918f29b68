"""Sequences and optional values."""

from __future__ import annotations

from collections.abc import Mapping

from deep_bench.facts.row import OperatorFacts

OPERATORS: Mapping[str, OperatorFacts] = {
    "SequenceAt": OperatorFacts(settings=(1,)),
    "SequenceErase": OperatorFacts(settings=(1,)),
    "SplitToSequence": OperatorFacts(settings=(1,), constants=("split",)),
    **dict.fromkeys(
        (
            "ConcatFromSequence",
            "Optional",
            "OptionalGetElement",
            "OptionalHasElement",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceInsert",
            "SequenceLength",
            "SequenceMap",
        ),
        OperatorFacts(),
    ),
}
"""The rows, by operator."""
