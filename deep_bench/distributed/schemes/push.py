"""Stochastic gradient push: ranks average over directed graphs, with weights that right what the graph tilts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.flat import Pool
from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.around import Around, handed, number, one_more
from deep_bench.distributed.schemes.graphs import graph_of
from deep_bench.distributed.topology import Topology
from deep_bench.training.optimizer import FLAG, Arrays, Evaluate, setting

_TAG = 603


@dataclass(frozen=True)
class GradientPush(Around[A]):
    r"""Push-sum around an inner rule. With a rank's own weight :math:`w_i`, 1 at first, and its parameters
    :math:`z_i = x_i / w_i`,

    .. math::
        y_i &= \operatorname{inner}(w_i z_i, g(z_i)), \\
        x_i' &= \sum_j p_{ij} y_j, \quad w_i' = \sum_j p_{ij} w_j, \quad z_i' = x_i' / w_i',

    where :math:`p_{ij} = 1 / (1 + \text{number of ranks that } j \text{ sends to in this step})`, for :math:`j` itself too.
    The sums of all :math:`x` and :math:`w` are kept on any graph in which everyone reaches everyone; it need not be
    balanced.

    Args:
        topology: ``exponential``, ``ring``, ``torus``, ``complete``, or a `Topology`.
        one_peer: In each step a rank sends to one of those it can, in turn: the nearest above it first. All of them
            otherwise.

    Raises:
        UnknownName: No such topology.
        InvalidArgument: A topology of another number of ranks.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule, w = GradientPush(db.optimizers["sgd"](lr=1.0), comm), {"w": np.array([4.0 * comm.rank])}
        ...     return rule.update({"w": np.ones(1)}, rule.init(w, NUMPY), w, NUMPY)[0]["w"].tolist()
        >>> run_local(4, on_rank)
        [[5.0], [1.0], [5.0], [9.0]]

    Source:
        Assran, Loizou, Ballas and Rabbat, *Stochastic gradient push for distributed deep learning*, ICML 2019, algorithm 1,
        and its appendix for one peer on the exponential graph.
    """

    topology: str | Topology = "exponential"
    one_peer: bool = setting(True, FLAG)
    _graph: Topology = field(init=False, repr=False, compare=False)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "contracting"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_graph", graph_of(self.topology, self.comm.size))

    def _remembered(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        del parameters
        return {"weight": xp.array(1.0, np.float64)}

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
        steps, weight = number(state["steps"], xp), float(xp.host(state["weight"]))
        biased = handed(self._pool.packed(parameters, xp, weight), parameters, self.inner, xp)
        new, inner = self.stepped(gradients, state["inner"], biased, xp, evaluate)
        half = self._pool.packed(new, xp)
        pushed = self._pushed(np.array([weight]), steps)
        for flat in half.flats:
            np.divide(self._pushed(flat, steps), flat.dtype.type(pushed[0]), out=flat)
        new_state = {"steps": one_more(state, xp), "inner": inner, "weight": xp.array(pushed[0], np.float64)}
        return handed(half, new, self.inner, xp), new_state

    def _pushed(self, mine: np.ndarray, step: int) -> np.ndarray:
        """What this rank and those that send to it in this step give it."""
        rank, to = self.comm.rank, [self._peers(peer, step) for peer in range(self.comm.size)]
        part = mine * mine.dtype.type(1 / (1 + len(to[rank])))
        received = self.comm.exchange(part, to[rank], [peer for peer, peers in enumerate(to) if rank in peers], _TAG)
        received[rank] = part
        first, *senders = sorted(received)
        total = received[first].copy()
        for peer in senders:
            total += received[peer]
        return total

    def _peers(self, rank: int, step: int) -> tuple[int, ...]:
        to = self._graph.to[rank]
        if not self.one_peer or not to:
            return to
        nearest = sorted(to, key=lambda peer: (peer - rank) % self.comm.size)
        return (nearest[step % len(nearest)],)
