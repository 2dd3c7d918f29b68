"""The asynchronous parameter server: each gradient is applied when it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.serving import Served


@dataclass(frozen=True)
class Asynchronous(Served[A]):
    r"""Rank 0 has the parameters and the inner rule; each worker pushes a gradient, and gets what is there then,

    .. math:: x_{k+1} = \operatorname{inner}(x_k, g(x_{v_k})),

    where the :math:`k`-th gradient that comes is of a worker that had read version :math:`v_k \le k`. Nobody waits for
    anybody. Samples weight nothing: each gradient is an update of its own.

    With workers, rank 0 calls ``serve``, and the others ``update`` as often as each likes and ``finish`` in the end, which
    returns the server's last parameters. With one rank it is the inner rule.

    Args:
        survive: Go on without workers that the communicator knows to be gone (`Communicator.lost`).
        record: A list that gets, on the server, the worker and the version it had read of each gradient.

    Raises:
        InvalidArgument: A rule that searches along a line or looks ahead.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> log = []
        >>> def on_rank(comm):
        ...     rule, w = Asynchronous(db.optimizers["sgd"](lr=0.5), comm, record=log), {"w": np.array([8.0])}
        ...     if comm.rank == 0:
        ...         return rule.serve(w, NUMPY)[0]["w"].tolist()
        ...     state = rule.init(w, NUMPY)
        ...     for _ in range(2):
        ...         w, state = rule.update({"w": w["w"]}, state, w, NUMPY)
        ...     return rule.finish(state, w, NUMPY)[0]["w"].tolist()
        >>> run_local(3, on_rank), log
        ([[-2.0], [-2.0], [-2.0]], [(1, 0), (2, 0), (1, 1), (2, 2)])

    Source:
        Dean et al., *Large scale distributed deep networks*, NeurIPS 2012, section 4.1 (Downpour SGD, fetching and pushing
        every step).
    """

    promise: ClassVar[Promise] = "unbounded"

    def _may_go(self, clock: int, slowest: int) -> bool:
        del clock, slowest
        return True
