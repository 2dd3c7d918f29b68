"""Every sample once: in order, or shuffled."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.training.samplers.batches import Cut, count_of
from deep_bench.training.samplers.draws import generator, natural


class Sequential:
    """Every sample once, in the order of the set; the same in every epoch.

    Args:
        samples: The set, or its number of samples.
        batch_size: Samples in a batch.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No samples, or no batch is left.

    Example:
        >>> [batch.tolist() for batch in Sequential(5, batch_size=2).epoch(0)]
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, samples: Sized | int, batch_size: int, *, drop_last: bool = False) -> None:
        self._cut = Cut(count_of(samples), batch_size, drop_last)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        natural("epoch", number)
        return self._cut(np.arange(self._cut.count))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "sequential", **self._cut.facts()}


class Shuffled:
    """Every sample once, in an order drawn anew in every epoch, all orders being equally likely.

    With ``drop_last``, other samples are left out in each epoch.

    Args:
        samples: The set, or its number of samples.
        batch_size: Samples in a batch.
        seed: With the number of the epoch, it decides the order.
        drop_last: Leave out a last batch that is smaller.

    Raises:
        InvalidArgument: No samples, no batch is left, or a negative seed.

    Example:
        >>> sampler = Shuffled(6, batch_size=3, seed=1)
        >>> sorted(np.concatenate(list(sampler.epoch(0))).tolist())
        [0, 1, 2, 3, 4, 5]
        >>> all((a == b).all() for a, b in zip(sampler.epoch(7), sampler.epoch(7), strict=True))
        True
    """

    def __init__(self, samples: Sized | int, batch_size: int, *, seed: int = 0, drop_last: bool = False) -> None:
        self._cut = Cut(count_of(samples), batch_size, drop_last)
        self._seed = natural("seed", seed)

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return len(self._cut)

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        return self._cut(generator(self._seed, number).permutation(self._cut.count))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"sampler": "shuffled", **self._cut.facts(), "seed": self._seed}
