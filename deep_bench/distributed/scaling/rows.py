"""A prediction in rows, for whatever shows them: the word *predicted* is on each."""

from __future__ import annotations

from dataclasses import dataclass

from deep_bench.distributed.scaling.record import MeasuredRecord, PointRecord, ScalingRecord
from deep_bench.distributed.scaling.result import efficiency, speed_up
from deep_bench.measure.units import duration, duration_range, in_bytes, share, significant


@dataclass(frozen=True)
class Rows:
    """A table of figures.

    Args:
        title: What it shows.
        columns: Their names.
        cells: Row by row, a text for each column.
    """

    title: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]


def steps(record: ScalingRecord) -> Rows:
    """The step, its parts, the speed-up and what is sent, for each number of ranks."""
    batch = f"a batch of {record.whole_batch} {'together' if record.scaling == 'strong' else 'on each rank'}"
    title = (
        f"predicted, not measured: {record.title} with {record.scheme} on {record.framework}; {record.scaling} "
        f"scaling, {batch}; one rank alone takes {duration(record.alone)} a step (measured)"
    )
    columns = (
        "ranks",
        "samples",
        "step, predicted",
        "95 % interval",
        "90 % of steps",
        "computing",
        "messages",
        "speed-up",
        "efficiency",
        "a rank sends",
        "SimGrid, predicted",
        "its messages",
    )
    return Rows(title, columns, tuple(_step(record, point) for point in record.points))


def _step(record: ScalingRecord, point: PointRecord) -> tuple[str, ...]:
    least, most = (in_bytes(sent) for sent in (point.sent_least, point.sent_most))
    return (
        f"{point.ranks}{'*' if point.beyond else ''}",
        f"{point.batch}{' or fewer' if point.uneven else ''}",
        duration(point.mean),
        duration_range(point.low, point.high),
        duration_range(point.least, point.most),
        duration(point.computing),
        duration(point.communicating),
        significant(speed_up(record, point)),
        share(efficiency(record, point)),
        most if least == most else f"{least} to {most}",
        duration(point.replayed),
        duration(None if point.replayed is None else max(point.replayed - point.computing, 0.0)),
    )


def beside(record: ScalingRecord) -> Rows:
    """What was measured, beside what is predicted for as many ranks."""
    title = (
        "predicted against measured: a step on as many ranks; computing: of the slowest rank, without messages; the "
        "last two are predicted from the computing of the measured run itself"
    )
    columns = (
        "ranks",
        "samples",
        "measured, mean",
        "90 % of steps",
        "computing",
        "formulas, predicted",
        "off",
        "computing, predicted",
        "SimGrid, predicted",
        "off ",
        "from its own computing",
        "off  ",
    )
    return Rows(title, columns, tuple(map(_beside, record.measured)))


def _beside(measurement: MeasuredRecord) -> tuple[str, ...]:
    return (
        str(measurement.ranks),
        str(measurement.batch),
        duration(measurement.mean),
        duration_range(measurement.least, measurement.most),
        duration(measurement.computing),
        duration(measurement.predicted),
        _off(measurement.predicted, measurement),
        duration(measurement.predicted_computing),
        duration(measurement.replayed),
        _off(measurement.replayed, measurement),
        duration(measurement.predicted_own),
        _off(measurement.predicted_own, measurement),
    )


def _off(predicted: float | None, measurement: MeasuredRecord) -> str:
    return "–" if predicted is None else f"{100 * (predicted / measurement.mean - 1):+.1f} %"
