"""The synchronous parameter server: rank 0 holds the state and takes the step, with all ranks' gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import A, DistributedOptimizer, Promise
from deep_bench.distributed.schemes.around import handed, refuse_search
from deep_bench.distributed.shares import Shares
from deep_bench.training.optimizer import Arrays, Evaluate

SERVER = 0


@dataclass(frozen=True)
class ParameterServer(DistributedOptimizer[A, Any]):
    r"""Rank 0 receives all gradients, :math:`g = \sum_i \frac{n_i}{\sum_j n_j} g_i` with its own, and sends back parameters.

    It trains as the others do. Only its state is the inner rule's; that of the others is empty, unless the rule evaluates
    gradients beside the parameters: then it is where. Messages to and from rank 0 grow with the number of ranks.

    Raises:
        InvalidArgument: The inner rule is a line search.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     rule = ParameterServer(db.optimizers["momentum"](lr=1.0), comm)
        ...     w = {"w": np.zeros(2)}
        ...     w, state = rule.update({"w": np.full(2, comm.rank + 1.0)}, rule.init(w, NUMPY), w, NUMPY)
        ...     return w["w"].tolist(), sorted(state)
        >>> run_local(2, on_rank)
        [([-1.5, -1.5], ['momentum', 'steps']), ([-1.5, -1.5], [])]

    Source:
        Li et al., *Scaling distributed machine learning with the parameter server*, OSDI 2014, algorithm 1, with one server
        and sequential consistency.
    """

    _gradients: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)
    _parameters: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)
    _shares: Shares = field(init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "equal"

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_search(self)
        object.__setattr__(self, "_shares", Shares(self.comm))

    @property
    def _serves(self) -> bool:
        return self.comm.rank == SERVER

    @property
    def looks_ahead(self) -> bool:
        """See `Optimizer.looks_ahead`."""
        return self.inner.looks_ahead

    def init(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> Any:
        """See `Optimizer.init`."""
        self._agreement.learn(parameters, xp)
        if self._serves:
            return self.inner.init(parameters, xp)
        return self.inner.prepare(parameters, self.inner.init(parameters, xp)) if self.looks_ahead else {}

    def prepare(self, parameters: Arrays[A], state: Tree) -> dict[str, A]:
        """See `Optimizer.prepare`."""
        return self.inner.prepare(parameters, state) if self._serves else dict(state or parameters)

    def restored(self, state: Tree, parameters: Arrays[A]) -> Any:
        """See `Optimizer.restored`."""
        return self.inner.restored(state, parameters) if self._serves else state

    def regrouped(self, states: Sequence[Tree]) -> Any:
        """Rank 0's state is the server's again."""
        if self.looks_ahead and len(states) != self.comm.size:
            return super().regrouped(states)
        return states[self.comm.rank] if len(states) > self.comm.rank else {}

    def begin(self, samples: int | None) -> None:
        """See `DistributedOptimizer.begin`."""
        super().begin(samples)
        self._shares.begin(samples)

    def update(
        self,
        gradients: Arrays[A],
        state: Tree,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
        samples: int | None = None,
    ) -> tuple[dict[str, A], Any]:
        """See `DistributedOptimizer.update`."""
        del evaluate
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        mine = self._gradients.packed(gradients, xp, self._shares.settle(samples))
        if self._serves:
            self._gather(mine)
            new, state = self.stepped(mine.native(xp), state, parameters, xp)
            self._sent(self._parameters.packed(new, xp))
            if self.looks_ahead:
                self._sent(self._parameters.packed(self.inner.prepare(new, state), xp))
            return new, state
        for flat in mine.flats:
            self.comm.send(flat, SERVER)
        self._parameters.prepare(parameters, xp)
        new = handed(self._sent(self._parameters.take()), parameters, self.inner, xp)
        return new, self._sent(self._parameters.take()).native(xp) if self.looks_ahead else {}

    def _gather(self, total: Buffers) -> None:
        """Add what the others send, rank after rank, so that memory does not grow with their number."""
        theirs = self._gradients.take()
        for rank in range(1, self.comm.size):
            for flat, received in zip(total.flats, theirs.flats, strict=True):
                self.comm.recv(received, rank)
                flat += received

    def _sent(self, buffers: Buffers) -> Buffers:
        for flat in buffers.flats:
            self.comm.broadcast(flat, SERVER)
        return buffers
