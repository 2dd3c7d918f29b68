"""Communication while gradients are still computed: buckets go to a thread of their own as soon as they are complete."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from time import perf_counter_ns
from typing import Any

import numpy as np

from deep_bench.distributed.flat import Bucket, Buffers
from deep_bench.errors import InvalidArgument

Work = Callable[[], None]


class Progress:
    """One thread that does what it is given, in order.

    It is a daemon: a message that never comes, because another rank has died, does not keep this process alive.

    Example:
        >>> done = []
        >>> Progress().give(lambda: done.append(1)).result()
        >>> done
        [1]
    """

    def __init__(self) -> None:
        self._todo: SimpleQueue[tuple[Work, Future[None]] | None] = SimpleQueue()
        Thread(target=_work_off, args=(self._todo,), name="progress", daemon=True).start()
        self._end = weakref.finalize(self, self._todo.put, None)

    def give(self, work: Work) -> Future[None]:
        """Have something done; what it raises is raised by the future's ``result``."""
        future: Future[None] = Future()
        self._todo.put((work, future))
        return future


def _work_off(todo: SimpleQueue[tuple[Work, Future[None]] | None]) -> None:
    while (task := todo.get()) is not None:
        work, future = task
        failure: BaseException | None = None
        try:
            work()
        except BaseException as error:
            failure = error
        del task, work  # before anyone is told that it is done: from then on its buffers are not in use
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
        del future, failure


class Flight:
    """The gradients of one step on their way.

    Buckets are sent in the layout's order on all ranks, whatever the order in which a rank completes them.

    Args:
        buffers: Where gradients are gathered; they become the sums.
        buckets: Of its layout.
        weight: The number that gradients are multiplied with, asked for when the first one is there.
        host: From a native array to its contents.
        send: Sums a part of the buffers over all ranks, in place.
        progress: The thread.
    """

    def __init__(
        self,
        buffers: Buffers,
        buckets: tuple[Bucket, ...],
        *,
        weight: Callable[[], float],
        host: Callable[[Any], np.ndarray],
        send: Callable[[np.ndarray], None],
        progress: Progress,
    ) -> None:
        self._buffers, self._buckets = buffers, buckets
        self._weight, self._host, self._send, self._progress = weight, host, send, progress
        self._of = {name: index for index, bucket in enumerate(buckets) for name in bucket.names}
        self._missing = [set(bucket.names) for bucket in buckets]
        self._sent: list[Future[None]] = []

    def ready(self, name: str, gradient: Any) -> None:
        """Take a gradient that is final.

        Raises:
            InvalidArgument: It was told before, or is none of the layout's.
        """
        missing = self._missing[self._of[name]] if name in self._of else set()
        if name not in missing:
            raise InvalidArgument(f"the gradient {name!r} twice, or of no parameter", "each parameter's once")
        self._buffers.put(name, self._host(gradient), self._weight())
        missing.remove(name)
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            part = self._buffers.part(self._buckets[len(self._sent)])
            self._sent.append(self._progress.give(lambda part=part: self._send(part)))  # type: ignore[misc]

    def land(self) -> tuple[Buffers, int]:
        """Wait until all are summed.

        Returns:
            The buffers, and how many nanoseconds this thread waited.

        Raises:
            InvalidArgument: Some gradients were never told.
        """
        lacking = sorted(name for names in self._missing for name in names)
        if lacking:
            raise InvalidArgument(f"no gradient of {', '.join(lacking)} was told", "on_ready called with each of them")
        start = perf_counter_ns()
        self.wait()
        return self._buffers, perf_counter_ns() - start

    def wait(self) -> None:
        """Wait for what is under way."""
        for future in self._sent:
            future.result()
