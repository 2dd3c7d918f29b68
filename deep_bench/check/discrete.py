"""Discrete results: where they differ, and which floating-point results are discrete.

An operator that computes in a wider format than it returns rounds once, and each rounding is a decision. `QuantizeLinear`
divides in the format of the scale. Whether its result is an integer or a narrow floating-point number, a correct one differs
from the oracle's by one step, and only where the quotient lies next to the middle of two numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx_ir as ir

from deep_bench.graph.node import operator_name
from deep_bench.tensor import is_float, is_inexact

_QUOTIENT = 1
"""The input of `QuantizeLinear` in whose format it divides: the scale."""

_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)  # how one rounds to powers of two is not settled


def quantizes(node: ir.Node) -> bool:
    """Whether a node rounds what it computed in a wider format."""
    return operator_name(node) == "QuantizeLinear"


def rounds_to(node: ir.Node, form: np.dtype | None) -> bool:
    """Whether a node rounds once to this floating-point format, which is that of its result."""
    return form is not None and is_inexact(form) and form != _POWERS and quantizes(node)


def working_format(node: ir.Node, formats: Mapping[str, np.dtype]) -> np.dtype | None:
    """What such a node computes in: what it states, or the format of its scale."""
    precision = node.attributes.get("precision")
    if precision is not None and precision.as_int():
        return np.dtype(ir.DataType(precision.as_int()).numpy())
    scale = node.inputs[_QUOTIENT]
    return None if scale is None else formats.get(str(scale.name))


def differing(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays of one shape differ; NaN is NaN.

    Example:
        >>> differing(np.array([1.0, np.nan, 2.0]), np.array([1.0, np.nan, 3.0], np.float32)).tolist()
        [False, False, True]
    """
    a, b = widened(a), widened(b)
    different = np.asarray(a != b)
    return different & ~(np.isnan(a) & np.isnan(b)) if is_float(a.dtype) and is_float(b.dtype) else different


def widened(y: np.ndarray) -> np.ndarray:
    """Floating-point numbers in float64; anything else as it is."""
    return y.astype(np.float64) if is_float(y.dtype) else y
