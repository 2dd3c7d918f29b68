"""The look that all pictures share. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from deep_bench.errors import InvalidArgument

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""For one series after the other: people with any colour vision can tell them apart.

Source:
    Okabe and Ito, *Color Universal Design*, 2008.
"""

_PALER = 0.45
"""The strength that is left of a colour in its second round."""

MARKERS = "osD^vP*X"
"""For one series after the other, so that colour is not all that tells them apart."""

WIDTH = 9.0
"""Of a picture, in inches: its text has the size of a page's text when it is as wide as a page."""

SMALL = 8
"""Size of text that names single things within a picture, in points."""


_FOOTNOTE_CHARACTERS = 140
"""So many of them in a line are as wide as a picture."""


def colour(number: int) -> str:
    """The colour of a series; after all `COLOURS` their paler shades follow, then these once more.

    Example:
        >>> colour(0), colour(len(COLOURS))
        ('#0072B2', '#8cc0dc')
    """
    base = COLOURS[number % len(COLOURS)]
    if number // len(COLOURS) % 2 == 0:
        return base
    red, green, blue = (1 - _PALER * (1 - part) for part in to_rgb(base))
    return to_hex((red, green, blue))


def marker(number: int) -> str:
    """The marker of a series."""
    return MARKERS[number % len(MARKERS)]


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """An empty figure that finds its layout itself; no window and no global state belong to it.

    Args:
        height: In inches.
        width: In inches.
    """
    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Axes, *, axis: Literal["both", "x", "y"] = "both", which: Literal["major", "both"] = "major") -> None:
    """A faint grid behind what is shown, and no frame where there is no scale.

    Args:
        axes: What to change.
        axis: The direction whose values have a line.
        which: The ticks that have a line.
    """
    axes.grid(visible=True, which=which, axis=axis, alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def whole_ticks(axes: Axes) -> None:
    """Ticks at whole numbers only along x, which counts something."""
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))


def footnotes(figure: Figure, lines: Sequence[str]) -> None:
    """What has no place in a picture, in lines below it; long ones are wrapped."""
    if lines:
        wrapped = [part for line in lines for part in wrap(line, _FOOTNOTE_CHARACTERS)]
        figure.supxlabel("\n".join(wrapped), fontsize=SMALL, x=0.01, ha="left")


def write(figure: Figure, file: str | Path) -> Path:
    """Write a figure; the end of the name tells the format.

    Raises:
        InvalidArgument: There is no such folder, the file cannot be written, or the format is not known.
    """
    folder = Path(file).parent
    if not folder.is_dir():
        reason = f"{folder} is no folder" if folder.exists() else f"the folder {folder} does not exist"
        raise InvalidArgument(f"{file} cannot be written: {reason}", advice="make it, or name another")
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise InvalidArgument(f"{file} cannot be written: {error.strerror}", advice="name another file") from error
    except ValueError as error:
        raise InvalidArgument(f"{file} cannot be written: {error}", "a path that ends in .png, .pdf or .svg") from error
    return Path(file)


def shrunk(matrix: np.ndarray, most: int) -> np.ndarray:
    """A matrix with at most so many rows and columns, where each is the largest of several: no large element is lost.

    Example:
        >>> shrunk(np.array([[1, 5, 2, 3]]), 2)
        array([[5, 3]])
    """
    for axis in (0, 1):
        size = matrix.shape[axis]
        if size > most:
            starts = np.unique(np.linspace(0, size, most, endpoint=False).astype(int))
            matrix = np.maximum.reduceat(matrix, starts, axis=axis)
    return matrix
