"""Schemes in which ranks average with some others: D-PSGD with neighbours, AD-PSGD in pairs, SGP over directed graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import ClassVar

import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.distributed.optimizer import Promise
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.scheme import Arrays, GradientsOf, Scheme, combined, scaled, total
from deep_bench.training.optimizer import Optimizer, one_of, setting


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


@dataclass(frozen=True)
class Meetings:
    """What came of a sequence of pairs.

    Args:
        parameters: Those of each rank before the first event, and after each.
        staleness: For each event, how often the rank's parameters had changed since it read those that its gradient is of.
    """

    parameters: tuple[tuple[Arrays, ...], ...]
    staleness: tuple[int, ...]


@dataclass(frozen=True)
class Gossip:
    r"""Asynchronous decentralised parallel SGD, algorithm 1, with the pairs as they happened.

    In event :math:`k`, rank :math:`i` ends a gradient at :math:`\hat x_i`, the parameters that it held after its own last
    event, and averages with the rank :math:`j` it drew, which goes on with what it was doing:

    .. math::
        \bar x &= (x_i + x_j) / 2 \\
        x_j' &= \bar x \\
        x_i' &= \mathrm{inner}_i\left(\bar x, g_i(\hat x_i)\right)

    Averaging is atomic: no two events touch a rank at once, so that events have an order. Each averaging matrix is symmetric
    and doubly stochastic, which keeps the mean.

    Args:
        inner: Each rank's rule.

    Source:
        Lian, Zhang, Zhang and Liu, *Asynchronous decentralized parallel stochastic gradient descent*, ICML 2018,
        algorithm 1.
    """

    inner: Optimizer

    promise: ClassVar[Promise] = "contracting"

    def run(self, pairs: Sequence[tuple[int, int]], gradients_of: GradientsOf, parameters: list[Arrays]) -> Meetings:
        """Repeat what ranks did.

        Args:
            pairs: For each event, the rank that took a step and the one that it averaged with; itself where it was alone.
            gradients_of: From rank, the parameters that it read and the number of gradients that it computed before to its
                gradient.
            parameters: Those of each rank at first.

        Raises:
            InvalidArgument: A pair with a rank that does not exist.
        """
        x, read = list(parameters), list(parameters)
        states = [self.inner.init(arrays, NUMPY) for arrays in x]
        computed, missed = [0 for _ in x], [0 for _ in x]
        history, staleness = [tuple(x)], []
        for i, j in pairs:
            if not (0 <= i < len(x) and 0 <= j < len(x)):
                raise InvalidArgument(f"the pair {(i, j)} of {len(x)} ranks", f"ranks from 0 to {len(x) - 1}")
            gradient = gradients_of(i, read[i], computed[i])
            mean = {name: (x[i][name] + x[j][name]) / 2 for name in x[i]}
            x[j] = mean
            x[i], states[i] = self.inner.update(gradient, states[i], mean, NUMPY)
            read[i] = x[i]
            staleness.append(missed[i])
            missed[i], computed[i] = 0, computed[i] + 1
            if j != i:
                missed[j] += 1
            history.append(tuple(x))
        return Meetings(tuple(history), tuple(staleness))


def one_peer_exponential(rank: int, step: int, size: int) -> list[int]:
    """The only rank that a rank sends to in a step: 1, 2, 4, … places further, step after step, then from the begin.

    Example:
        >>> [one_peer_exponential(0, step, 8) for step in range(4)]
        [[1], [2], [4], [1]]
    """
    hops = [2**power for power in range(size) if 2**power < size]
    return [(rank + hops[step % len(hops)]) % size] if hops else []


@dataclass(frozen=True)
class GradientPush(Scheme):
    r"""Stochastic gradient push, algorithm 1.

    Rank :math:`i` holds a biased :math:`x_i` and a push weight :math:`w_i`, at first 1; the parameters that networks see are
    :math:`z_i = x_i / w_i`, where gradients are computed:

    .. math::
        x_i^{k+1/2} &= \mathrm{inner}_i\left(x_i^k, g_i(z_i^k)\right) \\
        x_i^{k+1} &= \sum_j p_{ij}^k x_j^{k+1/2}, \qquad w_i^{k+1} = \sum_j p_{ij}^k w_j^k \\
        z_i^{k+1} &= x_i^{k+1} / w_i^{k+1}

    A rank splits what it has evenly among itself and those that it sends to: the columns of :math:`P^k` sum to 1, its rows
    need not. So the sums of all :math:`x` and of all :math:`w` stay, whatever the graph, and dividing takes the bias out.
    Where everyone sends and receives equally often, all :math:`w` stay 1. Samples weight nothing: rank :math:`i` has the
    loss :math:`F_i`.

    Args:
        inner: Each rank's rule.
        targets: From rank, step and number of ranks to the ranks that are sent to; `one_peer_exponential`, the paper's.

    Source:
        Assran, Loizou, Ballas and Rabbat, *Stochastic gradient push for distributed deep learning*, ICML 2019, algorithm 1.
    """

    targets: Callable[[int, int, int], Sequence[int]] = one_peer_exponential

    promise = "contracting"

    def init(self, parameters):
        return {**super().init(parameters), "biased": [dict(z) for z in parameters], "weight": [1.0 for _ in parameters]}

    def step(self, gradients, samples, state, parameters):
        size = len(parameters)
        half, new = self.updated(gradients, state, state["biased"])
        arrived: list = [[] for _ in range(size)]
        arrived_weights: list = [[] for _ in range(size)]
        for rank in range(size):
            to = [rank, *self.targets(rank, state["steps"], size)]
            for peer in to:
                arrived[peer].append(scaled(1 / len(to), half[rank]))
                arrived_weights[peer].append(state["weight"][rank] / len(to))
        biased, weight = [total(terms) for terms in arrived], [sum(terms) for terms in arrived_weights]
        unbiased = [{name: x / w for name, x in arrays.items()} for arrays, w in zip(biased, weight, strict=True)]
        return unbiased, {**new, "biased": biased, "weight": weight}
