r"""What collective operations without a root cost, by algorithm: allreduce, reduce-scatter, allgather, alltoall, barrier,
exchange among neighbours. The symbols and sources are those of `deep_bench.distributed.machine.rooted`.
"""

from __future__ import annotations

from deep_bench.distributed.machine.loggp import Costs, rounds, send_gap
from deep_bench.distributed.machine.rooted import steps


def _powers(p: int) -> list[int]:
    """The distances between partners, up to half of the largest power of two among p ranks: 1, 2, 4 …"""
    return [2**i for i in range(p.bit_length() - 1)]


def _fold(p: int, n: float) -> list[float]:
    """Where p is no power of two, the ranks above one hand their vector to another, and get the result in the end."""
    return [] if p & (p - 1) == 0 else [n]


def ring_allreduce(p: int, n: int, m: Costs) -> float:
    r"""A reduce-scatter and an allgather, both around the ring:
    :math:`(p - 1) (M(n / p) + \gamma n / p) + (p - 1) M(n / p)`.

    Source:
        Chan et al. 2007, bucket algorithms; Patarasuk and Yuan, *Bandwidth optimal all-reduce algorithms for
        clusters of workstations*, JPDC 69 (2009).
    """
    around = [n / p] * (p - 1)
    return rounds(m, added=around, copied=around)


def doubling_allreduce(p: int, n: int, m: Costs) -> float:
    r"""Whole vectors between ranks 1, 2, 4 … apart: :math:`\log_2 p (M(n) + \gamma n)`.

    Where p is no power of two: with the power below it, and :math:`2 M(n) + \gamma n` more.

    Source:
        Thakur et al. 2005, on allreduce (recursive doubling).
    """
    return rounds(m, added=[*_fold(p, n), *[n] * len(_powers(p))], copied=_fold(p, n))


def rabenseifner_allreduce(p: int, n: int, m: Costs) -> float:
    r"""Half, a quarter … of the vector, and the same back: :math:`\sum_{i=1}^{\log_2 p} (2 M(n / 2^i) + \gamma n / 2^i)`.

    Where p is no power of two: with the power below it, and :math:`2 M(n) + \gamma n` more.

    Source:
        Rabenseifner, *Optimization of collective reduction operations*, ICCS 2004; Thakur et al. 2005, on allreduce.
    """
    parts = [n / (2 * power) for power in _powers(p)]
    return rounds(m, added=[*_fold(p, n), *parts], copied=[*parts[::-1], *_fold(p, n)])


def tree_allreduce(p: int, n: int, m: Costs) -> float:
    r"""Up a binomial tree and down again: :math:`\lceil \log_2 p \rceil (2 M(n) + \gamma n)`.

    Source:
        Thakur et al. 2005, on allreduce (reduce followed by broadcast).
    """
    return rounds(m, added=[n] * steps(p), copied=[n] * steps(p))


def pairwise_reduce_scatter(p: int, n: int, m: Costs) -> float:
    r"""In round i with the ranks i further and i before: :math:`(p - 1) (M(n / p) + \gamma n / p)`. Around a ring: the same.

    Source:
        Thakur et al. 2005, on reduce-scatter (pairwise exchange).
    """
    return rounds(m, added=[n / p] * (p - 1))


def halving_reduce_scatter(p: int, n: int, m: Costs) -> float:
    r"""Half, a quarter … of the vector: :math:`\sum_{i=1}^{\log_2 p} (M(n / 2^i) + \gamma n / 2^i)`; p is a power of two.

    Source:
        Thakur et al. 2005, on reduce-scatter (recursive halving).
    """
    return rounds(m, added=[n / (2 * power) for power in _powers(p)])


def ring_allgather(p: int, k: float, m: Costs) -> float:
    r"""Each rank's :math:`k` bytes go around: :math:`(p - 1) M(k)`.

    Source:
        Thakur et al. 2005, on allgather (ring).
    """
    return rounds(m, copied=[k] * (p - 1))


def doubling_allgather(p: int, k: float, m: Costs) -> float:
    r"""All that is there, between ranks 1, 2, 4 … apart: :math:`\sum_{i=0}^{\log_2 p - 1} M(2^i k)`; p is a power of two.

    Source:
        Thakur et al. 2005, on allgather (recursive doubling).
    """
    return rounds(m, copied=[power * k for power in _powers(p)])


def bruck_allgather(p: int, k: float, m: Costs) -> float:
    r"""To the rank :math:`2^i` before, all that is there or still missing: :math:`\sum_i M(\min(2^i, p - 2^i) k)`, any p.

    Source:
        Bruck, Ho, Kipnis, Upfal and Weathersby, *Efficient algorithms for all-to-all communications in multiport
        message-passing systems*, IEEE TPDS 8 (1997); Thakur et al. 2005, on allgather.
    """
    return rounds(m, copied=[min(2**i, p - 2**i) * k for i in range(steps(p))])


def pairwise_alltoall(p: int, k: float, m: Costs) -> float:
    r"""In round i to the rank i further, from the one i before, :math:`k` bytes: :math:`(p - 1) M(k)`.

    Source:
        Thakur et al. 2005, on all-to-all (pairwise exchange).
    """
    return rounds(m, copied=[k] * (p - 1))


def bruck_alltoall(p: int, k: float, m: Costs) -> float:
    r"""In round i all blocks whose number has bit i go :math:`2^i` ranks further:
    :math:`\sum_i M(k \, |\{j < p: j_i = 1\}|)`.

    Source:
        Bruck et al. 1997; Thakur et al. 2005, on all-to-all.
    """
    return rounds(m, copied=[k * sum(j >> i & 1 for j in range(p)) for i in range(steps(p))])


def posted_exchange(d: int, k: float, m: Costs) -> float:
    r"""Everyone sends :math:`k` bytes to :math:`d` others at once, then takes as many:
    :math:`(d - 1) s(k) + \max(M(k), (d + 1) o)`.
    """
    return (d - 1) * send_gap(m, k) + max(m.message(k), (d + 1) * m.overhead(k)) if d else 0.0


def posted_alltoall(p: int, k: float, m: Costs) -> float:
    r"""`posted_exchange` with all :math:`p - 1` others."""
    return posted_exchange(p - 1, k, m)


def dissemination_barrier(p: int, n: int, m: Costs) -> float:  # noqa: ARG001 (nothing is sent but the message itself)
    r"""In round i a message to the rank :math:`2^i` further: :math:`\lceil \log_2 p \rceil M(1)`.

    Source:
        Hensgen, Finkel and Manber, *Two algorithms for barrier synchronization*, IJPP 17 (1988).
    """
    return rounds(m, copied=[1] * steps(p))
