r"""One clock for all ranks: how far each rank's clock is from rank 0's, and how fast it runs away from it.

Rank 0 sends a message, the other rank answers with its clock's stamp. If the answer came at :math:`t_1`, the message left at
:math:`t_0` and the stamp is :math:`s`, the other clock is ahead by :math:`s - (t_0 + t_1) / 2`, give or take half of the
round trip. Of many round trips the shortest counts. This is done several times during a run; a line through what was found,
by least squares, is the clock's model: its slope is the drift, and what is left of each point is the skew that remains.

Source:
    Hoefler, Schneider and Lumsdaine, *Accurately measuring overhead, communication time and progression of blocking and
    nonblocking collective operations at massive scale*, IJPEDS 25 (2010), section 3; Hunold and Carpen-Amarie, *Reproducible
    MPI benchmarking is still not as easy as you think*, IEEE TPDS 27 (2016), section 4 (linear models of drift).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

import numpy as np
from numpy.typing import NDArray

from deep_bench.distributed.communicators.communicator import Communicator

ROUND_TRIPS = 50
"""Of which the shortest counts, each time."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one comparison of two clocks gave, in nanoseconds.

    Args:
        at: Rank 0's clock in the middle of the round trip.
        ahead: How far the other clock was ahead.
        round_trip: How long it took.
    """

    at: int
    ahead: int
    round_trip: int


@dataclass(frozen=True)
class Clock:
    """A rank's clock as seen from rank 0: ``ahead + drift * (t - origin)`` ahead of it at rank 0's time t.

    Args:
        origin: Rank 0's time that the line is taken from, in nanoseconds.
        ahead: At that time, in nanoseconds.
        drift: Nanoseconds that it gains in a nanosecond.
        error: Half of the shortest round trip: what no method by messages can see, in nanoseconds.
        residual: The largest distance of a reading from the line, in nanoseconds.
    """

    origin: int = 0
    ahead: float = 0.0
    drift: float = 0.0
    error: float = 0.0
    residual: float = 0.0

    @property
    def skew(self) -> float:
        """What two stamps of the same moment may differ by, in nanoseconds."""
        return self.error + self.residual

    def on_rank_0(self, stamps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Stamps of this clock on rank 0's, counted from ``origin``.

        Example:
            >>> Clock(origin=100, ahead=50.0).on_rank_0(np.array([250]))
            array([100.])
        """
        since = (stamps - self.origin).astype(np.float64)
        return (since - self.ahead) / (1 + self.drift)


class Clocks:
    """Compares the clocks of all ranks with rank 0's. All ranks call its methods together.

    Args:
        comm: Over which.
        clock: What is compared: nanoseconds.
    """

    def __init__(self, comm: Communicator, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._comm, self._clock = comm, clock
        self.readings: list[list[Reading]] = [[] for _ in range(comm.size)]

    def compare(self, round_trips: int = ROUND_TRIPS) -> None:
        """Take one reading of each rank's clock; rank 0 keeps them."""
        for rank in range(1, self._comm.size):
            if self._comm.rank == 0:
                self.readings[rank].append(self._ask(rank, round_trips))
            elif self._comm.rank == rank:
                self._answer(round_trips)

    def models(self) -> list[Clock]:
        """Each rank's clock; on rank 0, which has the readings."""
        return [Clock(), *(fitted(readings) for readings in self.readings[1:])]

    def _ask(self, rank: int, round_trips: int) -> Reading:
        stamp, word, clock = np.zeros(1, np.int64), np.zeros(1, np.int64), self._clock
        best: Reading | None = None
        for _ in range(round_trips):
            begin = clock()
            self._comm.send(word, rank)
            self._comm.recv(stamp, rank)
            end = clock()
            if best is None or end - begin < best.round_trip:
                middle = (begin + end) // 2
                best = Reading(middle, int(stamp[0]) - middle, end - begin)
        assert best is not None
        return best

    def _answer(self, round_trips: int) -> None:
        stamp, word = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for _ in range(round_trips):
            self._comm.recv(word, 0)
            stamp[0] = self._clock()
            self._comm.send(stamp, 0)


def fitted(readings: Sequence[Reading]) -> Clock:
    """The line through readings, by least squares. One reading gives an offset only.

    Readings whose round trip is more than twice the shortest are left out: they were disturbed.

    Example:
        >>> readings = [Reading(t, 1000 + t // 100, 200) for t in (0, 10_000, 20_000)]
        >>> clock = fitted(readings)
        >>> round(clock.drift, 6), round(clock.residual), clock.error
        (0.01, 0, 100.0)
    """
    shortest = min(reading.round_trip for reading in readings)
    good = [reading for reading in readings if reading.round_trip <= 2 * shortest]
    origin = good[0].at
    at = np.array([float(reading.at - origin) for reading in good])
    ahead = np.array([float(reading.ahead) for reading in good])
    if len(good) > 1 and at[-1] > 0:
        drift, start = np.polynomial.polynomial.polyfit(at / at[-1], ahead, 1)[::-1]
        drift /= at[-1]
    else:
        drift, start = 0.0, float(ahead.mean())
    residual = float(np.abs(ahead - start - drift * at).max())
    return Clock(origin, float(start), float(drift), shortest / 2, residual)


def common_origin(clocks: Sequence[Clock]) -> list[Clock]:
    """The same clocks, all counted from one moment of rank 0's time, so that their stamps can be compared.

    Example:
        >>> one, two = common_origin([Clock(), Clock(origin=1000, ahead=500.0, drift=0.5)])
        >>> two.origin == one.origin, two.ahead
        (True, 500.0)
    """
    origin = max(clock.origin for clock in clocks)
    return [Clock(origin, c.ahead + c.drift * (origin - c.origin), c.drift, c.error, c.residual) for c in clocks]
