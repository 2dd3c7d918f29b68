"""Times over bytes, measured and predicted. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from deep_bench.measure.pictures import SMALL, colour, footnotes, marker, new_figure, tidy, write
from deep_bench.measure.units import in_bytes

if TYPE_CHECKING:
    from deep_bench.distributed.collectives.result import Result, Row

_COLUMNS = 2
_HEIGHT = 3.6


def draw(result: Result, file: str | Path) -> Path:
    """A picture for each benchmark: the median time of each size with its 95 % interval, and what is predicted, dashed.

    Args:
        result: What was found.
        file: Where to; the end of the name tells the format.
    """
    names = list(dict.fromkeys(row.kind.name for row in result.rows))
    across = min(_COLUMNS, len(names))
    down = -(-len(names) // across)
    figure = new_figure(_HEIGHT * down + 0.6)
    grid = figure.subplots(down, across, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    for name, axes in zip(names, grid.flat, strict=False):
        _panel(axes, name, [row for row in result.rows if row.kind.name == name])
    lines = {label: line for axes in grid.flat for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(lines.values(), lines.keys(), fontsize=SMALL, loc="outside upper center", ncols=4)
    footnotes(figure, _notes(result))
    return write(figure, file)


def _panel(axes: Axes, name: str, rows: list[Row]) -> None:
    systems = list(dict.fromkeys(row.system for row in rows))
    sized = rows[0].kind.sized
    for number, system in enumerate(systems):
        of_system = [row for row in rows if row.system == system]
        at = [float(row.size) if sized else float(number) for row in of_system]
        _measured(axes, of_system, at, number)
        _predicted(axes, of_system, at, number, sized)
    axes.set_title(name)
    axes.set_yscale("log")
    axes.set_ylabel("time in s")
    if sized:
        axes.set_xscale("log", base=2)
        axes.set_xlabel("bytes")
        axes.xaxis.set_major_formatter(lambda value, _: in_bytes(round(value)).replace(" ", "\u202f"))
        axes.tick_params(axis="x", labelsize=SMALL)
    else:
        axes.set_xticks(range(len(systems)), systems)
        axes.set_xlim(-0.5, len(systems) - 0.5)
    tidy(axes)


def _measured(axes: Axes, rows: list[Row], at: list[float], number: int) -> None:
    points = [(x, row) for x, row in zip(at, rows, strict=True) if row.seconds is not None]
    if not points:
        return
    medians = np.array([row.seconds or 0.0 for _, row in points])
    ends = [
        (m, m) if row.summary is None or row.summary.interval is None
        else (row.summary.interval.low / 1e9, row.summary.interval.high / 1e9)
        for m, (_, row) in zip(medians, points, strict=True)
    ]  # fmt: skip
    low, high = np.array(ends).T
    wrong = [(x, row.seconds) for x, row in points if row.verdict != "right"]
    axes.errorbar(
        [x for x, _ in points], medians, yerr=[medians - low, high - medians], color=colour(number), marker=marker(number),
        markersize=4, linestyle="none", capsize=2, label=f"{rows[0].system}, measured",
    )  # fmt: skip
    if wrong:
        axes.plot(*zip(*wrong, strict=True), "x", color="red", markersize=10, label=f"{rows[0].system}, wrong")


def _predicted(axes: Axes, rows: list[Row], at: list[float], number: int, sized: bool) -> None:
    points = [(x, row.predicted.seconds) for x, row in zip(at, rows, strict=True) if row.predicted is not None]
    if points:
        style: dict[str, Any] = {"linestyle": "--"} if sized else {"marker": "_", "markersize": 14, "linestyle": "none"}
        label = f"{rows[0].system}, predicted"
        axes.plot(*zip(*points, strict=True), color=colour(number), linewidth=1, label=label, **style)


def _notes(result: Result) -> list[str]:
    hosts = result.hosts
    on = "1 host" if len(set(hosts)) == 1 else f"{len(set(hosts))} hosts"
    lines = [
        f"{len(hosts)} ranks on {on}",
        "points: medians of the maximum over the ranks, with 95 % intervals where the samples are enough",
    ]
    if any(row.predicted for row in result.rows):
        lines.append("dashed: predicted by LogGP for the cheapest known algorithm, from single messages; not measured")
    return lines
