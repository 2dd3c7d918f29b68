"""Which samples come in which order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@runtime_checkable
class Sampler(Protocol):
    """The batches of an epoch, as numbers of samples.

    Pure in its arguments and the number of the epoch: any epoch can be replayed, and a run resumed in its middle.
    """

    def __len__(self) -> int:
        """The number of batches in an epoch."""

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The numbers of the samples in each batch of an epoch, which are counted from 0."""
