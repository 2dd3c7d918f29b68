"""What the library knows of each operator, besides how it is computed: one row for each, in the family of its reference.

`OperatorFacts` says what the columns mean. Each part of the library asks `facts_of` for those that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from deep_bench.facts.row import OperatorFacts

__all__ = ["OPERATORS", "OperatorFacts", "facts_of"]

_FAMILIES = (
    "activation attention cast contrib control convolution elementwise generate image indexing linear loss ml normalization "
    "pooling preview quantize recurrent reduction sequence shape signal text training"
)
"""The modules of this package that have rows, each in a table of its own."""

OPERATORS: Mapping[str, OperatorFacts] = {
    name: row for family in _FAMILIES.split() for name, row in import_module(f"{__name__}.{family}").OPERATORS.items()
}
"""Every row, by operator: ``"Gemm"``, or ``"com.microsoft::BiasGelu"`` outside ONNX's default domain."""

_DEFAULTS = OperatorFacts()


def facts_of(op_type: str, domain: str = "") -> OperatorFacts:
    """The row of an operator; the defaults for one that has none, such as a function of the user's.

    Args:
        op_type: The operator as ONNX spells it.
        domain: Its domain; ``""`` and ``"ai.onnx"`` both name the default one.

    Example:
        >>> facts_of("Gemm").learnt, facts_of("Gemm", "com.example").learnt
        ((0, 1, 2), ())
    """
    return OPERATORS.get(op_type if domain in ("", "ai.onnx") else f"{domain}::{op_type}", _DEFAULTS)
