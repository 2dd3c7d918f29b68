"""Synchronous data parallelism in two levels: within a node, then between nodes."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.reference.distributed.scheme import Scheme, contributions, total
from deep_bench.training.optimizer import COUNT, setting


@dataclass(frozen=True)
class Hierarchical(Scheme):
    r"""The sum of all contributions, in three phases: within each node, between nodes, and back within each node.

    .. math::
        G_m = \sum_{i \in \text{node } m} c_i, \qquad G = \sum_m G_m, \qquad x' = \mathrm{inner}(x, G)

    Another order of additions than in `AllReduce`, and nothing else.

    Args:
        inner: The rule, in the same state on every rank.
        per_node: Ranks in a node, which are numbered one after the other; the last node may have fewer.

    Source:
        Goyal et al., *Accurate, large minibatch SGD*, 2017, section 4.1 (gradient aggregation).
    """

    per_node: int = setting(1, COUNT)

    def step(self, gradients, samples, state, parameters):
        terms = contributions(gradients, samples)
        within = [total(terms[begin : begin + self.per_node]) for begin in range(0, len(terms), self.per_node)]
        whole = total(within)
        return self.updated([whole for _ in parameters], state, parameters)
