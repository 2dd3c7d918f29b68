"""The reference's NumPy function of a node: to fold constants, and as a fallback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

import deep_bench.reference.operators as operators
from deep_bench.reference.operators import misuse, takes_count

__all__ = ["bound", "misuse", "reference"]


def reference(node: ir.Node) -> Callable[..., Any] | None:
    """The reference's function of the node's operator, if it has one."""
    return operators.find(node.domain, node.op_type)


def bound(function: Callable[..., Any], attributes: Mapping[str, Any], n_outputs: int) -> Callable[..., Any]:
    """A reference function with its attributes fixed.

    Returns:
        A function of NumPy arrays (``None`` for an omitted input) that returns one array, or a tuple of ``n_outputs`` of
        them where that is more than one.
    """
    settings = dict(attributes)
    if takes_count(function):
        settings["n_outputs"] = n_outputs

    def evaluate(*inputs: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*inputs, **settings)
        if not isinstance(result, tuple):
            return result
        return result[0] if n_outputs == 1 else result[:n_outputs]

    return evaluate
