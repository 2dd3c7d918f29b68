"""Why values cannot be judged: where NaN came from, and inputs that are empty."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from deep_bench.graph import Network, operator_name
from deep_bench.tensor import is_inexact


def first_nan(network: Network, inputs: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> list[str]:
    """Where NaN first appears, in one sentence; none if it does not appear.

    Args:
        network: Its nodes are looked through in order.
        inputs: What it is fed.
        values: The oracle's values by name.
    """
    for kind, arrays in (("input", inputs), ("constant", network.initializers)):
        for name, array in arrays.items():
            if count := _nans(array):
                return [f"NaN is in the {kind} {name!r} already: {count} of {array.size} elements"]
    for node in network.all_nodes():
        if any(_nans(values[str(v.name)]) for v in node.inputs if v is not None and v.name in values):
            continue
        for name in (str(v.name) for v in node.outputs if v.name in values):
            if count := _nans(values[name]):
                return [_said(node, name, count, values[name].size)]
    return []


def empty_inputs(inputs: Mapping[str, np.ndarray]) -> list[str]:
    """A sentence for each input without an element."""
    return [f"the input {name!r} is empty: its shape is {list(a.shape)}" for name, a in inputs.items() if not a.size]


def _said(node: ir.Node, name: str, count: int, size: int) -> str:
    where = f"the output {name!r} of node {str(node.name)!r} ({operator_name(node)})"
    return f"NaN first appears in {where}: {count} of {size} elements, from inputs without NaN"


def _nans(array: np.ndarray) -> int:
    return int(np.isnan(array).sum()) if is_inexact(array.dtype) else 0
