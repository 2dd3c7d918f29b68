"""An order of samples, cut into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument
from deep_bench.training.samplers.draws import natural


def count_of(samples: Sized | int) -> int:
    """The number of samples of a set, or that number itself.

    Raises:
        InvalidArgument: There is none.
    """
    return natural("the number of samples", len(samples) if isinstance(samples, Sized) else samples, least=1)


@dataclass(frozen=True, slots=True)
class Cut:
    """How an order of ``count`` samples is cut into batches.

    Args:
        count: The number of samples in an epoch.
        size: The number of samples in a batch.
        drop_last: Leave out the last batch if it is smaller than the others.

    Raises:
        InvalidArgument: A size below 1, or one that leaves no batch at all.

    Example:
        >>> [batch.tolist() for batch in Cut(5, 2)(np.arange(5))]
        [[0, 1], [2, 3], [4]]
        >>> len(Cut(5, 2, drop_last=True))
        2
    """

    count: int
    size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        natural("batch_size", self.size, least=1)
        if not len(self):
            came = f"batches of {self.size} from {self.count} samples, with drop_last: none is left"
            raise InvalidArgument(came, f"a batch_size of at most {self.count}", "or keep the last batch: drop_last=False")

    def __len__(self) -> int:
        return self.kept // self.size + (self.kept % self.size > 0)

    @property
    def kept(self) -> int:
        """The number of samples that come in an epoch."""
        return self.count - self.count % self.size if self.drop_last else self.count

    def __call__(self, order: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """The batches of an order; what would be dropped is not looked at."""
        return (order[start : min(start + self.size, self.kept)] for start in range(0, self.kept, self.size))

    def facts(self) -> dict[str, Any]:
        """What a record keeps of it."""
        return {"batch_size": self.size, "drop_last": self.drop_last}
