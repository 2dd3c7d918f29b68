"""How much a rank's gradients count: as many of all ranks' samples as it had."""

from __future__ import annotations

from typing import Any

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator, Done, Request
from deep_bench.errors import InvalidArgument


def check_samples(samples: Any) -> None:
    """Whether a rank can have so many samples.

    Raises:
        InvalidArgument: It is neither ``None`` nor a whole number of at least 0.
    """
    if samples is not None and (not isinstance(samples, int | np.integer) or isinstance(samples, bool) or samples < 0):
        raise InvalidArgument(f"{samples!r} samples", "a whole number of at least 0, or None")


class Shares:
    r"""The weight of this rank in a mean over ranks, :math:`n_i / \sum_j n_j` of samples.

    The sum is begun before gradients are computed, and is there when they are.

    Args:
        comm: The ranks.

    Example:
        >>> from deep_bench.distributed.communicators.local import run_local
        >>> def on_rank(comm):
        ...     shares = Shares(comm)
        ...     shares.begin(3 if comm.rank == 0 else 1)
        ...     return shares.settle(None)
        >>> run_local(2, on_rank)
        [0.75, 0.25]
    """

    def __init__(self, comm: Communicator) -> None:
        self._comm = comm
        self._samples: int | None = 0
        self._total = np.zeros(1, np.int64)
        self._begun: Request | None = None
        self._weight: float | None = None

    def begin(self, samples: int | None) -> None:
        """Begin to ask the others.

        Args:
            samples: How many this rank has; ``None`` for as many as everyone, and nobody is asked.

        Raises:
            InvalidArgument: See `check_samples`.
        """
        check_samples(samples)
        if self._begun is not None and self._weight is None:
            self._begun.wait()  # of a step that was not taken
        if samples is None:
            self._samples, self._weight, self._begun = None, 1 / self._comm.size, Done()
            return
        self._samples, self._weight = samples, None
        self._total[0] = samples
        self._begun = self._comm.iallreduce(self._total, out=self._total)

    def weight(self) -> float:
        """This rank's weight in the step that was begun.

        Raises:
            InvalidArgument: `begin` was not called, or no rank has samples.
        """
        if self._weight is None:
            if self._begun is None:
                raise InvalidArgument("a weight before the number of samples is known", "begin(samples) first")
            self._begun.wait()
            if self._total[0] == 0:
                raise InvalidArgument("a step in which no rank has samples", "at least one sample")
            self._weight = (self._samples or 0) / int(self._total[0])
        return self._weight

    def settle(self, samples: int | None) -> float:
        """This rank's weight in the step that ends.

        Args:
            samples: How many it had; ``None`` for as many as `begin` was told, or, where it was not called, as many as
                everyone.

        Raises:
            InvalidArgument: Another number than was begun with, or no rank had any.
        """
        if self._begun is None:
            if samples is None:
                return 1 / self._comm.size
            self.begin(samples)
        elif samples is not None and samples != self._samples:
            raise InvalidArgument(f"{samples} samples", f"{self._samples}, as begin(…) was told")
        weight = self.weight()
        self._begun = self._weight = None
        return weight
