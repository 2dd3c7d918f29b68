"""The stale-synchronous parameter server: nobody runs ahead of the slowest by more than a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.serving import Served
from deep_bench.training.optimizer import Allowed, setting

_BOUND = Allowed("a whole number of at least 0", lambda s: isinstance(s, int) and not isinstance(s, bool) and s >= 0)


@dataclass(frozen=True)
class StaleSynchronous(Served[A]):
    """`Asynchronous` with a bound: a worker that has pushed :math:`c` gradients gets parameters once each other one has
    pushed :math:`c - s`, or has finished. With the bound 0 all read the same updates, as many of each.

    Args:
        survive: See `Asynchronous`.
        record: See `Asynchronous`.
        bound: :math:`s`.

    Raises:
        InvalidArgument: A bound below 0; a rule that searches along a line or looks ahead.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> log = []
        >>> def on_rank(comm):
        ...     rule = StaleSynchronous(db.optimizers["sgd"](lr=0.5), comm, bound=0, record=log)
        ...     w = {"w": np.array([8.0])}
        ...     if comm.rank == 0:
        ...         return rule.serve(w, NUMPY)[0]["w"].tolist()
        ...     state = rule.init(w, NUMPY)
        ...     for _ in range(2):
        ...         w, state = rule.update({"w": w["w"]}, state, w, NUMPY)
        ...     return rule.finish(state, w, NUMPY)[0]["w"].tolist()
        >>> run_local(3, on_rank), log
        ([[0.0], [0.0], [0.0]], [(1, 0), (2, 0), (1, 2), (2, 2)])

    Source:
        Ho et al., *More effective distributed ML via a stale synchronous parallel parameter server*, NeurIPS 2013, section
        2.
    """

    bound: int = setting(0, _BOUND)

    promise: ClassVar[Promise] = "bounded"

    def _may_go(self, clock: int, slowest: int) -> bool:
        return clock - slowest <= self.bound
