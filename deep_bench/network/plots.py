"""Pictures of comparisons, divergences, profiles and sweeps. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.patches import Patch

from deep_bench.check.thresholds import EXACT_BITS
from deep_bench.errors import InvalidArgument
from deep_bench.network.differences import ORACLE
from deep_bench.records.pictures import colour, marker, new_figure, shrunk, tidy, write

if TYPE_CHECKING:
    from deep_bench.network.comparison import NetworkComparison
    from deep_bench.network.divergence import Divergence
    from deep_bench.network.profile_result import Profile
    from deep_bench.network.run import SweepResult

_PIXELS = 128
_DECADES = 1e6


def plot_comparison(found: NetworkComparison, file: Path, output: str | None, base: str | None) -> Path:
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
            cmap=colormaps["viridis_r"].with_extremes(over="red"),
            aspect="auto",
            interpolation="nearest",
            extent=(0, matrix.shape[1], matrix.shape[0], 0),
        )
        axes.set(title=label, xlabel=_axes_name(shape, split, len(shape)), ylabel=_axes_name(shape, 0, split))
    assert image is not None
    bar = figure.colorbar(image, ax=figure.axes, extend="max")
    bar.set_label("relative error (white: none; red: not finite)")
    write(figure, file)


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


def plot_divergence(found: Divergence, file: Path) -> Path:
    """Bits of every node that rounds, alone and end to end, over its place; the first divergences are marked."""
    figure = new_figure(4.5)
    axes = figure.subplots()
    rounding = [n.format != "" and n.bits < EXACT_BITS for n in found.nodes]
    alone = [(i, n.bits) for i, n in enumerate(found.nodes) if rounding[i]]
    carried = [(i, n.carried.bits) for i, n in enumerate(found.nodes) if n.carried.bits < EXACT_BITS]
    for points, number, sign, label in (
        (alone, 0, "o", "alone, on the oracle's inputs"),
        (carried, 1, "s", "end to end"),
    ):
        places, bits = [p for p, _ in points], [b for _, b in points]
        style = {"color": colour(number), "marker": sign, "markersize": 3.5, "linewidth": 0.8, "alpha": 0.85}
        axes.plot(places, bits, label=label if points else None, **style)  # type: ignore[arg-type]
    first, end_to_end = found.first, found.first_carried
    if first is not None:
        _mark(axes, found.nodes.index(first), 0, f"first divergence alone: {first.name} ({first.operator})")
    if end_to_end is not None:
        label = f"first divergence end to end: {end_to_end.name} ({end_to_end.operator})"
        _mark(axes, found.nodes.index(end_to_end), 1, label, dashed=True)
    order = "node, in the order of the backward pass" if found.backward else "node, in the order of the network"
    axes.set(xlabel=order, ylabel="significant bits, by the rounding-error estimate")
    shown = [b for _, b in (*alone, *carried)]
    axes.set_ylim(min([0.0, *shown]), max([24.0, *shown]) + 1)
    tidy(axes)
    figure.legend(frameon=False, fontsize="small", loc="outside lower center", ncols=2)
    partial = " (partial: interrupted)" if found.interrupted else ""
    figure.suptitle(
        f"{'Gradients of ' if found.backward else ''}{found.network} on {found.system}: precision along the network{partial}"
    )
    return write(figure, file)


def _mark(axes: Axes, place: int, number: int, label: str, *, dashed: bool = False) -> None:
    axes.axvline(place, color=colour(number), linewidth=1.6, linestyle="--" if dashed else "-", alpha=0.6, label=label)


_LONGEST = 40


def plot_profile(profile: Profile, file: Path, top: int = 15) -> Path:
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


def plot_sweep(found: SweepResult, file: Path) -> Path:
    """Latency and throughput over the size, with 95 % intervals; written as a PNG."""
    figure = new_figure(4)
    latency, throughput = figure.subplots(1, 2)
    for number, label in enumerate(found.labels):
        style = {"color": colour(number), "marker": marker(number), "label": label}
        points = [(n, s.median, s.interval) for n, r in found.results.items() if (s := r[label]).median is not None]
        sizes = [n for n, _, _ in points]
        medians = [m * 1e3 for _, m, _ in points]
        below = [max(m - i.low * 1e3, 0) if i is not None else 0 for m, (_, _, i) in zip(medians, points, strict=True)]
        above = [max(i.high * 1e3 - m, 0) if i is not None else 0 for m, (_, _, i) in zip(medians, points, strict=True)]
        latency.errorbar(sizes, medians, yerr=[below, above], capsize=3, **style)
        throughput.plot(sizes, [n / m * 1e3 for n, m in zip(sizes, medians, strict=True)], **style)
    _label(latency, found, "median time of a call, 95 % interval (ms)")
    _label(throughput, found, "items a second")
    latency.legend(frameon=False)
    name = next(iter(found.results.values())).record.network
    figure.suptitle(f"{name.name if name is not None else 'network'}: time and throughput over {found.dimension}")
    return write(figure, file)


def _label(axes: Axes, sweep: SweepResult, quantity: str) -> None:
    axes.set(xlabel=sweep.dimension, ylabel=quantity, xscale="log", yscale="log")
    axes.set_xticks(list(sweep.results), labels=[str(size) for size in sweep.results])
    axes.minorticks_off()
    tidy(axes, which="both")
