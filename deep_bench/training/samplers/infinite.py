"""A stream of batches without end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import Unsupported
from deep_bench.training.sampler import Sampler
from deep_bench.training.samplers.draws import natural


class Infinite:
    """The epochs of another sampler one after another, cut elsewhere or not at all.

    With ``batches``, epoch ``k`` is batches ``k * batches`` up to ``(k + 1) * batches`` of that stream: for training that is
    evaluated every so many batches. Without, an epoch never ends, and starts with the other sampler's epoch of that number.

    Args:
        sampler: Where the batches come from.
        batches: Batches in an epoch; ``None`` for no end.

    Raises:
        InvalidArgument: Less than one batch.

    Example:
        >>> from deep_bench.training.samplers import Sequential
        >>> stream = Infinite(Sequential(3, batch_size=2), batches=3)
        >>> [batch.tolist() for batch in stream.epoch(1)]
        [[2], [0, 1], [2]]
    """

    def __init__(self, sampler: Sampler, batches: int | None = None) -> None:
        self._sampler = sampler
        self._batches = None if batches is None else natural("batches", batches, least=1)

    def __len__(self) -> int:
        """The number of batches in an epoch.

        Raises:
            Unsupported: It has no end.
        """
        if self._batches is None:
            raise Unsupported("an epoch without end has no length", advice="Infinite(sampler, batches=…) ends after so many")
        return self._batches

    def epoch(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The batches of an epoch."""
        natural("epoch", number)
        if self._batches is None:
            return self._from(number, 0)
        begun, passed = divmod(number * self._batches, len(self._sampler))
        return islice(self._from(begun, passed), self._batches)

    def _from(self, epoch: int, passed: int) -> Iterator[NDArray[np.int64]]:
        yield from islice(self._sampler.epoch(epoch), passed, None)
        for later in count(epoch + 1):
            yield from self._sampler.epoch(later)

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        inner: dict[str, Any] = getattr(self._sampler, "facts", dict)()
        return {"sampler": "infinite", "batches": self._batches, "of": inner}
