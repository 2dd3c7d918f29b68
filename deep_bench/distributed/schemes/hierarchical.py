"""Allreduce in three legs: within each node, between the nodes, and within each node again."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.reduction import GradientMean
from deep_bench.distributed.schemes.allreduce import BUCKET
from deep_bench.distributed.schemes.averaged import Averaged
from deep_bench.training.optimizer import COUNT, Allowed, one_of, setting

_PER_NODE = Allowed(f"None, or {COUNT.expected}", lambda value: value is None or COUNT.fits(value))


@dataclass(frozen=True)
class Hierarchical(Averaged[A]):
    """The step of ``allreduce``, with sums that cross the network once for each node.

    The ranks of a node send their gradients to its first one; these first ones sum them over the nodes, and give the sums to
    the ranks of their nodes.

    Args:
        bucket: The most bytes of a message; a parameter with more has one of its own.
        per_node: So many ranks that follow each other are taken for a node. ``None``: ranks on a host of the same name.
        sum_in: See ``allreduce``.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule = Hierarchical(db.optimizers["sgd"](lr=1.0), comm, per_node=2)
        ...     w = {"w": np.zeros(1)}
        ...     return rule.update({"w": np.array([float(comm.rank)])}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].item()
        >>> run_local(3, on_rank)
        [-1.0, -1.0, -1.0]

    Source:
        Jia et al., *Highly scalable deep learning training system with mixed-precision: training ImageNet in four minutes*,
        arXiv:1807.11205, section 4.3.
    """

    bucket: int = setting(BUCKET, COUNT)
    per_node: int | None = setting(None, _PER_NODE)
    sum_in: str | None = setting(None, one_of(None, "float32", "float64"))
    _legs: list[_Legs] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_mean", GradientMean(self.comm, self._total, self.bucket, self.sum_in))

    def _total(self, x: np.ndarray) -> None:
        if not self._legs:
            self._legs.append(_Legs(self.comm, self.per_node))
        self._legs[0].total(x)


class _Legs:
    """The ranks of this rank's node, and the first ranks of all nodes."""

    def __init__(self, comm: Communicator, per_node: int | None) -> None:
        color = _first_alike(comm) if per_node is None else comm.rank // per_node
        node = comm.split(color, comm.rank)
        assert node is not None
        self._node, self._between = node, comm.split(0 if node.rank == 0 else None, comm.rank)

    def total(self, x: np.ndarray) -> None:
        """Replace an array by its sum over all ranks."""
        node_sum = self._node.reduce(x)
        if node_sum is not None and self._between is not None:
            self._between.allreduce(node_sum, out=x)
        self._node.broadcast(x)


def _first_alike(comm: Communicator) -> int:
    """The first rank on a host of the same name."""
    mine = np.frombuffer(sha256(socket.gethostname().encode()).digest(), np.uint8)
    return int(np.argmax((comm.allgather(mine) == mine).all(axis=1)))
