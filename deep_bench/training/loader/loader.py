"""Batches in the order of a sampler, read ahead."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from itertools import islice
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.tensor import TensorSpec
from deep_bench.training.dataset import Dataset
from deep_bench.training.loader.fetch import Batch, Fetch, Prepare
from deep_bench.training.loader.processes import Processes
from deep_bench.training.loader.threads import threaded
from deep_bench.training.sampler import Sampler
from deep_bench.training.samplers.draws import natural


class Loader:
    """Reads the batches of a sampler from a set, in its order, whatever number of workers.

    Where reading leaves Python's lock (memory copies, files, decoding), threads are enough; processes are for sets and
    preparations written in Python. They are started afresh, keep a copy of the set each, and hand batches over in shared
    memory.

    Args:
        dataset: The set. For processes it must be possible to pickle it.
        sampler: Which samples come in which order.
        preparation: What is done with a batch: called with the batch, the numbers of its samples and that of the epoch.
        workers: Threads or processes that read ahead; 0 reads when a batch is asked for.
        processes: Whether workers are processes.
        prefetch: The most batches that are begun and not handed out yet, which bounds the memory; by default two for each
            worker.

    Raises:
        InvalidArgument: Numbers that cannot be.

    Example:
        >>> import deep_bench as db
        >>> digits = db.datasets["digits"]("train")
        >>> loader = Loader(digits, db.samplers["shuffled"](digits, batch_size=512, seed=1), workers=1)
        >>> [len(numbers) for numbers, batch in loader.epoch(0)]
        [512, 512, 418]
    """

    def __init__(
        self,
        dataset: Dataset,
        sampler: Sampler,
        *,
        preparation: Prepare | None = None,
        workers: int = 0,
        processes: bool = False,
        prefetch: int | None = None,
    ) -> None:
        self._workers = natural("workers", workers)
        self._prefetch = 2 * workers if prefetch is None else natural("prefetch", prefetch, least=1)
        if self._prefetch < self._workers:
            raise InvalidArgument(f"prefetch {prefetch} for {workers} workers", f"at least {workers}, else some never read")
        if processes and not workers:
            raise InvalidArgument("processes without workers", "workers of at least 1")
        self.dataset = dataset
        self.sampler = sampler
        self._fetch = Fetch(dataset, preparation)
        self._processes = Processes(self._fetch, workers, self._prefetch) if processes else None
        if self._processes is not None:
            weakref.finalize(self, self._processes.close)

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The arrays of one sample as they are handed out; reads the first sample.

        Raises:
            InvalidData: It cannot be read.
        """
        first = self._fetch(0, np.zeros(1, np.int64))
        return tuple(TensorSpec(name, array.shape[1:], array.dtype) for name, array in first.items())

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self.sampler)

    def epoch(self, number: int, start: int = 0) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """The batches of an epoch with the numbers of their samples.

        A loop may be left at any time: nothing is read any more then, and no thread is left. Processes are kept for the next
        epoch; `close` ends them.

        Args:
            number: The epoch.
            start: Batches to pass over without reading them, to resume an epoch.

        Raises:
            InvalidArgument: A negative number, or a set that cannot be pickled.
            InvalidData: A sample that cannot be read; batches before it have been handed out.
            WorkerDied: A reading process ended.
        """
        return self._read(natural("epoch", number), islice(self.sampler.epoch(number), natural("start", start), None))

    def _read(self, epoch: int, batches: Iterator[NDArray[np.int64]]) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        # A generator of its own, so that this loader, and with it its processes, outlives an epoch in progress.
        if self._processes is not None:
            yield from self._processes.epoch(epoch, batches)
        elif self._workers:
            yield from threaded(self._fetch, epoch, batches, self._workers, self._prefetch)
        else:
            for numbers in batches:
                yield numbers, self._fetch(epoch, numbers)

    def close(self) -> None:
        """End the reading processes; an epoch begun later starts them again."""
        if self._processes is not None:
            self._processes.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
