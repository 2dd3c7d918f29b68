"""A picture of precision along a network. Importing this module needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from deep_bench.check.thresholds import EXACT_BITS
from deep_bench.measure.pictures import colour, new_figure, tidy, write

if TYPE_CHECKING:
    from deep_bench.network.divergence import Divergence


def plot_divergence(found: Divergence, file: Path) -> Path:
    """Bits of every node that rounds, alone and end to end, over its place; the first divergences are marked."""
    figure = new_figure(4.5)
    axes = figure.subplots()
    rounding = [n.format != "" and n.bits < EXACT_BITS for n in found.nodes]
    alone = [(i, n.bits) for i, n in enumerate(found.nodes) if rounding[i]]
    carried = [(i, n.carried.bits) for i, n in enumerate(found.nodes) if n.carried.bits < EXACT_BITS]
    for points, number, marker, label in (
        (alone, 0, "o", "alone, on the oracle's inputs"),
        (carried, 1, "s", "end to end"),
    ):
        places, bits = [p for p, _ in points], [b for _, b in points]
        style = {"color": colour(number), "marker": marker, "markersize": 3.5, "linewidth": 0.8, "alpha": 0.85}
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
