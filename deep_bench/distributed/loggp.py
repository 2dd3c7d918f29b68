r"""LogGP: what a message costs, and what collective operations cost by algorithm.

A message of :math:`k` bytes keeps its sender busy for :math:`o`, is on the wire for :math:`L + (k - 1) G`, and keeps its
receiver busy for :math:`o`. The next message can leave :math:`g + (k - 1) G` after it at the earliest.

In all formulas :math:`p` is the number of ranks, :math:`M(k)` a whole message of :math:`k` bytes, :math:`s(k)` the time from
one send to the next and :math:`\gamma` what combining a byte costs. They are exact
under LogGP for algorithms without a tree, whatever :math:`p`; for trees where :math:`p` is a power of two, and upper bounds
elsewhere.

Source:
    Culler et al., *LogP: towards a realistic model of parallel computation*, PPoPP 1993; Alexandrov, Ionescu, Schauser
    and Scheiman, *LogGP: incorporating long messages into the LogP model*, SPAA 1995. Combining costs :math:`\gamma` a
    byte, as in Thakur, Rabenseifner and Gropp, *Optimization of collective communication operations in MPICH*, IJHPCA 19
    (2005); Thakur, Rabenseifner and Gropp, *Optimization of collective communication operations in MPICH*, IJHPCA 19
    (2005); Chan, Heimlich, Purkayastha and van de Geijn, *Collective communication: theory, practice, and experience*,
    Concurrency and Computation 19 (2007).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Protocol, TypeAlias

from pydantic import Field

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.records.fields import RecordModel


class Costs(Protocol):
    """What the formulas ask of a machine; all in seconds, for messages of so many bytes."""

    def overhead(self, size: float) -> float:
        """How long a processor is busy with one end of a message: :math:`o`."""

    def message(self, size: float) -> float:
        """From the begin of sending to the end of receiving: :math:`L + 2 o + (k - 1) G`."""

    def gap(self, size: float) -> float:
        """From one send to the next, as far as the wire is concerned: :math:`g + (k - 1) G`."""

    def combining(self, size: float) -> float:
        r"""Adding up so many bytes: :math:`\gamma k`."""


class LogGP(RecordModel):
    """The parameters of one machine, for messages of one kind.

    Attributes:
        L: Latency of the wire, in seconds.
        o: Time that a processor is busy with one end of a message, in seconds.
        g: Least time between two messages, in seconds.
        G: Time for each further byte, in seconds a byte.
        gamma: Time to combine a byte with another, in seconds a byte.

    Example:
        >>> machine = LogGP(L=5e-6, o=1e-6, g=2e-6, G=1e-9)
        >>> f"{machine.message(1001):.2e} {machine.gap(1001):.2e}"
        '8.00e-06 3.00e-06'
    """

    L: float = Field(ge=0, allow_inf_nan=False)
    o: float = Field(ge=0, allow_inf_nan=False)
    g: float = Field(ge=0, allow_inf_nan=False)
    G: float = Field(ge=0, allow_inf_nan=False)
    gamma: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    def overhead(self, size: float) -> float:  # noqa: ARG002 (the same for all sizes)
        """See `Costs`."""
        return self.o

    def message(self, size: float) -> float:
        """See `Costs`."""
        return self.L + 2 * self.o + max(size - 1, 0) * self.G

    def gap(self, size: float) -> float:
        """See `Costs`."""
        return self.g + max(size - 1, 0) * self.G

    def combining(self, size: float) -> float:
        """See `Costs`."""
        return self.gamma * size


def send_gap(m: Costs, size: float) -> float:
    """From one send to the next on one processor: the wire's gap, or the processor's overhead where that is longer."""
    return max(m.overhead(size), m.gap(size))


def rounds(m: Costs, *, added: Sequence[float] = (), copied: Sequence[float] = ()) -> float:
    """Rounds in each of which everyone sends one message and receives one.

    A round lasts a message, or the gap after it where that is longer; after the last one nothing follows.

    Args:
        m: The machine.
        added: Bytes of a message in each of the first rounds, where what comes is added to what is there.
        copied: Bytes in each of the rounds after these, where it is kept as it is.

    Example:
        >>> rounds(LogGP(L=1, o=1, g=5, G=0), copied=[8, 8, 8])
        13.0
    """
    lasting = [(size, m.message(size) + m.combining(size)) for size in added]
    lasting += [(size, m.message(size)) for size in copied]
    waits = [max(time, m.gap(size)) for size, time in lasting]
    return float(sum(waits[:-1]) + sum(time for _, time in lasting[-1:]))


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


WINDOW = 64
"""Messages that are under way at once."""


ANSWER = 4
"""Bytes of the answer to a window."""


def latency(n: int, m: Costs) -> float:
    r"""Half of a round trip: :math:`M(n)`."""
    return m.message(n)


def window(n: int, m: Costs) -> float:
    r"""A window of :math:`w` messages one way, and an answer: :math:`(w - 1) s(n) + M(n) + M(4)`."""
    return (WINDOW - 1) * send_gap(m, n) + m.message(n) + m.message(ANSWER)


def window_both_ways(n: int, m: Costs) -> float:
    r"""A window both ways, and an answer one way: `posted_exchange` of :math:`w` messages :math:`+ M(4)`.

    The answer leaves when the window has come, and the wire is free again after one's own.
    """
    free = (WINDOW - 1) * send_gap(m, n) + m.gap(n)
    return max(posted_exchange(WINDOW, n, m), free) + m.message(ANSWER)


Formula: TypeAlias = Callable[[int, int, Costs], float]
"""Ranks, bytes, machine to seconds."""


ALGORITHMS: Mapping[str, Mapping[str, Formula]] = {
    "allgather": {
        "Bruck": bruck_allgather,
        "recursive doubling": doubling_allgather,
        "ring": ring_allgather,
    },
    "allreduce": {
        "Rabenseifner": rabenseifner_allreduce,
        "recursive doubling": doubling_allreduce,
        "ring": ring_allreduce,
        "tree": tree_allreduce,
    },
    "alltoall": {
        "Bruck": bruck_alltoall,
        "pairwise": pairwise_alltoall,
        "posted": posted_alltoall,
    },
    "barrier": {"dissemination": dissemination_barrier},
    "broadcast": {
        "binomial tree": binomial_broadcast,
        "linear": linear_broadcast,
        "pipelined chain": chain_broadcast,
        "scatter and allgather": scatter_allgather_broadcast,
    },
    "gather": {"binomial tree": binomial_gather, "linear": linear_gather},
    "reduce": {"binomial tree": binomial_reduce, "linear": linear_reduce},
    "reduce-scatter": {
        "pairwise": pairwise_reduce_scatter,
        "recursive halving": halving_reduce_scatter,
    },
    "scatter": {"binomial tree": binomial_scatter, "linear": linear_scatter},
    "neighbours": {"posted": lambda p, n, m: posted_exchange(min(p - 1, 2), n, m)},
    "latency": {"one message": lambda _, n, m: latency(n, m)},
    "bandwidth": {"window": lambda _, n, m: window(n, m)},
    "bidirectional": {"window": lambda _, n, m: window_both_ways(n, m)},
}
"""Collective to algorithm to formula. Bytes count as in `deep_bench.distributed.collectives.operations`."""


POWERS_OF_TWO = frozenset({("allgather", "recursive doubling"), ("reduce-scatter", "recursive halving")})
"""Algorithms that there are for such numbers of ranks only."""


@dataclass(frozen=True, slots=True)
class PredictedTime:
    """What a formula says.

    Args:
        seconds: How long it takes.
        algorithm: By this algorithm.
    """

    seconds: float
    algorithm: str


def predictions(collective: str, ranks: int, size: int, machine: Costs) -> list[PredictedTime]:
    """What each algorithm costs under LogGP, the cheapest first.

    Args:
        collective: One of `ALGORITHMS`.
        ranks: How many, at least 2.
        size: Bytes.
        machine: What messages cost.

    Raises:
        UnknownName: There is no such collective.
        InvalidArgument: Fewer than 2 ranks, or a negative size.

    Example:
        >>> from deep_bench.distributed.loggp import LogGP
        >>> machine = LogGP(L=1e-6, o=1e-6, g=1e-6, G=1e-10)
        >>> [predictions("allreduce", 16, size, machine)[0].algorithm for size in (8, 2**24)]
        ['recursive doubling', 'Rabenseifner']
    """
    if collective not in ALGORITHMS:
        raise UnknownName("collective", collective, ALGORITHMS)
    if ranks < 2 or size < 0:
        raise InvalidArgument(f"{collective} of {size} bytes among {ranks} ranks", "at least 2 ranks and 0 bytes")
    candidates = [
        PredictedTime(formula(ranks, size, machine), name)
        for name, formula in ALGORITHMS[collective].items()
        if ranks & (ranks - 1) == 0 or (collective, name) not in POWERS_OF_TWO
    ]
    return sorted(candidates, key=lambda candidate: candidate.seconds)
