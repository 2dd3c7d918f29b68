"""Batches read ahead by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from queue import Empty, SimpleQueue
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.loader.fetch import Batch, Fetch

NAME = "deep_bench-loader"

Answer = SimpleQueue[Batch | BaseException]
"""Where one batch, or what went wrong with it, is put and taken once."""

Job = tuple[NDArray[np.int64], Answer]


def threaded(
    fetch: Fetch, epoch: int, batches: Iterator[NDArray[np.int64]], workers: int, prefetch: int
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """The batches in order, at most ``prefetch`` of them begun and not handed out.

    When the iterator ends, for whatever reason, no thread of it is left.

    Threads and caller meet only in queues that are written in C. The locks of ``ThreadPoolExecutor`` are taken in Python:
    Ctrl-C amid one of its calls leaves a lock taken for ever, and its threads, and who waits for them, with it.
    """
    jobs: SimpleQueue[Job | None] = SimpleQueue()
    ahead: deque[Job] = deque()
    threads = [Thread(target=_read, args=(fetch, epoch, jobs), name=f"{NAME}_{n}", daemon=True) for n in range(workers)]

    def begin(count: int) -> None:
        for numbers in islice(batches, count):
            ahead.append((numbers, SimpleQueue()))
            jobs.put(ahead[-1])

    try:
        for thread in threads:
            thread.start()
        begin(prefetch)
        while ahead:
            numbers, answer = ahead.popleft()
            batch = answer.get()
            if isinstance(batch, BaseException):
                raise batch
            begin(1)
            yield numbers, batch
            del batch, answer  # else this frame would hold a batch that the caller has done with
    finally:
        _end(jobs, workers)
        for thread in threads:
            if thread.is_alive():
                thread.join()


def _read(fetch: Fetch, epoch: int, jobs: SimpleQueue[Job | None]) -> None:
    """What a thread does."""
    while (job := jobs.get()) is not None:
        numbers, answer = job
        try:
            answer.put(fetch(epoch, numbers))
        except BaseException as error:  # it is raised where the batch is asked for
            answer.put(error)


def _end(jobs: SimpleQueue[Job | None], workers: int) -> None:
    """Let no further job begin, and all threads end."""
    try:
        while True:
            jobs.get_nowait()
    except Empty:
        for _ in range(workers):
            jobs.put(None)
