"""Model averaging and local SGD: ranks step on their own, and replace their parameters by the mean from time to time."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.arrays import mapped
from deep_bench.reference.distributed.scheme import Scheme, combined
from deep_bench.training.optimizer import COUNT, FLAG, setting


@dataclass(frozen=True)
class Averaging(Scheme):
    r"""Local SGD. Every step, each rank updates its own parameters; after every :math:`H`-th, all take the weighted mean.

    .. math::
        y_i &= \mathrm{inner}_i(x_i, g_i) \\
        x_i' &= \begin{cases} \sum_j \frac{n_j}{\sum_k n_k} y_j & H \mid t + 1 \\ y_i & \text{otherwise} \end{cases}

    :math:`n_j` counts the samples of rank :math:`j` since the last mean. States of inner rules stay where they are, unless
    they are averaged with the same weights (whole numbers never are). With :math:`H = 1` and a rule that is linear in the
    gradient this is what `AllReduce` does.

    Args:
        inner: Each rank's rule.
        every: :math:`H`.
        states: Whether states are averaged as well.

    Source:
        Stich, *Local SGD converges fast and communicates little*, ICLR 2019, algorithm 1 (equal weights); McMahan et al.,
        *Communication-efficient learning of deep networks from decentralized data*, AISTATS 2017, algorithm 1, whose server
        weights by samples; Zinkevich et al., *Parallelized stochastic gradient descent*, NIPS 2010, for a single mean.
    """

    every: int = setting(1, COUNT)
    states: bool = setting(False, FLAG)

    promise = "bounded"

    def agreed(self, steps):
        return steps % self.every == 0

    def init(self, parameters):
        return {**super().init(parameters), "since": [0 for _ in parameters]}

    def step(self, gradients, samples, state, parameters):
        since = [before + n for before, n in zip(state["since"], samples, strict=True)]
        local, new = self.updated(gradients, state, parameters, since=since)
        if new["steps"] % self.every:
            return local, new
        weights = [n / sum(since) for n in since]
        mean, inner = combined(weights, local), new["inner"]
        if self.states:
            shared = mapped(lambda *leaves: averaged(weights, leaves), *inner)
            inner = [shared for _ in parameters]
        return [dict(mean) for _ in parameters], {**new, "inner": inner, "since": [0 for _ in parameters]}


def averaged(weights, leaves):
    """The weighted mean of arrays; the first of whole numbers, such as the number of steps, which are alike everywhere."""
    if leaves[0].dtype.kind in "biu":
        return leaves[0]
    return sum(w * leaf for w, leaf in zip(weights, leaves, strict=True))
