"""Heat maps of errors: where in a result a kernel is off. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, LogNorm
from matplotlib.ticker import MaxNLocator

from deep_bench.check.thresholds import LARGEST_RATIO
from deep_bench.errors import InvalidArgument
from deep_bench.measure.pictures import SMALL, new_figure, shrunk, write
from deep_bench.operators.checks.errors import ErrorMap

_MOST_CELLS = 200
"""So many rows and columns of colour at most; further ones share a cell, which shows the largest of them."""

_FLOOR = 0.1
_TOP = (1e4, 1e12)
"""The least and the greatest error that the colours end at."""

_BLACK = "#000000"


def plot(maps: Sequence[ErrorMap], file: str | Path) -> Path:
    """Every element's error in units of what rounding explains, logarithmic, as a picture for each result.

    The last dimension runs to the right, all others downwards. Blue: up to 24 times, which rounding may give. Orange to red:
    more. Black: NaN, infinite or finite where the oracle is not. The largest error has a ring.

    Args:
        maps: From `deep_bench.operators.error_maps`.
        file: Where to write it; the name's end tells the format.

    Raises:
        InvalidArgument: There is nothing to show, or the file cannot be written.
    """
    shown = [error_map for error_map in maps if error_map.ratio.size]
    if not shown:
        raise InvalidArgument("no errors to show", "a result with floating-point elements")
    largest = max(float(np.max(f.ratio[np.isfinite(f.ratio)], initial=0.0)) for f in shown)
    norm = LogNorm(_FLOOR, float(np.clip(largest, *_TOP)))
    colours = _colours(norm)
    figure = new_figure(0.6 + 2.6 * len(shown))
    rows = figure.subplots(len(shown), squeeze=False)[:, 0]
    for axes, error_map in zip(rows, shown, strict=True):
        _draw(axes, error_map, norm, colours)
    bar = figure.colorbar(ScalarMappable(norm, colours), ax=list(rows), pad=0.02, extend="max")
    bar.set_label(f"error / what rounding explains (line: {LARGEST_RATIO:g})", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    bar.ax.axhline(LARGEST_RATIO, color="black", linewidth=1.2)
    return write(figure, file)


def _colours(norm: LogNorm) -> Colormap:
    """Blues as far as rounding goes, oranges and reds beyond."""
    assert norm.vmax is not None
    split = float(np.log(LARGEST_RATIO / _FLOOR) / np.log(norm.vmax / _FLOOR))
    low = [(split * t, colormaps["Blues"](0.05 + 0.65 * t)) for t in np.linspace(0, 1, 8)]
    high = [(split + (1 - split) * t, colormaps["YlOrRd"](0.35 + 0.65 * t)) for t in np.linspace(0, 1, 8)]
    colour_map = LinearSegmentedColormap.from_list("errors", [*low, *high], N=512)
    return colour_map.with_extremes(over=_BLACK, bad=_BLACK, under=colormaps["Blues"](0.0))


def _draw(axes: Axes, error_map: ErrorMap, norm: LogNorm, colours: Colormap) -> None:
    shape = error_map.ratio.shape
    folded = error_map.ratio.reshape(prod(shape[:-1]), shape[-1]) if shape else error_map.ratio.reshape(1, 1)
    height, width = folded.shape
    cells = np.ma.masked_invalid(np.maximum(shrunk(folded, _MOST_CELLS), _FLOOR))
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    axes.imshow(cells, norm=norm, cmap=colours, aspect="auto", interpolation="nearest", extent=extent)
    row, column = np.unravel_index(int(np.argmax(folded)), folded.shape)
    axes.plot(column, row, "o", markersize=11, markerfacecolor="none", markeredgecolor="black", clip_on=False)
    value = float(folded[row, column])
    place = list(error_map.worst)
    message = f"largest: {value:.3g} at {place}" if np.isfinite(value) else f"NaN or infinite at {place}"
    beyond = int(np.sum(folded > LARGEST_RATIO))
    axes.set_title(f"{error_map.title}\n{message}; {beyond} of {folded.size} beyond rounding", fontsize=SMALL, loc="left")
    axes.set_xlabel("last dimension" if len(shape) > 1 else "element", fontsize=SMALL)
    outer_sizes = " x ".join(map(str, shape[:-1]))
    axes.set_ylabel(f"row ({outer_sizes})" if len(shape) > 1 else "", fontsize=SMALL)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    if height == 1:
        axes.set_yticks([])
    axes.tick_params(labelsize=SMALL)
