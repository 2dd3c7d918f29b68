"""``Runner``: one executor that answers batches of samples, of as few sizes as possible; and the sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.framework import Adapter, Executor
from deep_bench.mlperf.inference.faults import RunFailed
from deep_bench.mlperf.inference.library import Library
from deep_bench.mlperf.inference.workload import Work

_LARGE = 64
"""From this size on, a call takes about as much longer as its batch is larger."""

_CALLS = 6
"""With each size, until it is ready."""


def sizes_of(work: Work) -> list[int]:
    """The sizes of batches that are made ready before the test: powers of two and the largest, or the network's fixed one.

    Raises:
        InvalidArgument: Another batch than the network's fixed one.

    Example:
        >>> from deep_bench.mlperf.inference.settings import Settings
        >>> from deep_bench.mlperf.inference.workload import make_work
        >>> sizes_of(make_work("digits-cnn", "reference", None, Settings("Offline", batch=6)))
        [1, 2, 4, 6]
    """
    size = work.fixed_batch
    if size is None:
        most = work.settings.most_at_once
        return sorted({most, *(2**k for k in range(most.bit_length()) if 2**k <= most)})
    if work.settings.batch not in (None, size):
        raise InvalidArgument(
            f"batch={work.settings.batch} of {work.network.name}", f"the network's own fixed batch, {size}"
        )
    return [size]


class Runner:
    """Holds one executor, and a buffer of each size.

    Where a bound call follows what is written into its inputs, samples are copied there and the call is repeated; else each
    batch is handed to the framework anew. Which of the two is found out by trying, at `warm_up`.

    Args:
        work: What is run.
        adapter: The framework.
        executor: The network in it.
        library: The samples.
        sizes: Of batches, ascending.
    """

    def __init__(
        self, work: Work, adapter: Adapter[Any], executor: Executor[Any], library: Library, sizes: Sequence[int]
    ) -> None:
        self.executor = executor
        self._work, self._adapter, self._library = work, adapter, library
        self._sizes = list(sizes)
        self._buffers: dict[int, dict[str, np.ndarray]] = {}
        self._calls: dict[int, Callable[[], dict[str, Any]]] = {}

    @property
    def bound(self) -> bool:
        """Whether bound calls are used."""
        return bool(self._calls)

    def warm_up(self, indices: Sequence[int]) -> None:
        """Run each size, and see whether bound calls follow their inputs.

        Args:
            indices: Of loaded samples.
        """
        for size in self._sizes:
            buffers = {
                spec.name: np.zeros((size, *map(int, array.shape[1:])), spec.dtype)
                for spec, array in zip(self._work.network.inputs, self._library.gather(indices[:1]).values(), strict=True)
            }
            self._buffers[size] = buffers
            native = {name: self._adapter.adopt(buffer) for name, buffer in buffers.items()}
            call = self.executor.bind(native)
            if self._follows(size, call, indices):
                self._calls[size] = call
            self.answer(indices[:size])
            begin = perf_counter()
            self.answer(indices[:size])
            self._foresee(size, perf_counter() - begin)

    def _foresee(self, size: int, seconds: float) -> None:
        """See that the larger sizes will be ready in time, by how long a call of this one takes.

        Raises:
            RunFailed: They will not.
        """
        remaining = _CALLS * seconds * sum(larger for larger in self._sizes if larger > size) / size
        limit = self._work.settings.ready_s
        if size >= _LARGE and remaining > limit:
            most = self._sizes[-1]
            came = (
                f"batches of up to {most}: about {remaining:.0f} s until all sizes have run, as {size} takes {seconds:.2g} s"
            )
            raise RunFailed(came, f"at most {limit:g} s", "a smaller --batch, or a longer --stall")

    def answer(self, indices: Sequence[int]) -> NDArray[np.generic]:
        """The answers to loaded samples, at most as many as the largest size, once the device has made them.

        Raises:
            RunFailed: The network gave another number of rows.
        """
        size = next(size for size in self._sizes if size >= len(indices))
        buffers = self._buffers[size]
        self._library.fill(buffers, indices)
        outputs = self._run(size, self._calls.get(size))
        if len(outputs) != size:
            raise RunFailed(f"{len(outputs)} rows of {self._work.output!r} for a batch of {size}", "one for each sample")
        return self._work.answers(outputs[: len(indices)])

    def _run(self, size: int, call: Callable[[], dict[str, Any]] | None) -> np.ndarray:
        if call is None:
            native = {name: self._adapter.from_numpy(buffer) for name, buffer in self._buffers[size].items()}
            outputs = self.executor.forward(native)
        else:
            outputs = call()
        self._adapter.synchronize()
        return self._adapter.to_numpy(outputs[self._work.output])

    def _follows(self, size: int, call: Callable[[], dict[str, Any]], indices: Sequence[int]) -> bool:
        """Whether a bound call gives, for one sample after another, what an unbound one does."""
        outputs: list[np.ndarray] = []
        for index in indices[:8]:
            self._library.fill(self._buffers[size], [index])
            bound, anew = self._run(size, call), self._run(size, None)
            if not np.allclose(bound, anew, rtol=1e-3, atol=1e-5, equal_nan=True):
                return False
            outputs.append(anew)
            if not np.allclose(outputs[0], anew, rtol=1e-3, atol=1e-5, equal_nan=True):
                return True
        return False
