"""A parameter server on rank 0: what workers and server say to each other, whatever decides who may go on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.distributed.communicators.communicator import ANY, Communicator, Received
from deep_bench.distributed.flat import Pool
from deep_bench.distributed.optimizer import A
from deep_bench.distributed.schemes.around import Around, by_name, handed, number, one_more, refuse_search, rules
from deep_bench.errors import CommunicationFailed, InvalidArgument
from deep_bench.training.optimizer import FLAG, Arrays, Evaluate, Optimizer

_HEAD, _GRADIENT, _PARAMETERS = 604, 605, 606
_PUSH, _DONE = 0, 1
SERVER = 0
"""The rank that serves."""

Interleaving = list[tuple[int, int]]
"""For each gradient, in the order in which they were applied, the worker it came from, and the version of the parameters
that the worker had read: how many gradients these held."""


@dataclass(frozen=True, kw_only=True)
class Served(Around[A]):
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
        if self.comm.rank == SERVER:
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
        server, workers = states[SERVER], max(1, self.comm.size - 1)
        updates = int(server["steps"])
        clocks = np.array([(updates + workers - 1 - worker) // workers for worker in range(workers)], np.int64)
        if self.comm.rank == SERVER:
            return {**server, "clocks": np.concatenate([[0], clocks])[: self.comm.size]}
        return {"steps": np.asarray(clocks[self.comm.rank - 1]), "version": np.array(updates, np.int64)}

    def without(self, state: Tree, kept: Sequence[int], xp: ArrayFunctions[A]) -> dict[str, Any]:
        """The state after ranks were lost.

        Args:
            state: Of this rank, before.
            kept: The ranks that are left, by their numbers before.
            xp: The functions of its arrays.
        """
        if "clocks" not in state:
            return dict(state)
        return {**state, "clocks": xp.array(np.asarray(xp.host(state["clocks"]))[list(kept)])}

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
        if self.comm.size > 1 and self.comm.rank == SERVER:
            raise InvalidArgument("a step on rank 0, which serves the others", "serve(parameters, xp)")
        gradients, parameters = self.checked(gradients, parameters, samples, xp)
        if self.comm.size == 1:
            if self.record is not None:
                self.record.append((SERVER, number(state["steps"], xp)))
            new, inner = self.stepped(gradients, state["inner"], parameters, xp)
            return new, {**state, "steps": one_more(state, xp), "inner": inner}
        self.comm.send(np.array([_PUSH, number(state["version"], xp)], np.int64), SERVER, _HEAD)
        for flat in self._pool.packed(by_name(gradients), xp).flats:
            self.comm.send(flat, SERVER, _GRADIENT)
        new, version = self._pulled(parameters, xp)
        return new, {"steps": one_more(state, xp), "version": version}

    def finish(self, state: Tree, parameters: Arrays[A], xp: ArrayFunctions[A]) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.finish`: tell the server, and get what it has when all are done."""
        if self.comm.size == 1:
            return dict(parameters), dict(state)
        self.meet(parameters, xp)
        self.comm.send(np.array([_DONE, number(state["version"], xp)], np.int64), SERVER, _HEAD)
        new, version = self._pulled(parameters, xp)
        return new, {**state, "version": version}

    def _pulled(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> tuple[dict[str, A], A]:
        version = np.empty(1, np.int64)
        self.comm.recv(version, SERVER, _PARAMETERS)
        self._pool.prepare(by_name(parameters), xp)
        buffers = self._pool.take()
        for flat in buffers.flats:
            self.comm.recv(flat, SERVER, _PARAMETERS)
        return handed(buffers, parameters, self.inner, xp), xp.array(version[0], np.int64)

    def serve(
        self,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        state: Tree | None = None,
        told: Callable[[dict[str, A], dict[str, Any]], None] | None = None,
    ) -> tuple[dict[str, A], dict[str, Any]]:
        """See `DistributedOptimizer.serve`.

        Raises:
            InvalidArgument: Not on rank 0.
            CommunicationFailed: A worker is gone, and ``survive`` is off, or none is left.
        """
        if self.comm.rank != SERVER:
            raise InvalidArgument(f"serve on rank {self.comm.rank}", "rank 0; update(…) on the others")
        self.meet(parameters, xp)
        return _Server(self, parameters, xp, self.init(parameters, xp) if state is None else dict(state), told).run()


class _Server(Generic[A]):
    """One run of the server."""

    def __init__(
        self,
        scheme: Served[A],
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        state: dict[str, Any],
        notify: Callable[[dict[str, A], dict[str, Any]], None] | None,
    ) -> None:
        self._scheme, self._xp, self._told = scheme, xp, notify
        self._comm: Communicator = scheme.comm
        self._parameters, self._state = dict(parameters), state
        self._version = number(state["steps"], xp)
        self._clocks = np.array(xp.host(state["clocks"]))
        self._active = set(range(self._comm.size)) - {SERVER}
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
        if self._told is not None:
            self._told(self._parameters, self._state)

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
