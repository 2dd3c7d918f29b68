"""Which formulas there are for each collective operation, and what they predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deep_bench.distributed.machine import pairs, rooted, symmetric
from deep_bench.distributed.machine.loggp import Costs
from deep_bench.errors import InvalidArgument, UnknownName

Formula: TypeAlias = Callable[[int, int, Costs], float]
"""Ranks, bytes, machine to seconds."""

ALGORITHMS: Mapping[str, Mapping[str, Formula]] = {
    "allgather": {
        "Bruck": symmetric.bruck_allgather,
        "recursive doubling": symmetric.doubling_allgather,
        "ring": symmetric.ring_allgather,
    },
    "allreduce": {
        "Rabenseifner": symmetric.rabenseifner_allreduce,
        "recursive doubling": symmetric.doubling_allreduce,
        "ring": symmetric.ring_allreduce,
        "tree": symmetric.tree_allreduce,
    },
    "alltoall": {
        "Bruck": symmetric.bruck_alltoall,
        "pairwise": symmetric.pairwise_alltoall,
        "posted": symmetric.posted_alltoall,
    },
    "barrier": {"dissemination": symmetric.dissemination_barrier},
    "broadcast": {
        "binomial tree": rooted.binomial_broadcast,
        "linear": rooted.linear_broadcast,
        "pipelined chain": rooted.chain_broadcast,
        "scatter and allgather": rooted.scatter_allgather_broadcast,
    },
    "gather": {"binomial tree": rooted.binomial_gather, "linear": rooted.linear_gather},
    "reduce": {"binomial tree": rooted.binomial_reduce, "linear": rooted.linear_reduce},
    "reduce-scatter": {
        "pairwise": symmetric.pairwise_reduce_scatter,
        "recursive halving": symmetric.halving_reduce_scatter,
    },
    "scatter": {"binomial tree": rooted.binomial_scatter, "linear": rooted.linear_scatter},
    "neighbours": {"posted": lambda p, n, m: symmetric.posted_exchange(min(p - 1, 2), n, m)},
    "latency": {"one message": lambda _, n, m: pairs.latency(n, m)},
    "bandwidth": {"window": lambda _, n, m: pairs.window(n, m)},
    "bidirectional": {"window": lambda _, n, m: pairs.window_both_ways(n, m)},
}
"""Collective to algorithm to formula. Bytes count as in `deep_bench.distributed.collectives.kinds`."""

POWERS_OF_TWO = frozenset({("allgather", "recursive doubling"), ("reduce-scatter", "recursive halving")})
"""Algorithms that there are for such numbers of ranks only."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a formula says.

    Args:
        seconds: How long it takes.
        algorithm: By this algorithm.
    """

    seconds: float
    algorithm: str


def predictions(collective: str, ranks: int, size: int, machine: Costs) -> list[Predicted]:
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
        >>> from deep_bench.distributed.machine.loggp import LogGP
        >>> machine = LogGP(L=1e-6, o=1e-6, g=1e-6, G=1e-10)
        >>> [predictions("allreduce", 16, size, machine)[0].algorithm for size in (8, 2**24)]
        ['recursive doubling', 'Rabenseifner']
    """
    if collective not in ALGORITHMS:
        raise UnknownName("collective", collective, ALGORITHMS)
    if ranks < 2 or size < 0:
        raise InvalidArgument(f"{collective} of {size} bytes among {ranks} ranks", "at least 2 ranks and 0 bytes")
    candidates = [
        Predicted(formula(ranks, size, machine), name)
        for name, formula in ALGORITHMS[collective].items()
        if ranks & (ranks - 1) == 0 or (collective, name) not in POWERS_OF_TWO
    ]
    return sorted(candidates, key=lambda candidate: candidate.seconds)
