"""``ExecutorSystem``: a network in a framework under LoadGen, answering in LoadGen's own thread or in several."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from threading import Condition, Thread
from time import monotonic
from typing import Any

from deep_bench.framework import Adapter
from deep_bench.mlperf.inference.batches import Runner, sizes_of
from deep_bench.mlperf.inference.library import Library
from deep_bench.mlperf.inference.system import Respond, System
from deep_bench.mlperf.inference.workload import Work, facts_of

_STOP_S = 10.0


class ExecutorSystem(System):
    """Answers with an executor in each of its threads.

    Args:
        work: What is run.

    Attributes:
        facts: What the framework says of itself.
        sizes: Of batches, ascending.
        runners: One for each thread; with ``workers=0``, the one that LoadGen's thread uses.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.facts: dict[str, Any] = {}
        self.adapter: Adapter[Any] | None = None
        self.runners: list[Runner] = []
        self.sizes = sizes_of(work)
        self._queue: deque[tuple[int, int, float]] = deque()
        self._news = Condition()
        self._stopped = False

    def start(self, library: Library, respond: Respond) -> None:
        """Prepare an executor for each thread, run each size of batch, and start the threads."""
        self._respond = respond
        self.adapter = self.work.variant.create()
        count = self.work.settings.threads
        for _ in range(max(count, 1)):
            executor = self.adapter.prepare(self.work.network)
            self.runners.append(Runner(self.work, self.adapter, executor, library, self.sizes))
        first = list(range(min(library.loaded, max(*self.sizes, 8))))
        for runner in self.runners:
            runner.warm_up(first)
        bound = sum(runner.bound for runner in self.runners)
        self.facts = {**facts_of(dict(self.adapter.describe())), "bound": bound == len(self.runners)}
        self.threads = tuple(Thread(target=self._serve, args=(runner,), daemon=True) for runner in self.runners[:count])
        for thread in self.threads:
            thread.start()

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        """Answer, or leave it to the threads."""
        if not self.threads:
            most = self.sizes[-1]
            for start in range(0, len(ids), most):
                part = slice(start, start + most)
                self._respond(ids[part], self.runners[0].answer(indices[part]))
            return
        timestamp = monotonic()
        with self._news:
            self._queue.extend(zip(ids, indices, [timestamp] * len(ids), strict=True))
            self._news.notify_all()

    def stop(self) -> None:
        """End the threads."""
        with self._news:
            self._stopped = True
            self._news.notify_all()
        for thread in self.threads:
            thread.join(_STOP_S)

    def _serve(self, runner: Runner) -> None:
        while batch := self._next():
            ids, indices = [entry[0] for entry in batch], [entry[1] for entry in batch]
            self._respond(ids, runner.answer(indices))

    def _next(self) -> list[tuple[int, int, float]]:
        """The next samples to answer together: a full batch, or what has waited long enough; none after `stop`."""
        most, delay = self.sizes[-1], self.work.settings.max_delay
        with self._news:
            while not self._stopped:
                if not self._queue:
                    self._news.wait()
                    continue
                remaining = self._queue[0][2] + delay - monotonic()
                if len(self._queue) < most and remaining > 0:
                    self._news.wait(remaining)
                    continue
                batch = list(islice(self._queue, most))
                for _ in batch:
                    self._queue.popleft()
                return batch
        return []
