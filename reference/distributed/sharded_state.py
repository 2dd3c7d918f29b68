"""ZeRO stage 1: each rank keeps, and uses, the optimizer's state of its own part of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from deep_bench.arrays import NUMPY
from deep_bench.reference.distributed.scheme import Scheme, contributions, flat, total, unflat


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
