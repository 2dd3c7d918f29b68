r"""LogGP's parameters from measured messages, with the sizes at which they change.

Within a segment of sizes, :math:`A = L + 2 o`, :math:`g` and :math:`G`, none of them negative, minimise the squared relative
distances of :math:`A + (k - 1) G` from the time of a message and of :math:`g + (k - 1) G` from the gap; :math:`o` is the
median of the overheads. Libraries send short messages at once (*eager*) and agree on long ones first (*rendezvous*), and
copies outgrow caches: so up to four segments are tried, with all borders between sizes, and the number with the least
Bayesian information criterion is kept.

Source:
    Hoefler, Lichei and Rehm 2007 (as in `deep_bench.distributed.machine.messages`), section 3.3 (least squares, change of
    protocol); segments by dynamic programming: Bai and Perron, *Computation and analysis of multiple structural change
    models*, J. Applied Econometrics 18 (2003); Schwarz, *Estimating the dimension of a model*, Annals of Statistics 6
    (1978).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log

import numpy as np
from scipy.optimize import nnls

from deep_bench.distributed.machine.loggp import LogGP
from deep_bench.distributed.machine.model import Point, Segment
from deep_bench.errors import InvalidArgument

MOST_SEGMENTS = 4
LEAST_POINTS = 3
"""In a segment."""

_BUSY = "a rank is busy with one for at least as long as half of it takes, so that nothing is left for the wire"

_FLOOR = 1e-6
"""Of the mean squared relative distance: nothing is measured more exactly than to a thousandth."""


@dataclass(frozen=True)
class Fit:
    """What was found.

    Args:
        segments: Parameters by size.
        residual: Root of the mean squared relative distance.
        worst: The largest relative distance.
        notes: What a reader should know.
    """

    segments: list[Segment]
    residual: float
    worst: float
    notes: list[str]


def fitted(points: Sequence[Point], gamma: float = 0.0) -> Fit:
    """The parameters that suit the points best.

    Args:
        points: At least three.
        gamma: The time to combine a byte, in seconds.

    Raises:
        InvalidArgument: Fewer than three points.

    Example:
        >>> points = [Point(size=k, message=3e-6 + (k - 1) * 1e-9, gap=1e-6 + (k - 1) * 1e-9, overhead=5e-7, n=9)
        ...           for k in (1, 64, 1024, 8192, 65536)]
        >>> found = fitted(points).segments[0].parameters
        >>> [f"{value:.1e}" for value in (found.L, found.o, found.g, found.G)]
        ['2.0e-06', '5.0e-07', '1.0e-06', '1.0e-09']
    """
    if len(points) < LEAST_POINTS:
        raise InvalidArgument(f"{len(points)} measured sizes", f"at least {LEAST_POINTS}")
    ordered = sorted(points, key=lambda point: point.size)
    borders = _borders(ordered)
    segments: list[Segment] = []
    busy: list[str] = []
    distances: list[float] = []
    for begin, end in pairwise(borders):
        part = ordered[begin:end]
        (a, g, per_byte), off = _line(part)
        distances += off
        o = float(np.median([point.overhead for point in part]))
        if 2 * o > a:
            busy.append(f"of {part[0].size} to {part[-1].size} bytes")
            o = a / 2
        up_to = part[-1].size if end < len(ordered) else None
        parameters = LogGP(L=max(a - 2 * o, 0.0), o=o, g=g, G=per_byte, gamma=gamma)
        segments.append(Segment(up_to=up_to, parameters=parameters))
    squares = np.square(distances)
    notes = [f"L is 0, and o half of a message, for messages {', '.join(busy)}: {_BUSY}"] if busy else []
    return Fit(segments, float(np.sqrt(squares.mean())), float(np.abs(distances).max()), notes)


def _line(points: Sequence[Point]) -> tuple[tuple[float, float, float], list[float]]:
    """A, g and G of some points, and the relative distances that are left."""
    rows, distances = [], []
    for point in points:
        further = point.size - 1
        rows.append(np.array([1.0, 0.0, further]) / point.message)
        if point.gap > 0:
            rows.append(np.array([0.0, 1.0, further]) / point.gap)
    matrix = np.array(rows)
    scale = np.linalg.norm(matrix, axis=0)
    scale[scale == 0] = 1.0
    solution, _ = nnls(matrix / scale, np.ones(len(rows)))
    distances = (matrix @ (solution / scale) - 1.0).tolist()
    a, g, per_byte = (solution / scale).tolist()
    return (a, g, per_byte), distances


def _borders(points: Sequence[Point]) -> list[int]:
    """Where segments begin and end, by dynamic programming over the sum of squares."""
    n = len(points)
    cost = np.full((n + 1, n + 1), inf)
    for begin in range(n):
        for end in range(begin + LEAST_POINTS, n + 1):
            cost[begin, end] = float(np.square(_line(points[begin:end])[1]).sum())
    best: dict[int, list[tuple[float, list[int]]]] = {1: [(cost[0, end], [0, end]) for end in range(n + 1)]}
    for count in range(2, MOST_SEGMENTS + 1):
        best[count] = [
            min(
                ((before[0] + cost[middle, end], [*before[1], end]) for middle, before in enumerate(best[count - 1][:end])),
                default=(inf, []),
            )
            for end in range(n + 1)
        ]
    chosen = [by_end[n] for by_end in best.values() if by_end[n][0] < inf]
    return min(chosen, key=lambda candidate: _criterion(candidate[0], 2 * n, len(candidate[1]) - 1))[1]


def _criterion(squares: float, observations: int, segments: int) -> float:
    """Schwarz's criterion: three parameters and a border for each segment."""
    return observations * log(max(squares / observations, _FLOOR)) + 4 * segments * log(observations)
