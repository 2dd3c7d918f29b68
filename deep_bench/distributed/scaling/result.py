"""What follows from the record of a prediction: speed-up, efficiency, and where it stops scaling."""

from __future__ import annotations

from collections.abc import Sequence

from deep_bench.distributed.scaling.record import PointRecord, ScalingRecord

HALF = 0.5


def speed_up(record: ScalingRecord, point: PointRecord) -> float:
    r"""How many times as many samples a second as one rank alone: :math:`T_1 / T_p`, times :math:`p` in weak scaling."""
    times = point.ranks if record.scaling == "weak" else 1
    return times * record.alone / point.mean


def efficiency(record: ScalingRecord, point: PointRecord) -> float:
    """The speed-up over the number of ranks."""
    return speed_up(record, point) / point.ranks


def fastest(record: ScalingRecord) -> PointRecord:
    """Of the points, the one with the most samples a second."""
    return max(record.points, key=lambda point: speed_up(record, point))


def where_it_stops(record: ScalingRecord) -> list[str]:
    """In sentences: beyond how many ranks nothing is gained, and where less than half of it is."""
    points: Sequence[PointRecord] = record.points
    best, half = fastest(record), next((p for p in points if efficiency(record, p) < HALF), None)
    first, last = points[0].ranks, points[-1].ranks
    if speed_up(record, best) <= 1:
        sentences = ["predicted: one rank alone trains as many samples a second as any of these numbers of ranks, or more"]
    elif best is points[-1]:
        sentences = [f"predicted: up to {last} ranks, the most that were asked for, more ranks train more samples a second"]
    else:
        sentences = [f"predicted: it stops scaling at {best.ranks} ranks; more train no more samples a second"]
    if half is None:
        sentences.append(f"predicted: the efficiency is at least 50 % from {first} to {last} ranks")
    else:
        sentences.append(f"predicted: the efficiency falls below 50 % at {half.ranks} ranks")
    return sentences


def apart(record: ScalingRecord) -> list[float]:
    """How many times as long messages that nothing hides take by the simulator as by the formulas, where both are there."""
    return [
        max(point.replayed - point.computing, 0.0) / point.communicating
        for point in record.points
        if point.replayed is not None and point.communicating > 0
    ]
