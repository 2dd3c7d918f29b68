"""D-PSGD: everyone averages parameters with its neighbours, and adds its own step."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np

from deep_bench.reference.distributed.scheme import Scheme, combined
from deep_bench.training.optimizer import one_of, setting


@dataclass(frozen=True)
class Decentralised(Scheme):
    r"""Decentralised parallel SGD, algorithm 1: **parameters** of neighbours are averaged, not gradients.

    .. math::
        x_i' = \sum_j W_{ij} x_j + \left(\mathrm{inner}_i(x_i, g_i) - x_i\right)

    With SGD as the inner rule the bracket is the paper's :math:`-\gamma \nabla F_i(x_i)`: the gradient is that at
    :math:`x_i`, and not at the average. Rows and columns of :math:`W` sum to 1, so that the mean of all ranks moves as if
    there were one rank with the mean of all steps; without steps, ranks approach their mean by :math:`1 -` the spectral gap
    of :math:`W` each time. Samples weight nothing: rank :math:`i` has the loss :math:`F_i`.

    Args:
        inner: Each rank's rule.
        topology: ``"ring"``, ``"torus"``, ``"exponential"`` or ``"complete"``: see `neighbours`.

    Source:
        Lian et al., *Can decentralized algorithms outperform centralized algorithms?*, NIPS 2017, algorithm 1 and
        assumption 1 (W).
    """

    topology: str = setting("ring", one_of("complete", "exponential", "ring", "torus"))

    promise = "contracting"

    def step(self, gradients, samples, state, parameters):
        moved, new = self.updated(gradients, state, parameters)
        results = []
        for row, x, y in zip(weights(self.topology, len(parameters)), parameters, moved, strict=True):
            average = combined(row, parameters)
            results.append({name: average[name] + (y[name] - x[name]) for name in x})
        return results, new


def weights(topology: str, size: int) -> np.ndarray:
    """W: every rank gives itself and each of those it hears of the same weight."""
    matrix = np.zeros((size, size))
    for rank in range(size):
        heard = [rank, *neighbours(topology, rank, size)]
        for peer in heard:
            matrix[rank, peer] = 1 / len(heard)
    return matrix


def neighbours(topology: str, rank: int, size: int) -> list[int]:
    r"""Whom a rank hears of.

    - ring: the ranks before and after it.
    - torus: ranks fill a grid row by row, whose number of rows is the largest divisor of ``size`` up to its root; those
      above, below, left and right, around the ends.
    - exponential: those 1, 2, 4, … places before it, as long as that is less than ``size``.
    - complete: everyone.
    """
    if topology == "ring":
        near = [rank - 1, rank + 1]
    elif topology == "exponential":
        near = [rank - 2**power for power in range(size) if 2**power < size]
    elif topology == "complete":
        near = list(range(size))
    else:
        rows = max(rows for rows in range(1, isqrt(size) + 1) if size % rows == 0)
        columns = size // rows
        row, column = rank // columns, rank % columns
        near = [row * columns + (column - 1) % columns, row * columns + (column + 1) % columns]
        near += [(row - 1) % rows * columns + column, (row + 1) % rows * columns + column]
    return sorted({peer % size for peer in near} - {rank})
