"""The mean of all ranks' gradients in flat buffers: what schemes that keep ranks equal have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter_ns
from typing import Any

import numpy as np

from deep_bench.arrays import ArrayFunctions
from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.flat import Pool
from deep_bench.distributed.overlap import Flight, Progress
from deep_bench.distributed.shares import Shares
from deep_bench.training.optimizer import Evaluate

Sum = Callable[[np.ndarray], None]
"""Replaces an array by its sum over all ranks."""


class GradientMean:
    """Gradients times this rank's weight, summed over ranks bucket by bucket.

    Args:
        comm: The ranks.
        total: Sums an array over them.
        bucket: The most bytes of a message.
        sum_in: The least element type in which gradients are summed; their own where it is wider, or ``None``.

    Attributes:
        shares: The weights.
        exposed_ns: How long the last step waited for messages.
    """

    exposed_ns: int | None = None

    def __init__(self, comm: Communicator, total: Sum, bucket: int | None, sum_in: str | None = None) -> None:
        self._comm, self._total = comm, total
        self._pool: Pool[Any] = Pool(bucket, None if sum_in is None else np.dtype(sum_in))
        self.shares = Shares(comm)
        self._flight: Flight | None = None
        self._host: Callable[[Any], np.ndarray] | None = None

    def learn(self, arrays: Mapping[str, Any], xp: ArrayFunctions[Any]) -> None:
        """Make ready for gradients like these arrays."""
        self._pool.prepare(arrays, xp)
        self._host = xp.host

    @property
    def nbytes(self) -> int:
        """The bytes of all gradients in the buffers, as far as they are known."""
        return 0 if self._pool.layout is None else self._pool.layout.nbytes

    def take_off(self, total: Sum, progress: Progress) -> Callable[[str, Any], None]:
        """Begin a step whose gradients are sent while they come.

        Args:
            total: Sums an array over the ranks; called by the thread.
            progress: The thread.

        Returns:
            What is to be told of each gradient.
        """
        if self._flight is not None:
            self._flight.wait()  # of a step that was not taken
        assert self._host is not None
        self._flight = Flight(
            self._pool.take(),
            self._pool.buckets,
            weight=self.shares.weight,
            host=self._host,
            send=total,
            progress=progress,
        )
        return self._flight.ready

    def __call__(
        self, gradients: Mapping[str, Any], xp: ArrayFunctions[Any], samples: int | None
    ) -> tuple[dict[str, Any], float]:
        """The mean of all ranks' gradients, and this rank's weight in it."""
        flight, self._flight = self._flight, None
        if flight is not None:
            buffers, self.exposed_ns = flight.land()
            weight = self.shares.settle(samples)
        else:
            weight = self.shares.settle(samples)
            buffers, self.exposed_ns = self._summed(gradients, xp, weight)
        self._host = xp.host
        return buffers.native(xp), weight

    def _summed(self, gradients: Mapping[str, Any], xp: ArrayFunctions[Any], weight: float) -> tuple[Any, int]:
        buffers = self._pool.packed(gradients, xp, weight)
        start = perf_counter_ns()
        for bucket in self._pool.buckets:
            self._total(buffers.part(bucket))
        return buffers, perf_counter_ns() - start

    def everywhere(self, evaluate: Evaluate | None, xp: ArrayFunctions[Any], weight: float) -> Evaluate | None:
        """The loss and its gradients over all ranks' samples, from those over this rank's."""
        if evaluate is None:
            return None

        def on_all(parameters: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            loss, gradients = evaluate(parameters)
            if self._pool.layout is not None:
                gradients = {name: gradients[name] for name in self._pool.layout.names}
            value = np.asarray(xp.host(loss), np.float64).reshape(1) * weight
            self._total(value)
            buffers, _ = self._summed(gradients, xp, weight)
            return xp.array(value.reshape(()), xp.dtype(loss)), buffers.native(xp)

        return on_all
