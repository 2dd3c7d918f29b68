"""Schemes that average gradients or parameters over all ranks: synchronous data parallelism and local SGD in their forms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.arrays import NUMPY, mapped
from deep_bench.reference.distributed.scheme import Scheme, combined, contributions, flat, total, unflat
from deep_bench.training.optimizer import COUNT, FLAG, NOT_NEGATIVE, setting


@dataclass(frozen=True)
class AllReduce(Scheme):
    r"""Every rank adds up all ranks' gradients, and takes the step that one process takes on the whole batch.

    With :math:`n_i` samples on rank :math:`i`, of the mean gradient :math:`g_i`:

    .. math::
        G = \sum_i \frac{n_i}{\sum_j n_j} g_i, \qquad x' = \mathrm{inner}(x, G)

    How messages are cut and when they are sent changes no value.

    Source:
        Goyal et al., *Accurate, large minibatch SGD*, 2017, equation 2, and section 3, remark 3 on normalising by the whole
        minibatch, which is the weighting; Chen, Pan, Monga, Bengio and Jozefowicz, *Revisiting distributed synchronous SGD*,
        ICLR workshop 2016, without backup workers.
    """

    def step(self, gradients, samples, state, parameters):
        whole = total(contributions(gradients, samples))
        return self.updated([whole for _ in parameters], state, parameters)


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


@dataclass(frozen=True)
class ShardedState(Scheme):
    r"""Optimizer state partitioning, :math:`P_{os}`.

    The vector of all parameters is cut into as many parts as there are ranks, whose lengths differ by at most one. Rank
    :math:`i` holds the state of part :math:`i` only. It gets the sum of all contributions to its part (reduce-scatter),
    updates that part, and all ranks gather all parts (allgather):

    .. math::
        x'[i] = \mathrm{inner}_i\left(x[i], \Big(\sum_j c_j\Big)[i]\right)

    For rules that treat every element by itself this is `AllReduce` to the last bit, wherever the cuts are; rules that look
    at a whole parameter (LARS, Muon, …) would see parts of it, and are none for this scheme.

    Args:
        inner: A rule that treats every element by itself.

    Source:
        Rajbhandari, Rasley, Ruwase and He, *ZeRO: memory optimizations toward training trillion parameter models*, SC 2020,
        section 5.1.
    """

    def init(self, parameters):
        parts = self.cut(flat(parameters[0]), len(parameters))
        return {"inner": [self.inner.init({"part": part}, NUMPY) for part in parts], "steps": 0}

    def step(self, gradients, samples, state, parameters):
        size = len(parameters)
        reduced = self.cut(flat(total(contributions(gradients, samples))), size)
        shards = [{"part": self.cut(flat(x), size)[rank]} for rank, x in enumerate(parameters)]
        updated, new = self.updated([{"part": g} for g in reduced], state, shards)
        gathered = np.concatenate([shard["part"] for shard in updated])
        return [unflat(gathered, x) for x in parameters], new

    @staticmethod
    def cut(vector: np.ndarray, parts: int) -> list[np.ndarray]:
        """A vector in parts whose lengths differ by at most one, the longer ones first."""
        return np.array_split(vector, parts)


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


@dataclass(frozen=True)
class PostLocal(Scheme):
    r"""The first :math:`t'` steps are those of `AllReduce`, and the later ones those of `Averaging`.

    The paper's number of local steps :math:`H(t)` is 1 for :math:`t \le t'`, which is mini-batch SGD, and :math:`H` for
    :math:`t > t'`. Steps between means are counted from the switch on, and each rank goes on with the state that all shared.

    Args:
        inner: Each rank's rule.
        until: :math:`t'`, the number of synchronous steps.
        every: :math:`H`.
        states: See `Averaging`.

    Source:
        Lin, Stich, Patel and Jaggi, *Don't use large mini-batches, use local SGD*, ICLR 2020, section 3 (post-local SGD).
    """

    until: int = setting(0, NOT_NEGATIVE)
    every: int = setting(1, COUNT)
    states: bool = setting(False, FLAG)

    promise = "bounded"

    def agreed(self, steps):
        return steps <= self.until or (steps - self.until) % self.every == 0

    def init(self, parameters):
        return {**super().init(parameters), "since": [0 for _ in parameters]}

    def step(self, gradients, samples, state, parameters):
        if state["steps"] < self.until:
            return AllReduce(self.inner).step(gradients, samples, state, parameters)
        local = {**state, "steps": state["steps"] - self.until}
        moved, new = Averaging(self.inner, self.every, self.states).step(gradients, samples, local, parameters)
        return moved, {**new, "steps": state["steps"] + 1}
