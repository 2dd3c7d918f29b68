r"""What is measured: each benchmark's operation, its sizes, and its bandwidths.

``n`` ranks; *bytes* is the size in the tables, after the OSU micro-benchmarks; *S* is the amount that nccl-tests divides by
the time, and *bus* the factor from this *algorithm bandwidth* to the *bus bandwidth*: what each rank's link must carry at
least.

============== ================================= ===================================== ========= ===========
benchmark      OSU's name                        bytes                                 S         bus
============== ================================= ===================================== ========= ===========
latency        ``osu_latency``                   one message                           bytes     1
bandwidth      ``osu_bw``                        one message of a window of 64         64 bytes  1
bidirectional  ``osu_bibw``                      one message of a window of 64         128 bytes 1
allreduce      ``osu_allreduce``                 each rank's vector                    bytes     2 (n-1) / n
reduce         ``osu_reduce``                    each rank's vector                    bytes     1
broadcast      ``osu_bcast``                     the root's array                      bytes     1
gather         ``osu_gather``                    what one rank gives                   n bytes   (n-1) / n
scatter        ``osu_scatter``                   what one rank gets                    n bytes   (n-1) / n
allgather      ``osu_allgather``                 what one rank gives                   n bytes   (n-1) / n
reduce-scatter ``osu_reduce_scatter``            each rank's whole vector              bytes     (n-1) / n
alltoall       ``osu_alltoall``                  what one rank gives to another        n bytes   (n-1) / n
barrier        ``osu_barrier``                   none                                  –         –
neighbours     ``osu_neighbor_allgather``, ring  what one rank gives to each neighbour bytes d   1
============== ================================= ===================================== ========= ===========

Latency is half of a round trip; bandwidth and bidirectional time a window of 64 messages until its answer of 4 bytes is
there. With ``neighbours`` each of n ranks gives to d = min(n - 1, 2) others on a ring.

Source:
    OSU micro-benchmarks, Network-Based Computing Laboratory, Ohio State University, README; NVIDIA nccl-tests,
    ``doc/PERFORMANCE.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deep_bench.distributed.machine.pairs import WINDOW


@dataclass(frozen=True, slots=True)
class Kind:
    """One benchmark.

    Args:
        name: As it is asked for.
        amount: Ranks and bytes to S, in bytes.
        bus: Ranks to the factor of the bus bandwidth.
        pair: Whether two ranks do it, and the others wait.
        sized: Whether it has sizes.
        messages: How many messages one sample of a pair stands for; its time is divided by them.
    """

    name: str
    amount: Callable[[int, int], int]
    bus: Callable[[int], float]
    pair: bool = False
    sized: bool = True
    messages: int = 1


def _bytes(ranks: int, size: int) -> int:  # noqa: ARG001
    return size


def _of_all(ranks: int, size: int) -> int:
    return ranks * size


def _one(ranks: int) -> float:  # noqa: ARG001
    return 1.0


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


_ALL = (
    Kind("allgather", _of_all, _others),
    Kind("allreduce", _bytes, lambda n: 2 * (n - 1) / n),
    Kind("alltoall", _of_all, _others),
    Kind("bandwidth", lambda _, size: WINDOW * size, _one, pair=True),
    Kind("barrier", _bytes, _one, sized=False),
    Kind("bidirectional", lambda _, size: 2 * WINDOW * size, _one, pair=True),
    Kind("broadcast", _bytes, _one),
    Kind("gather", _of_all, _others),
    Kind("latency", _bytes, _one, pair=True, messages=2),
    Kind("neighbours", lambda n, size: min(n - 1, 2) * size, _one),
    Kind("reduce", _bytes, _one),
    Kind("reduce-scatter", _bytes, _others),
    Kind("scatter", _of_all, _others),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}
"""Name to benchmark."""


def algorithm_bandwidth(kind: Kind, ranks: int, size: int, seconds: float) -> float | None:
    """S over the time, in bytes a second; ``None`` where nothing is moved.

    Example:
        >>> algorithm_bandwidth(KINDS["allgather"], 4, 1000, 1e-6) == 4e9
        True
    """
    amount = kind.amount(ranks, size)
    return amount / seconds if amount and seconds > 0 else None


def bus_bandwidth(kind: Kind, ranks: int, size: int, seconds: float) -> float | None:
    """The algorithm bandwidth times the factor of the benchmark, in bytes a second.

    Example:
        >>> bus_bandwidth(KINDS["allreduce"], 4, 1000, 1e-6)
        1500000000.0
    """
    bandwidth = algorithm_bandwidth(kind, ranks, size, seconds)
    return None if bandwidth is None else bandwidth * kind.bus(ranks)
