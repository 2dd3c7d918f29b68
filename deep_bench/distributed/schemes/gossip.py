"""Asynchronous decentralised gradient descent: ranks average in pairs, whenever one of a pair has ended a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.communicators.communicator import ANY, Received, Request
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import A, Promise
from deep_bench.distributed.schemes.around import Around, by_name, handed, number, one_more
from deep_bench.distributed.schemes.chance import SEED, drawn
from deep_bench.training.optimizer import Arrays, Evaluate, setting

_ASK, _THEIRS, _MEAN = 607, 608, 609
_PAIR, _DONE = 0, 1


@dataclass(frozen=True)
class Gossip(Around[A]):
    r"""AD-PSGD on a ring of two kinds of ranks. An active rank :math:`i`, after a gradient at :math:`x_i`, draws a passive
    neighbour :math:`j`:

    .. math:: \bar x = (x_i + x_j) / 2, \quad x_j' = \bar x, \quad x_i' = \operatorname{inner}(\bar x, g(x_i)).

    A passive rank answers those that ask when it has a gradient itself, which was taken before they did, and then steps with
    it. Even ranks are active, odd ones passive; those next to each other on the ring are neighbours, but for the ends of an
    odd number of ranks, both active. Only active ranks wait, and only for passive ones, so that nobody waits for ever.
    Samples weight nothing: each rank has its own loss.

    Ranks may take different numbers of steps; each calls ``finish`` after its last, in which passive ones answer until all
    that may ask have finished.

    Args:
        seed: Of the draws, which are a function of it, of the step and of the rank.
        record: A list that gets what happened on this rank: ``(i, j)`` where it, passive, answered rank :math:`i`, and
            ``(i, i)`` for each step it took without an average. Ranks of one process may share the list, which then has all
            events in their order.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> log = []
        >>> def on_rank(comm):
        ...     rule, w = Gossip(db.optimizers["sgd"](lr=1.0), comm, record=log), {"w": np.array([8.0 * comm.rank])}
        ...     w, state = rule.update({"w": np.ones(1)}, rule.init(w, NUMPY), w, NUMPY)
        ...     return rule.finish(state, w, NUMPY)[0]["w"].tolist()
        >>> run_local(2, on_rank), log
        ([[3.0], [3.0]], [(0, 1), (1, 1)])

    Source:
        Lian, Zhang, Zhang and Liu, *Asynchronous decentralized parallel stochastic gradient descent*, ICML 2018,
        algorithm 1, and its notes on implementation for two kinds of ranks against deadlock.
    """

    seed: int = setting(0, SEED)
    record: list[tuple[int, int]] | None = field(default=None, repr=False, compare=False)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)
    _answers: list[_Answers] = field(default_factory=list, init=False, repr=False, compare=False)

    promise: ClassVar[Promise] = "contracting"
    lockstep: ClassVar[bool] = False

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The ranks that this one can average with."""
        rank, size = self.comm.rank, self.comm.size
        near = {(rank - 1) % size, (rank + 1) % size}
        return tuple(sorted(peer for peer in near if peer % 2 != rank % 2))

    @property
    def active(self) -> bool:
        """Whether this rank asks, and does not answer."""
        return self.comm.rank % 2 == 0

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
        buffers = self._pool.packed(by_name(parameters), xp)
        asks = self.active and bool(self.neighbours)
        if asks:
            self._ask(buffers, number(state["steps"], xp))
        elif self.neighbours:
            self._open().some(buffers)
        if self.record is not None and not asks:
            self.record.append((self.comm.rank, self.comm.rank))
        mean = handed(buffers, parameters, self.inner, xp)
        new, inner = self.stepped(gradients, state["inner"], mean, xp, evaluate)
        return new, {"steps": one_more(state, xp), "inner": inner}

    def finish(self, state: Tree, parameters: Arrays[A], xp: ArrayFunctions[A]) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.finish`."""
        self.meet(parameters, xp)
        if self.active:
            for peer in self.neighbours:
                self.comm.send(np.array([_DONE], np.int64), peer, _ASK)
            return dict(parameters), dict(state)
        buffers = self._pool.packed(by_name(parameters), xp)
        self._open().all(buffers)
        self._answers.clear()
        return handed(buffers, parameters, self.inner, xp), dict(state)

    def _ask(self, mine: Buffers, step: int) -> None:
        chosen = int(drawn(self.seed, step, self.comm.rank).integers(len(self.neighbours)))
        peer = self.neighbours[chosen]
        self.comm.send(np.array([_PAIR], np.int64), peer, _ASK)
        for flat in mine.flats:
            self.comm.send(flat, peer, _THEIRS)
            self.comm.recv(flat, peer, _MEAN)

    def _open(self) -> _Answers:
        if not self._answers:
            self._answers.append(_Answers(self))
        return self._answers[0]


class _Answers:
    """What a passive rank does for those that ask. One message is waited for at any time, also between steps."""

    def __init__(self, scheme: Gossip[Any]) -> None:
        self._comm, self._record = scheme.comm, scheme.record
        self._asking = set(scheme.neighbours)
        self._most = len(scheme.neighbours)
        self._head = np.empty(1, np.int64)
        self._request: Request = self._comm.irecv(self._head, ANY, _ASK)

    def some(self, mine: Buffers) -> None:
        """Answer those that asked, but each no more than once on average, so that this rank gets on as well."""
        for _ in range(self._most):
            if not self._asking or not self._request.test():
                return
            self._next(mine)

    def all(self, mine: Buffers) -> None:
        """Answer until all have finished."""
        while self._asking:
            self._next(mine)

    def _next(self, mine: Buffers) -> None:
        received = self._request.wait()
        assert isinstance(received, Received)
        if self._head[0] == _DONE:
            self._asking.remove(received.source)
        else:
            if self._record is not None:  # before the other one can go on, so that a shared list keeps the order
                self._record.append((received.source, self._comm.rank))
            for flat in mine.flats:
                theirs = np.empty_like(flat)
                self._comm.recv(theirs, received.source, _THEIRS)
                flat += theirs
                flat /= 2
                self._comm.send(flat, received.source, _MEAN)
        if self._asking:
            self._request = self._comm.irecv(self._head, ANY, _ASK)
