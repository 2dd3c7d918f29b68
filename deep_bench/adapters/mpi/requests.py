"""Messages and collective operations of MPI that are under way."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from deep_bench.adapters.mpi.kinds import Kind
from deep_bench.distributed.communicators.communicator import Received, Request
from deep_bench.errors import CommunicationFailed

P = ParamSpec("P")
R = TypeVar("R")


def told(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method whose errors of MPI are told as ours."""

    @wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(self, *args, **kwargs)
        except self._mpi.Exception as error:
            raise failure(error) from error

    return call


def failure(error: Any) -> CommunicationFailed:
    """An error of MPI as ours."""
    return CommunicationFailed(f"MPI failed: {error.Get_error_string()}")


class MpiRequest(Request):
    """Several of MPI's requests, and what is to be done after them.

    Args:
        MPI: The module.
        requests: MPI's.
        kept: What they read and write.
        after: Called once, when they are done, with the first one's status; its answer is that of `wait`.
    """

    def __init__(
        self, MPI: Any, requests: list[Any], kept: Any, after: Callable[[Any], Received | None] | None = None
    ) -> None:
        self._mpi, self._requests, self._kept, self._after = MPI, requests, kept, after
        self._status = MPI.Status()
        self._received: Received | None = None

    @told
    def wait(self) -> Received | None:
        """Return when all are done."""
        while self._requests:
            self._requests[-1].Wait(self._status)
            self._requests.pop()
        return self._done()

    @told
    def test(self) -> bool:
        """Whether all are done."""
        while self._requests:
            if not self._requests[-1].Test(self._status):
                return False
            self._requests.pop()
        self._done()
        return True

    def _done(self) -> Received | None:
        after, self._after = self._after, None
        if after is not None:
            self._received = after(self._status)
        self._kept = None
        return self._received


def received(status: Any, kind: Kind) -> Received:
    """What a status says about a message."""
    return Received(status.Get_source(), status.Get_tag(), status.Get_elements(kind.type) // kind.units)


def put(out: np.ndarray, buffer: np.ndarray, elements: int) -> None:
    """The first elements of what came, from where MPI wrote them to where they go."""
    if buffer is out:
        return
    if elements == out.size:
        out[...] = buffer
    else:
        out.flat[:elements] = buffer.reshape(-1)[:elements]
