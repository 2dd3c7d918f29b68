"""SGP: stochastic gradient push, averaging over directed graphs by PushSum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deep_bench.reference.distributed.scheme import Scheme, scaled, total


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
