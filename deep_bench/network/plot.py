"""Pictures of results. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from deep_bench.measure.pictures import colour, marker, new_figure, tidy, write

if TYPE_CHECKING:
    from deep_bench.network.sweep import SweepResult


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
