"""Batches read ahead by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.loader.fetch import Batch, Fetch

NAME = "deep_bench-loader"


def threaded(
    fetch: Fetch, epoch: int, batches: Iterator[NDArray[np.int64]], workers: int, prefetch: int
) -> Iterator[tuple[NDArray[np.int64], Batch]]:
    """The batches in order, at most ``prefetch`` of them begun and not handed out.

    When the iterator ends, for whatever reason, no thread of it is left.
    """
    ahead: deque[tuple[NDArray[np.int64], Future[Batch]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix=NAME) as pool:

        def begin(count: int) -> None:
            ahead.extend((numbers, pool.submit(fetch, epoch, numbers)) for numbers in islice(batches, count))

        try:
            begin(prefetch)
            while ahead:
                numbers, future = ahead.popleft()
                batch = future.result()
                begin(1)
                yield numbers, batch
                del batch, future  # else this frame would hold a batch that the caller has done with
        finally:
            for _, future in ahead:
                future.cancel()
