"""Python code that is attached to a node: it goes with the node through copies of a network, and is lost in a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

FUNCTION_DOMAIN = "numpy"
"""The domain of nodes that compute a NumPy function of the user's, which is attached to them."""

_FUNCTION = "deep_bench.function"


def attach_function(node: ir.Node, function: Callable[..., Any]) -> None:
    """Say what a node of `FUNCTION_DOMAIN` computes: a NumPy function of its inputs and attributes."""
    node.meta[_FUNCTION] = function


def function_of(node: ir.Node) -> Callable[..., Any] | None:
    """The NumPy function that is attached to a node, if there is one.

    Example:
        >>> node = ir.Node("numpy", "doubled", [ir.Value(name="x")])
        >>> attach_function(node, lambda x: x + x)
        >>> function_of(node)(2)
        4
    """
    found: Callable[..., Any] | None = node.meta.get(_FUNCTION)
    return found


def keep_attached(source: ir.Node, copy: ir.Node) -> None:
    """Attach to a copy of a node what is attached to the node."""
    copy.meta.update(source.meta)
