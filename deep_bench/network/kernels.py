"""The kernels of a network on their way to the processes of the systems under test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deep_bench.graph import Network
from deep_bench.graph.attached import Kernel
from deep_bench.operators.pickled import dumped, loaded


def pickled(network: Network) -> dict[str, bytes]:
    """Name of each node that a kernel computes to that kernel, pickled; what another process cannot import goes along whole.

    Raises:
        InvalidArgument: A kernel cannot be pickled.
    """
    pickles: dict[int, bytes] = {}
    for kernel in network.kernels.values():
        pickles.setdefault(id(kernel), dumped(kernel, kernel.name))
    return {name: pickles[id(kernel)] for name, kernel in network.kernels.items()}


def unpickled(kernels: Mapping[str, bytes]) -> dict[str, Kernel]:
    """The inverse of `pickled`.

    Raises:
        InvalidInput: A kernel cannot be read here.
    """
    by_content: dict[bytes, Any] = {}
    for node, content in kernels.items():
        if content not in by_content:
            by_content[content] = loaded(content, f"the kernel of the node {node!r}")
    return {node: by_content[content] for node, content in kernels.items()}


def described(network: Network) -> str:
    """Which kernels compute which nodes, in one sentence; empty where there are none.

    Example:
        >>> import deep_bench as db
        >>> described(db.load("digits-cnn"))
        ''
    """
    nodes: dict[str, list[str]] = {}
    for node, kernel in network.kernels.items():
        nodes.setdefault(kernel.name, []).append(node)
    parts = (f"{name} computes {', '.join(members)}" for name, members in nodes.items())
    return f"kernels in the place of nodes: {'; '.join(parts)}" if nodes else ""
