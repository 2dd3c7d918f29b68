"""Where the error sits in one output: a heat map for each system. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, LogNorm

from deep_bench.errors import InvalidArgument
from deep_bench.measure.pictures import new_figure, shrunk, write
from deep_bench.network.differences import ORACLE

if TYPE_CHECKING:
    from deep_bench.network.comparison import NetworkComparison

_PIXELS = 128
_DECADES = 1e6


def plot(found: NetworkComparison, file: Path, output: str | None, base: str | None) -> Path:
    """See `NetworkComparison.plot`."""
    output = _common(found) if output is None else output
    base = base or (
        ORACLE if found.yardstick is not None and output in found.yardstick.truth.outputs else found.systems[0].label
    )
    expected = _array(found, base, output)
    scale = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))) or 1.0
    errors = {}
    for label, arrays in found.outputs.items():
        if label != base and output in arrays and arrays[output].shape == expected.shape:
            with np.errstate(all="ignore"):
                difference = np.abs(_numeric(arrays[output], label, output) - expected) / scale
            unlike = ~np.isfinite(difference) & ~_same_kind(arrays[output], expected)
            errors[label] = np.where(unlike, np.inf, np.nan_to_num(difference, nan=0.0, posinf=0.0))
    if not errors:
        raise InvalidArgument(f"no system besides {base} has an output {output!r} of its shape", "two arrays of one shape")
    _draw(
        errors,
        expected.shape,
        file,
        f"{output}: error relative to the largest element of {'the oracle' if base == ORACLE else base}",
    )
    return file


def _draw(errors: dict[str, np.ndarray], shape: tuple[int, ...], file: Path, title: str) -> None:
    columns = int(np.ceil(np.sqrt(len(errors))))
    rows = -(-len(errors) // columns)
    figure = new_figure(3.4 * rows + 0.6, 4.2 * columns + 1)
    figure.suptitle(title)
    finite = [e[np.isfinite(e) & (e > 0)] for e in errors.values()]
    largest = max((float(e.max()) for e in finite if e.size), default=1.0)
    smallest = max(min((float(e.min()) for e in finite if e.size), default=1.0), largest / _DECADES)
    scale = LogNorm(smallest if smallest < largest else largest / 10, largest)
    split = _split(shape)
    image = None
    for number, (label, error) in enumerate(errors.items()):
        axes = figure.add_subplot(rows, columns, number + 1)
        matrix = error.reshape(int(np.prod(shape[:split], dtype=int)), -1)
        axes.set_facecolor("white")
        shown = shrunk(matrix, _PIXELS)
        shown = np.where(shown > 0, np.clip(shown, smallest, 10 * largest), np.nan)  # infinity would be drawn as nothing
        image = axes.imshow(
            shown,
            norm=scale,
            cmap=_colours(),
            aspect="auto",
            interpolation="nearest",
            extent=(0, matrix.shape[1], matrix.shape[0], 0),
        )
        axes.set(title=label, xlabel=_axes_name(shape, split, len(shape)), ylabel=_axes_name(shape, 0, split))
    assert image is not None
    bar = figure.colorbar(image, ax=figure.axes, extend="max")
    bar.set_label("relative error (white: none; red: not finite)")
    write(figure, file)


def _colours() -> Colormap:
    return colormaps["viridis_r"].with_extremes(over="red")


def _split(shape: tuple[int, ...]) -> int:
    """After how many axes to break the shape, so that the matrix of the rest is as square as can be."""
    total = max(int(np.prod(shape, dtype=int)), 1)
    heights = [int(np.prod(shape[:n], dtype=int)) for n in range(len(shape) + 1)]
    return min(range(len(heights)), key=lambda n: abs(np.log(max(heights[n], 1)) - np.log(total) / 2))


def _axes_name(shape: tuple[int, ...], begin: int, end: int) -> str:
    part = " × ".join(str(size) for size in shape[begin:end])
    if not part:
        return ""
    return f"axis {begin} ({part})" if end - begin == 1 else f"axes {begin} to {end - 1} ({part})"


def _same_kind(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (np.isnan(a) & np.isnan(b)) | (a == b)


def _common(comparison: NetworkComparison) -> str:
    sets = [set(arrays) for arrays in comparison.outputs.values()]
    first = next(iter(comparison.outputs.values()), {})
    name = next((n for n in first if all(n in s for s in sets)), None)
    if name is None:
        raise InvalidArgument("no output that all systems have", "output=, one that two of them have")
    return name


def _array(comparison: NetworkComparison, base: str, output: str) -> np.ndarray:
    if base == ORACLE:
        if comparison.yardstick is None:
            raise InvalidArgument(
                "no oracle in a comparison without a reference", f"base=, one of {', '.join(comparison.outputs)}"
            )
        arrays = comparison.yardstick.truth.outputs
    elif base in comparison.outputs:
        arrays = comparison.outputs[base]
    else:
        raise InvalidArgument(f"base={base!r}", f"one of {', '.join((ORACLE, *comparison.outputs))}")
    if output not in arrays:
        raise InvalidArgument(f"{base} has no output {output!r}", f"one of {', '.join(arrays)}")
    return _numeric(np.asarray(arrays[output]), base, output)


def _numeric(array: np.ndarray, label: str, output: str) -> np.ndarray:
    if array.dtype.kind in "OSU":
        raise InvalidArgument(f"the output {output!r} of {label} holds strings", "numbers")
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
