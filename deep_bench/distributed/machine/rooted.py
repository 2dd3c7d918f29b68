r"""What collective operations with a root cost, by algorithm: broadcast, scatter, reduce, gather.

In all formulas :math:`p` is the number of ranks, :math:`M(k)` a whole message of :math:`k` bytes, :math:`s(k)` the time from
one send to the next and :math:`\gamma` what combining a byte costs (`deep_bench.distributed.machine.loggp`). They are exact
under LogGP for algorithms without a tree, whatever :math:`p`; for trees where :math:`p` is a power of two, and upper bounds
elsewhere.

Source:
    Thakur, Rabenseifner and Gropp, *Optimization of collective communication operations in MPICH*, IJHPCA 19 (2005);
    Chan, Heimlich, Purkayastha and van de Geijn, *Collective communication: theory, practice, and experience*, Concurrency
    and Computation 19 (2007).
"""

from __future__ import annotations

from math import ceil

from deep_bench.distributed.machine.loggp import Costs, rounds, send_gap

SEGMENT = 2**16
"""Bytes of a piece in a pipeline."""


def steps(p: int) -> int:
    r""":math:`\lceil \log_2 p \rceil`.

    Example:
        >>> [steps(p) for p in (1, 2, 3, 4, 5)]
        [0, 1, 2, 2, 3]
    """
    return (p - 1).bit_length()


def tree_blocks(p: int) -> list[int]:
    """How many ranks lie below each child of the root of a binomial tree, the largest first.

    Example:
        >>> tree_blocks(8), tree_blocks(6)
        ([4, 2, 1], [2, 2, 1])
    """
    return [min(2**i, p - 2**i) for i in reversed(range(steps(p)))]


def linear_broadcast(p: int, n: int, m: Costs) -> float:
    r"""The root sends to one after the other: :math:`(p - 2) s(n) + M(n)`."""
    return (p - 2) * send_gap(m, n) + m.message(n)


def binomial_broadcast(p: int, n: int, m: Costs) -> float:
    r"""Everyone who has it sends it on: :math:`\lceil \log_2 p \rceil M(n)`.

    Source:
        Thakur et al. 2005, on broadcast; Chan et al. 2007, minimum-spanning-tree broadcast.
    """
    return rounds(m, copied=[n] * steps(p))


def chain_broadcast(p: int, n: int, m: Costs) -> float:
    r"""From rank to rank, in :math:`q` pieces of :math:`c` bytes, one behind the other:
    :math:`(p - 1) M(c) + (q - 1) \max(2 o, s(c))`.

    A rank in the middle receives a piece and sends it on (:math:`2 o`); with two ranks there is none, and :math:`s(c)`
    counts.

    Source:
        Chan et al. 2007, on pipelined algorithms.
    """
    q = max(ceil(n / SEGMENT), 1)
    c = n / q
    period = send_gap(m, c) if p == 2 else max(2 * m.overhead(c), m.gap(c))
    return (p - 1) * m.message(c) + (q - 1) * period


def scatter_allgather_broadcast(p: int, n: int, m: Costs) -> float:
    r"""A binomial scatter, then a ring: :math:`\sum_i M(2^i n / p) + (p - 1) M(n / p)`.

    Source:
        Thakur et al. 2005, on broadcast (van de Geijn's algorithm); Chan et al. 2007, on long vectors.
    """
    down = [blocks * n / p for blocks in tree_blocks(p)]
    return rounds(m, copied=[*down, *[n / p] * (p - 1)])


def linear_scatter(p: int, k: float, m: Costs) -> float:
    r"""The root sends to one after the other, :math:`k` bytes to each: :math:`(p - 2) s(k) + M(k)`."""
    return (p - 2) * send_gap(m, k) + m.message(k)


def binomial_scatter(p: int, k: float, m: Costs) -> float:
    r"""Down a tree, to each child what belongs to all below it: :math:`\sum_i M(2^i k)`, :math:`2^i < p`.

    Source:
        Chan et al. 2007, minimum-spanning-tree scatter and gather.
    """
    return rounds(m, copied=[blocks * k for blocks in tree_blocks(p)])


def linear_gather(p: int, k: float, m: Costs) -> float:
    r"""Everyone sends :math:`k` bytes to the root, which takes one after the other: :math:`M(k) + (p - 2) s(k)`."""
    return m.message(k) + (p - 2) * send_gap(m, k)


def binomial_gather(p: int, k: float, m: Costs) -> float:
    r"""Up a tree, from each child what all below it gave: :math:`\sum_i M(2^i k)`, :math:`2^i < p`.

    Source:
        Chan et al. 2007, minimum-spanning-tree scatter and gather.
    """
    return rounds(m, copied=[blocks * k for blocks in reversed(tree_blocks(p))])


def linear_reduce(p: int, n: int, m: Costs) -> float:
    r"""The root takes all vectors, and adds up: :math:`M(n) + \gamma n + (p - 2) \max(o + \gamma n, g + (n - 1) G)`."""
    return m.message(n) + m.combining(n) + (p - 2) * max(m.overhead(n) + m.combining(n), m.gap(n))


def binomial_reduce(p: int, n: int, m: Costs) -> float:
    r"""Up a tree, added up on the way: :math:`\lceil \log_2 p \rceil (M(n) + \gamma n)`.

    Source:
        Thakur et al. 2005, on reduce; Chan et al. 2007, minimum-spanning-tree reduce.
    """
    return rounds(m, added=[n] * steps(p))
