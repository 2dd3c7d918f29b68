"""Nodes that a kernel of the user's computes: NumPy arrays to its device and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from deep_bench.graph import Network
from deep_bench.graph.attached import kernel_of
from deep_bench.graph.knowledge import Knowledge
from deep_bench.operators.placed import placed


def kernel_functions(network: Network) -> dict[str, Callable[..., Any]]:
    """Name of each node that a kernel computes to that kernel, as a function of NumPy arrays.

    Args:
        network: In the newest opset.

    Raises:
        UnsupportedOperator: A kernel does not take an attribute that its node states.
    """
    if not network.kernels:
        return {}
    knowledge = Knowledge(network)
    by_name: dict[str, Callable[..., Any]] = {}
    for node in network.all_nodes():
        if kernel_of(node) is not None:
            dtypes = [knowledge.dtype(value) for value in node.outputs]
            by_name[str(node.name)] = _function(placed(node, network.opsets.get(node.domain), dtypes=dtypes))
    return by_name


def _function(kernel: Any) -> Callable[..., Any]:
    def run(*arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            outputs = kernel.forward_numpy(*arrays)
        return outputs[0] if len(outputs) == 1 else outputs

    return run
