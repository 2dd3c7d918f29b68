r"""Messages between two ranks, timed so that LogGP's parameters can be told apart.

One rank sends n messages of k bytes, with a delay d after each but the last; when all have come the other one sends one
back. With :math:`T(n, d, k)` for the whole,

.. math:: T(1, 0, k) = 2 (L + 2 o + (k - 1) G), \quad T(n, 0, k) = T(1, 0, k) + (n - 1) (g + (k - 1) G)

The first gives what a message takes, the second the gap. With a delay d that is longer than a message the wire is free
again: then handing a message over takes :math:`o`. Only the first rank's clock is used. All figures are medians.

Source:
    Hoefler, Lichei and Rehm, *Low-overhead LogGP parameter assessment for modern interconnection networks*, PMEO-PDS at
    IPDPS 2007, section 3 (parametrised round trips, as in netgauge). There :math:`o` is found from :math:`T(n, d, k)` too;
    stamps around each send see the same, and a rank that is interrupted disturbs them less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import TypeVar

import numpy as np

from deep_bench.distributed.communicators.communicator import Communicator
from deep_bench.distributed.machine.model import Point

T = TypeVar("T")

TRAIN = 10
"""Messages that follow each other."""

SIZES = (1, 8, 64, *(2**i for i in range(8, 19)), 2**20, 2**22)
"""In bytes, close together where libraries change their protocol."""

_REPEATS = 31
_TIME_NS = 40_000_000
"""At least three repeats, and then no more of a size than fit into this."""


def measured_points(comm: Communicator, pair: tuple[int, int], sizes: Sequence[int] = SIZES) -> list[Point]:
    """Measure messages of each size; the points on the pair's first rank, an empty list elsewhere.

    Args:
        comm: Over which. All its ranks may call it; those that are not of the pair return at once.
        pair: Two ranks.
        sizes: In bytes.
    """
    if comm.rank not in pair:
        return []
    first, peer = pair
    points = []
    for size in sorted(set(sizes)):
        x, back = np.zeros(size, np.int8), np.zeros(size, np.int8)
        if comm.rank == first:
            points.append(_point(comm, peer, x, back))
        else:
            _serve(comm, first, x, back)
    return points


def _point(comm: Communicator, peer: int, x: np.ndarray, back: np.ndarray) -> Point:
    """The first rank's side for one size: three kinds of round trips, in turn."""
    order = np.zeros(1, np.int64)

    def ordered(messages: int, call: Callable[[], T]) -> T:
        order[0] = messages
        comm.send(order, peer)
        comm.recv(order, peer)
        return call()

    for _ in range(3):
        ordered(1, lambda: _round_trip(comm, peer, x, back, 1))
    begin = perf_counter_ns()
    single: list[int] = []
    train: list[int] = []
    handing: list[int] = []
    while len(single) < 3 or (len(single) < _REPEATS and perf_counter_ns() - begin < _TIME_NS):
        single.append(ordered(1, lambda: _round_trip(comm, peer, x, back, 1)[0]))
        train.append(ordered(TRAIN, lambda: _round_trip(comm, peer, x, back, TRAIN)[0]))
        delay = max(int(np.median(single)), 1000)
        handing += ordered(TRAIN, lambda: _round_trip(comm, peer, x, back, TRAIN, delay)[1])  # noqa: B023
    ordered(0, lambda: 0)
    whole, behind, busy = (float(np.median(times)) for times in (single, train, handing))
    return Point(
        size=x.size,
        message=max(whole / 2, 1.0) / 1e9,
        gap=max(behind - whole, 0.0) / (TRAIN - 1) / 1e9,
        overhead=busy / 1e9,
        n=len(single),
    )


def _round_trip(
    comm: Communicator, peer: int, x: np.ndarray, back: np.ndarray, messages: int, delay: int = 0
) -> tuple[int, list[int]]:
    """So many messages there and one back, in nanoseconds; and how long it took to hand each over."""
    begun, handing = [], []
    begin = perf_counter_ns()
    for _ in range(messages):
        before = perf_counter_ns()
        begun.append(comm.isend(x, peer))
        handing.append(perf_counter_ns() - before)
        if delay:
            _spin(delay)
    for request in begun:
        request.wait()
    comm.recv(back, peer)
    return perf_counter_ns() - begin, handing


def _spin(duration: int) -> None:
    """Be busy for so many nanoseconds."""
    begin = perf_counter_ns()
    while perf_counter_ns() - begin < duration:
        pass


def _serve(comm: Communicator, first: int, x: np.ndarray, back: np.ndarray) -> None:
    """The other rank's side for one size: told how many messages come, it says that it is ready, takes them, and answers."""
    order = np.zeros(1, np.int64)
    while True:
        comm.recv(order, first)
        messages = int(order[0])
        begun = [comm.irecv(back, first) for _ in range(messages)]
        comm.send(order, first)
        if not messages:
            return
        for request in begun:
            request.wait()
        comm.send(x, first)


def combining_time(dtype: np.dtype, size: int = 2**20, repeats: int = 21) -> float:
    """Seconds to add a byte to another, in arrays of such elements: NumPy's time, on this rank."""
    elements = max(size // dtype.itemsize, 1)
    x, y = np.ones(elements, dtype), np.ones(elements, dtype)
    times = []
    for _ in range(repeats):
        begin = perf_counter_ns()
        np.add(x, y, out=y)
        times.append(perf_counter_ns() - begin)
    return float(np.median(times)) / 1e9 / x.nbytes
