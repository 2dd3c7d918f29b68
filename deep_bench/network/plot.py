"""Pictures of results. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from deep_bench.network.sweep import SweepResult

# Okabe and Ito's palette, which people with any colour vision can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vP*"


def plot_sweep(found: SweepResult, file: Path) -> Path:
    """Latency and throughput over the size, with 95 % intervals; written as a PNG."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    latency, throughput = figure.subplots(1, 2)
    for number, label in enumerate(found.labels):
        style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)], "label": label}
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
    figure.savefig(file, dpi=150)
    return file


def _label(axes: Axes, found: SweepResult, quantity: str) -> None:
    axes.set(xlabel=found.dimension, ylabel=quantity, xscale="log", yscale="log")
    axes.set_xticks(list(found.results), labels=[str(size) for size in found.results])
    axes.minorticks_off()
    axes.grid(True, which="both", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
