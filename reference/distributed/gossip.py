"""AD-PSGD: pairs of ranks average when they happen to meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from deep_bench.arrays import NUMPY
from deep_bench.distributed.optimizer import Promise
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.scheme import Arrays, GradientsOf
from deep_bench.training.optimizer import Optimizer


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
