"""Who talks to whom: graphs of ranks, and the weights with which they average."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from deep_bench.errors import InvalidArgument, UnknownName


@dataclass(frozen=True, slots=True)
class Topology:
    """A graph of ranks.

    Args:
        to: For each rank, the ranks that it sends to; none twice, and not itself.

    Raises:
        InvalidArgument: A rank that does not exist, is named twice or names itself.

    Example:
        >>> ring(4).to
        ((1, 3), (0, 2), (1, 3), (0, 2))
        >>> exponential(4).sources(0)
        (2, 3)
    """

    to: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for rank, targets in enumerate(self.to):
            if rank in targets or len(set(targets)) < len(targets) or not all(0 <= o < len(self.to) for o in targets):
                raise InvalidArgument(f"rank {rank} sends to {targets}", f"different others among 0 to {len(self.to) - 1}")

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.to)

    def sources(self, rank: int) -> tuple[int, ...]:
        """The ranks that send to a rank."""
        return tuple(source for source, to in enumerate(self.to) if rank in to)

    @property
    def symmetric(self) -> bool:
        """Whether everyone receives from those it sends to."""
        return all(set(to) == set(self.sources(rank)) for rank, to in enumerate(self.to))

    def weights(self) -> NDArray[np.float64]:
        r"""The matrix :math:`W` with which ranks average: :math:`x_i' = \sum_j W_{ij} x_j`, rows and columns summing to 1.

        For a symmetric graph by Metropolis and Hastings, :math:`W_{ij} = 1 / (1 + \max(d_i, d_j))`; where all send to and
        receive from equally many :math:`d` others, :math:`1 / (1 + d)`.

        Raises:
            InvalidArgument: Neither holds, so that averages would not keep the mean.

        Source:
            Xiao and Boyd, *Fast linear iterations for distributed averaging*, Systems & Control Letters 53 (2004), sec. 5;
            Assran, Loizou, Ballas and Rabbat, *Stochastic gradient push*, ICML 2019, section 3 (exponential graphs).
        """
        degrees = [len(to) for to in self.to]
        regular = len({*degrees, *(len(self.sources(rank)) for rank in range(self.size))}) == 1
        if not self.symmetric and not regular:
            raise InvalidArgument("a topology in which some receive from more ranks than they send to", "a balanced one")
        matrix = np.zeros((self.size, self.size))
        for source, to in enumerate(self.to):
            for rank in to:
                matrix[rank, source] = 1 / (1 + max(degrees[source], degrees[rank]))
        np.fill_diagonal(matrix, 1 - matrix.sum(axis=1))
        return matrix

    @property
    def spectral_gap(self) -> float:
        """1 minus the second largest singular value of the weights: how quickly averaging pulls ranks together."""
        values = np.linalg.svd(self.weights(), compute_uv=False)
        return float(1 - values[1]) if self.size > 1 else 1.0


def _graph(size: int, to: Callable[[int], list[int]]) -> Topology:
    if size < 1:
        raise InvalidArgument(f"a topology of {size} ranks", "at least one")
    return Topology(tuple(tuple(sorted({target % size for target in to(rank)} - {rank})) for rank in range(size)))


def ring(size: int) -> Topology:
    """Everyone with the ranks before and after it."""
    return _graph(size, lambda rank: [rank - 1, rank + 1])


def torus(size: int) -> Topology:
    """A grid, as square as ``size`` allows, whose ends meet: four neighbours each."""
    rows = next(rows for rows in range(isqrt(max(size, 1)), 0, -1) if size % rows == 0)
    columns = size // rows if size else 1

    def to(rank: int) -> list[int]:
        row, column = divmod(rank, columns)
        beside = [row * columns + (column + by) % columns for by in (-1, 1)]
        return beside + [(row + by) % rows * columns + column for by in (-1, 1)]

    return _graph(size, to)


def exponential(size: int) -> Topology:
    """Everyone sends to the ranks 1, 2, 4, … further; each rank is at most log2(ranks) messages from any other."""
    return _graph(size, lambda rank: [rank + 2**power for power in range((size - 1).bit_length())])


def complete(size: int) -> Topology:
    """Everyone with everyone."""
    return _graph(size, lambda _: list(range(size)))


TOPOLOGIES: Mapping[str, Callable[[int], Topology]] = {
    "complete": complete,
    "exponential": exponential,
    "ring": ring,
    "torus": torus,
}


def topology(name: str, size: int) -> Topology:
    """The topology of a name.

    Raises:
        UnknownName: There is none.
    """
    if name not in TOPOLOGIES:
        raise UnknownName("topology", name, TOPOLOGIES)
    return TOPOLOGIES[name](size)
