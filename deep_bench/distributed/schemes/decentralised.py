"""Decentralised gradient descent: ranks average their parameters with neighbours only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.flat import Pool
from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.around import Around, handed, one_more
from deep_bench.distributed.schemes.graphs import graph_of
from deep_bench.distributed.topology import Topology
from deep_bench.training.optimizer import Arrays, Evaluate

_TAG = 602


@dataclass(frozen=True)
class Decentralised(Around[A]):
    r"""D-PSGD: every rank takes the weighted mean of its neighbours' parameters, and adds its own step,

    .. math:: x_i' = \sum_j W_{ij} x_j + (\operatorname{inner}(x_i) - x_i),

    where the inner rule has the gradient at :math:`x_i`. Parameters are averaged, not gradients: ranks stay apart, and are
    pulled together by the gap of :math:`W` (`Topology.spectral_gap`). The samples of a rank do not weight it: each has its
    own loss.

    Args:
        topology: ``ring``, ``torus``, ``exponential`` or ``complete``, or a `Topology` with weights.

    Raises:
        UnknownName: No such topology.
        InvalidArgument: A topology of another number of ranks, or without weights that keep the mean.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = Decentralised(db.optimizers["sgd"](lr=1.0), comm), {"w": np.array([4.0 * comm.rank])}
        ...     return rule.update({"w": np.ones(1)}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(4, on_rank)
        [[4.333333333333333], [3.0], [7.0], [5.666666666666666]]

    Source:
        Lian, Zhang, Zhang, Hsieh, Zhang and Liu, *Can decentralized algorithms outperform centralized algorithms?*, NeurIPS
        2017, algorithm 1.
    """

    topology: str | Topology = "ring"
    _graph: Topology = field(init=False, repr=False, compare=False)
    _weights: np.ndarray = field(init=False, repr=False, compare=False)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "contracting"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_graph", graph_of(self.topology, self.comm.size))
        object.__setattr__(self, "_weights", self._graph.weights()[self.comm.rank])

    def update(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.update`; a line search looks at this rank's own loss."""
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        before = self._pool.packed(parameters, xp)
        pulled = [self._mean(flat) - flat for flat in before.flats]
        new, inner = self.stepped(gradients, state["inner"], parameters, xp, evaluate)
        after = self._pool.packed(new, xp)
        for flat, pull in zip(after.flats, pulled, strict=True):
            flat += pull
        return handed(after, new, self.inner, xp), {"steps": one_more(state, xp), "inner": inner}

    def _mean(self, mine: np.ndarray) -> np.ndarray:
        rank = self.comm.rank
        received = self.comm.exchange(mine, self._graph.to[rank], self._graph.sources(rank), _TAG)
        received[rank] = mine
        first, *peers = sorted(received)
        total = received[first] * mine.dtype.type(self._weights[first])
        for peer in peers:
            total += received[peer] * mine.dtype.type(self._weights[peer])
        return total
