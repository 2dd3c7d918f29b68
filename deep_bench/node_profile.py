"""Where the time of a call went, node by node, as far as a framework tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Direction = Literal["forward", "backward"]


@dataclass(frozen=True, eq=False)
class NodeTime:
    """How long one piece of a framework's work took, in each of several observed calls.

    Args:
        nodes: Names of the network's nodes that it computes: several where the framework runs them as one; none for work of
            the framework's own (a change of layout, say).
        ns: Nanoseconds in each call; int64.
        what: What the framework calls it.
        direction: Whether it belongs to the way forward or back.
        whole: Whether it is all that can be told of its direction, and no piece to compare with a node elsewhere.
    """

    nodes: tuple[str, ...]
    ns: NDArray[np.int64]
    what: str
    direction: Direction = "forward"
    whole: bool = False


@dataclass(frozen=True, eq=False)
class NodeProfile:
    """Where the time of a call went, as `Executor.profile` found it.

    Observed calls are slower than others. They are taken in turn with calls that nobody observes, so that what looking costs
    can be told; the times of the one kind are never to be mixed with those of the other.

    Args:
        how: How it was observed.
        times: The pieces; within each call they do not overlap.
        observed_ns: The whole of each observed call, in nanoseconds; int64, as long as each piece's ``ns``.
        plain_ns: The calls that nobody observed.
        walk_ns: Where observed calls go another way than others (node by node instead of a graph): that way without the
            stamps. ``None`` where it is the same.
        inside_ns: What the runtime itself says that each observed call took, without Python around it; ``None`` where it
            does not tell.
        absent: Name of each node that none of ``times`` covers to the reason.
        allocated_bytes: The most that the framework's own allocator had handed out, where it tells.
        kernels: Name of a node to the device's kernels under it with their nanoseconds a call, where a profiler tells.
    """

    how: str
    times: tuple[NodeTime, ...]
    observed_ns: NDArray[np.int64]
    plain_ns: NDArray[np.int64]
    walk_ns: NDArray[np.int64] | None = None
    inside_ns: NDArray[np.int64] | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    allocated_bytes: int | None = None
    kernels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
