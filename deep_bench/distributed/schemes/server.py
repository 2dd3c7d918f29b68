"""Parameter servers on rank 0: synchronous, asynchronous, or with a bound on how far ranks run ahead of the slowest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.communicators.communicator import ANY, Communicator, Received
from deep_bench.distributed.flat import Buffers, Pool
from deep_bench.distributed.optimizer import A, DistributedOptimizer, Promise, Shares
from deep_bench.distributed.schemes.around import WrappingScheme, by_name, handed, number, one_more, refuse_search, rules
from deep_bench.errors import CommunicationFailed, InvalidArgument
from deep_bench.training.optimizer import FLAG, Allowed, Arrays, Evaluate, Optimizer, setting

SERVER_RANK = 0
"""The rank that serves."""


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
        return self.comm.rank == SERVER_RANK

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
            self.comm.send(flat, SERVER_RANK)
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
            self.comm.broadcast(flat, SERVER_RANK)
        return buffers


_HEAD, _GRADIENT, _PARAMETERS = 604, 605, 606
_PUSH, _DONE = 0, 1

Interleaving = list[tuple[int, int]]
"""For each gradient, in the order in which they were applied, the worker it came from, and the version of the parameters
that the worker had read: how many gradients these held."""


@dataclass(frozen=True, kw_only=True)
class ServerScheme(WrappingScheme[A]):
    """A scheme with a server, which has the parameters and the inner rule's state, and applies each gradient as it comes.

    Workers push a gradient and get the parameters back, with a header before each: of int64, what it is and which version.
    Before the first, server and workers compare what they hold (`meet`); workers that are lost later can be survived.
    """

    survive: bool = field(default=False, repr=False, compare=False, metadata={"allowed": FLAG})
    record: Interleaving | None = field(default=None, repr=False, compare=False)
    _pool: Pool[A] = field(default_factory=Pool, init=False, repr=False, compare=False)

    lockstep: ClassVar[bool] = False
    dedicated: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_search(self)
        *_, innermost = rules(self.inner)
        if type(innermost).prepare is not Optimizer.prepare:
            raise InvalidArgument(
                f"{type(self).__name__} around {innermost!r}, which looks ahead with a state that workers do not have",
                "a rule that takes gradients at the parameters",
            )

    @abstractmethod
    def _may_go(self, clock: int, slowest: int) -> bool:
        """Whether a worker may go on that has pushed ``clock`` gradients, while the slowest has pushed ``slowest``."""

    def init(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> dict[str, Any]:
        """See `Optimizer.init`; only the server has the inner rule's state."""
        if self.comm.rank == SERVER_RANK:
            return {**super().init(parameters, xp), "clocks": xp.array(np.zeros(self.comm.size, np.int64))}
        return {"steps": xp.array(0, np.int64), "version": xp.array(0, np.int64)}

    def prepare(self, parameters: Arrays[A], state: Tree) -> dict[str, A]:
        """See `Optimizer.prepare`: the parameters."""
        del state
        return dict(parameters)

    def restored(self, state: Tree, parameters: Arrays[A]) -> dict[str, Any]:
        """See `Optimizer.restored`."""
        return super().restored(state, parameters) if "inner" in state else dict(state)

    def regrouped(self, states: Sequence[Tree]) -> dict[str, Any]:
        """The server's state, with its updates spread over the workers; workers begin with what it has."""
        server, workers = states[SERVER_RANK], max(1, self.comm.size - 1)
        updates = int(server["steps"])
        clocks = np.array([(updates + workers - 1 - worker) // workers for worker in range(workers)], np.int64)
        if self.comm.rank == SERVER_RANK:
            return {**server, "clocks": np.concatenate([[0], clocks])[: self.comm.size]}
        return {"steps": np.asarray(clocks[self.comm.rank - 1]), "version": np.array(updates, np.int64)}

    def without(self, state: Tree, remaining: Sequence[int], xp: ArrayFunctions[A]) -> dict[str, Any]:
        """The state after ranks were lost.

        Args:
            state: Of this rank, before.
            remaining: The ranks that are left, by their numbers before.
            xp: The functions of its arrays.
        """
        if "clocks" not in state:
            return dict(state)
        return {**state, "clocks": xp.array(np.asarray(xp.host(state["clocks"]))[list(remaining)])}

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
        """See `DistributedOptimizer.update`: push a gradient, get parameters. Samples weight nothing.

        Raises:
            InvalidArgument: On the server where there are workers.
        """
        del evaluate
        if self.comm.size > 1 and self.comm.rank == SERVER_RANK:
            raise InvalidArgument("a step on rank 0, which serves the others", "serve(parameters, xp)")
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        if self.comm.size == 1:
            if self.record is not None:
                self.record.append((SERVER_RANK, number(state["steps"], xp)))
            new, inner = self.stepped(gradients, state["inner"], parameters, xp)
            return new, {**state, "steps": one_more(state, xp), "inner": inner}
        self.comm.send(np.array([_PUSH, number(state["version"], xp)], np.int64), SERVER_RANK, _HEAD)
        for flat in self._pool.packed(by_name(gradients), xp).flats:
            self.comm.send(flat, SERVER_RANK, _GRADIENT)
        new, version = self._pulled(parameters, xp)
        return new, {"steps": one_more(state, xp), "version": version}

    def finish(self, state: Tree, parameters: Arrays[A], xp: ArrayFunctions[A]) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.finish`: tell the server, and get what it has when all are done."""
        if self.comm.size == 1:
            return dict(parameters), dict(state)
        self.meet(parameters, xp)
        self.comm.send(np.array([_DONE, number(state["version"], xp)], np.int64), SERVER_RANK, _HEAD)
        new, version = self._pulled(parameters, xp)
        return new, {**state, "version": version}

    def _pulled(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> tuple[dict[str, A], A]:
        version = np.empty(1, np.int64)
        self.comm.recv(version, SERVER_RANK, _PARAMETERS)
        self._pool.prepare(by_name(parameters), xp)
        buffers = self._pool.take()
        for flat in buffers.flats:
            self.comm.recv(flat, SERVER_RANK, _PARAMETERS)
        return handed(buffers, parameters, self.inner, xp), xp.array(version[0], np.int64)

    def serve(
        self,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        state: Tree | None = None,
        after_update: Callable[[dict[str, A], dict[str, Any]], None] | None = None,
    ) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.serve`.

        Raises:
            InvalidArgument: Not on rank 0.
            CommunicationFailed: A worker is gone, and ``survive`` is off, or none is left.
        """
        if self.comm.rank != SERVER_RANK:
            raise InvalidArgument(f"serve on rank {self.comm.rank}", "rank 0; update(…) on the others")
        self.meet(parameters, xp)
        return _ServerLoop(
            self, parameters, xp, self.init(parameters, xp) if state is None else dict(state), after_update
        ).run()


class _ServerLoop(Generic[A]):
    """One run of the server."""

    def __init__(
        self,
        scheme: ServerScheme[A],
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        state: dict[str, Any],
        after_update: Callable[[dict[str, A], dict[str, Any]], None] | None,
    ) -> None:
        self._scheme, self._xp, self._after_update = scheme, xp, after_update
        self._comm: Communicator = scheme.comm
        self._parameters, self._state = dict(parameters), state
        self._version = number(state["steps"], xp)
        self._clocks = np.array(xp.host(state["clocks"]))
        self._active = set(range(self._comm.size)) - {SERVER_RANK}
        self._waiting: list[int] = []
        self._finished: list[int] = []
        self._head = np.empty(2, np.int64)

    def run(self) -> tuple[dict[str, A], dict[str, Any]]:
        """Serve until nobody is left."""
        workers = bool(self._active)
        request = self._comm.irecv(self._head, ANY, _HEAD) if workers else None
        while self._active:
            if self._scheme.survive and self._forget():  # MPI tells of a lost rank once, and somebody else may have heard it
                self._release()
                continue
            assert request is not None
            try:
                received = request.wait()
            except CommunicationFailed as failure:
                self._drop(failure)
                self._release()
                continue
            assert isinstance(received, Received)
            self._answer(received.source)
            if self._active:
                request = self._comm.irecv(self._head, ANY, _HEAD)
        if workers and not self._finished:
            raise CommunicationFailed("all workers are gone", "one that finishes")
        for worker in sorted(self._finished):
            if worker in self._finished:
                self._send(worker)
        return self._parameters, self._state

    def _answer(self, worker: int) -> None:
        if worker not in self._active:  # what it sent before it was lost
            return
        kind, version = self._head.tolist()
        if kind == _DONE:
            self._active.discard(worker)
            self._finished.append(worker)
        else:
            try:
                self._apply(worker, version)
            except CommunicationFailed as failure:
                self._drop(failure)
        self._release()

    def _apply(self, worker: int, version: int) -> None:
        pool, xp, scheme = self._scheme._pool, self._xp, self._scheme
        pool.prepare(by_name(self._parameters), xp)
        buffers = pool.take()
        for flat in buffers.flats:
            self._comm.recv(flat, worker, _GRADIENT)
        self._parameters, inner = scheme.stepped(buffers.native(xp), self._state["inner"], self._parameters, xp)
        if scheme.record is not None:
            scheme.record.append((worker, version))
        self._version += 1
        self._clocks[worker] += 1
        self._waiting.append(worker)
        steps, clocks = xp.array(self._version, np.int64), xp.array(self._clocks.copy())
        self._state = {"steps": steps, "inner": inner, "clocks": clocks}
        if self._after_update is not None:
            self._after_update(self._parameters, self._state)

    def _release(self) -> None:
        """Send the parameters to those that wait and may go on."""
        while ready := [worker for worker in self._waiting if self._may_go(worker)]:
            self._waiting.remove(ready[0])
            self._send(ready[0])

    def _may_go(self, worker: int) -> bool:
        slowest = min(int(self._clocks[peer]) for peer in self._active)
        return self._scheme._may_go(int(self._clocks[worker]), slowest)

    def _send(self, worker: int) -> None:
        try:
            self._comm.send(np.array([self._version], np.int64), worker, _PARAMETERS)
            for flat in self._scheme._pool.packed(by_name(self._parameters), self._xp).flats:
                self._comm.send(flat, worker, _PARAMETERS)
        except CommunicationFailed as failure:
            self._drop(failure)

    def _drop(self, failure: CommunicationFailed) -> None:
        """Go on without workers that are gone, where that is wanted; a gradient that came in part is not applied."""
        if not self._scheme.survive or not self._forget():
            raise failure

    def _forget(self) -> bool:
        """Whether workers are gone that were not before; nothing more is expected of them."""
        gone = self._comm.lost() & {*self._active, *self._finished}
        self._active -= gone
        self._waiting = [worker for worker in self._waiting if worker not in gone]
        self._finished = [worker for worker in self._finished if worker not in gone]
        return bool(gone)


@dataclass(frozen=True)
class Asynchronous(ServerScheme[A]):
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


_BOUND = Allowed("a whole number of at least 0", lambda s: isinstance(s, int) and not isinstance(s, bool) and s >= 0)


@dataclass(frozen=True)
class StaleSynchronous(ServerScheme[A]):
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
