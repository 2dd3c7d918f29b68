"""Communication: times over bytes, measured and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from deep_bench.distributed.collectives.result import Result, Row
from deep_bench.measure.pictures import tidy
from deep_bench.measure.units import duration, in_bytes
from deep_bench.results.report.model import Picture
from deep_bench.results.report.plots.axes import Looks, label, ticks
from deep_bench.results.report.plots.svg import picture


def pictures_of(found: Result, name: str, looks: Looks) -> list[Picture]:
    """A panel for each operation that has sizes.

    Args:
        found: The benchmark.
        name: With which the names of the plots begin.
        looks: Of the communicators.
    """
    kinds = list(dict.fromkeys(row.kind.name for row in found.rows if row.kind.sized and row.seconds is not None))
    return [
        _panel(kind, [row for row in found.rows if row.kind.name == kind and row.seconds is not None], name, looks)
        for kind in kinds
    ]


def _panel(kind: str, rows: Sequence[Row], name: str, looks: Looks) -> Picture:
    systems = list(dict.fromkeys(row.system for row in rows))
    title = f"{kind}, {rows[0].ranks} ranks"

    def draw(drawing: Drawing) -> None:
        axes = drawing.subplots()
        for system in systems:
            system_rows = [row for row in rows if row.system == system]
            _measured(axes, system_rows, looks)
            predicted = [(row.size, row.predicted.seconds) for row in system_rows if row.predicted is not None]
            if predicted:
                axes.plot(
                    *zip(*predicted, strict=True),
                    "--",
                    color=looks.colour(system),
                    linewidth=1,
                    label=f"{system}, predicted",
                )
        axes.set_title(title, loc="left")
        _scales(axes, rows)
        axes.legend(frameon=False, loc="upper left")
        tidy(axes)

    first, last = rows[0], rows[-1]
    alt = (
        f"Time of {title} over bytes, measured on {', '.join(systems)}: "
        f"{in_bytes(first.size)} in {duration(first.seconds)}, {in_bytes(last.size)} in {duration(last.seconds)}"
    )
    caption = (
        "Measured medians with 95 % intervals, not connected; dashed is what LogGP predicts for the cheapest known "
        "algorithm, not measured. A hollow marker stands for a wrong result."
    )
    return picture(f"{name}-{kind}", 3.2, draw, alt=alt, caption=caption)


def _measured(axes: Axes, rows: Sequence[Row], looks: Looks) -> None:
    system = rows[0].system
    for right in (True, False):
        verdict_rows = [row for row in rows if (row.verdict == "right") is right]
        if not verdict_rows:
            continue
        middle = np.array([row.seconds for row in verdict_rows], float)
        low, high = np.array([_ends(row) for row in verdict_rows]).T
        face: dict[str, Any] = {} if right else {"markerfacecolor": "white"}
        axes.errorbar(
            [row.size for row in verdict_rows],
            middle,
            yerr=[middle - np.minimum(low, middle), np.maximum(high, middle) - middle],
            fmt=looks.marker(system),
            color=looks.colour(system),
            markersize=4.5,
            capsize=2,
            label=f"{system}, measured{'' if right else ', not right'}",
            **face,
        )


def _ends(row: Row) -> tuple[float, float]:
    interval, middle = (None if row.summary is None else row.summary.interval), row.seconds or 0.0
    return (middle, middle) if interval is None else (max(interval.low / 1e9, 1e-9), interval.high / 1e9)


def _scales(axes: Axes, rows: Sequence[Row]) -> None:
    values = [value for row in rows for value in (*_ends(row), *([row.predicted.seconds] if row.predicted else []))]
    low, high = min(values) / 1.3, max(values) * 1.9
    sizes = sorted({max(row.size, 1) for row in rows})
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_ylim(low, high)
    axes.set_yticks(marks := ticks(low, high), [label(mark, "s") for mark in marks])
    every = -(-len(sizes) // 6)
    axes.set_xticks(sizes[::every], [in_bytes(of) for of in sizes[::every]])
    axes.set_xlabel("bytes")
    axes.set_ylabel("time of the operation")
