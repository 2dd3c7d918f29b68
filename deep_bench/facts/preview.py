"""Operators that ONNX tries out."""

from __future__ import annotations

from collections.abc import Mapping

from deep_bench.facts.row import OperatorFacts

OPERATORS: Mapping[str, OperatorFacts] = {
    **{f"ai.onnx.preview::{name}": OperatorFacts() for name in ("FlexAttention",)},
}
"""The rows, by operator."""
