"""What a split gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.dataset import Dataset

Batch = dict[str, np.ndarray]
Prepare = Callable[[Batch, NDArray[np.int64], int], Batch]
"""From a batch, the numbers of its samples and the number of the epoch to what is made of it."""


@dataclass(frozen=True, eq=False)
class Division:
    """A set in two.

    Args:
        train: The samples to train on.
        held_out: The samples to evaluate on.
        prepare: From the seed of a run to what is done with each batch of the first; nothing without it.
    """

    train: Dataset
    held_out: Dataset
    prepare: Callable[[int], Prepare] | None = None
