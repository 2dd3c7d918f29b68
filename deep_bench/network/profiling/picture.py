"""A picture of a profile. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.patches import Patch

from deep_bench.measure.pictures import colour, new_figure, tidy, write

if TYPE_CHECKING:
    from deep_bench.network.profiling.model import Profile

_LONGEST = 40


def plot(profile: Profile, file: Path, top: int = 15) -> Path:
    """The rows with the largest shares, one bar for each system; written as a PNG.

    Args:
        profile: What to show.
        file: Where to write it.
        top: How many rows.
    """
    rows = sorted(profile.rows, key=lambda row: -row.share)[:top]
    systems = profile.profiled
    height = 0.8 / max(len(systems), 1)
    figure = new_figure(1.8 + 0.17 * (len(rows) + 1) * max(len(systems), 2))
    axes = figure.subplots()
    for number, system in enumerate(systems):
        places = [place + (number - (len(systems) - 1) / 2) * height for place in range(len(rows) + 1)]
        cells = [row.cells.get(system.label) for row in rows]
        values = [0.0 if cell is None else 100 * cell.share for cell in cells] + [100 * system.between / system.observed]
        bars = axes.barh(places, values, height, color=colour(number))
        for bar, cell in zip(bars, cells, strict=False):
            if cell is not None and cell.state == "fused":
                bar.set(hatch="///", edgecolor="white")
    labels = [_shortened(row.label) for row in rows] + ["between the nodes"]
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("share of an observed call (%); hatched: several nodes run as one")
    way = "forward" if profile.loss is None else f"forward and backward of {profile.loss}"
    partial = " (partial: interrupted)" if profile.interrupted else ""
    axes.set_title(f"{profile.network}: where the time of a call goes, {way}{partial}", loc="left")
    tidy(axes, axis="x")
    axes.margins(y=0.01)
    keys = [Patch(color=colour(n), label=s.label) for n, s in enumerate(systems)]
    figure.legend(handles=keys, frameon=False, loc="outside lower center", ncols=len(keys))
    return write(figure, file)


def _shortened(label: str) -> str:
    half = _LONGEST // 2
    return label if len(label) <= _LONGEST else f"{label[: half - 1]} … {label[1 - half :]}"
