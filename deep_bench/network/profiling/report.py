"""A profile as tables in a terminal, and what is said under them."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.measure.tables import columns, print_line, print_table
from deep_bench.measure.units import duration, in_bytes, share, significant
from deep_bench.network.profiling.model import median
from deep_bench.network.profiling.rows import WHOLE, Cell, Row
from deep_bench.operators.cost import Work

if TYPE_CHECKING:
    from deep_bench.network.profiling.model import Profile, SystemProfile

_VISIBLE = 0.0005
"""A node within a row is shown from this share on, unless all are asked for."""


def as_text(profile: Profile, top: int | None) -> str:
    """The tables as plain text, or with a terminal's colours.

    Args:
        profile: What to show.
        top: How many rows: those with the largest share of any system's call; ``None`` for all.
    """
    out = io.StringIO()
    terminal = sys.stdout.isatty()
    console = Console(file=out, width=columns(), force_terminal=terminal, highlight=False)
    if profile.profiled and profile.nodes:
        print_table(console, _nodes(profile, top))
    for line in _remarks(profile):
        print_line(console, line)
    if not profile.profiled:
        return out.getvalue().rstrip("\n")
    console.print()
    print_table(console, _overheads(profile))
    print_line(console, "calls that nobody observed were taken in turn with observed ones; the two are never mixed")
    console.print()
    print_table(console, _memory(profile))
    print_line(
        console, "by the process's resident set, and the kernel's high-water mark that is reset before the first call"
    )
    for line in _kernels(profile):
        print_line(console, line)
    return out.getvalue().rstrip("\n")


def _nodes(profile: Profile, top: int | None) -> Table:
    sizes = ", ".join(f"{name}={size}" for name, size in profile.sizes.items())
    way = "forward" if profile.loss is None else f"forward | backward of {profile.loss!r}"
    title = f"{profile.network}{f' ({sizes})' if sizes else ''} · {way} · observed calls: time and share of the whole call"
    table = Table(title=Text(title), title_justify="left", pad_edge=False)
    for name in ("node", "operator", "FLOP", "bytes", *(s.label for s in profile.profiled)):
        table.add_column(Text(name), justify="left" if name in ("node", "operator") else "right")
    ordered = sorted(profile.rows, key=lambda row: -row.share)
    for row in ordered if top is None else ordered[:top]:
        _add_row(table, profile, row, 0.0 if top is None else _VISIBLE)
    remainder = [] if top is None else ordered[top:]
    if remainder:
        cells = [_sum(system, remainder) for system in profile.profiled]
        table.add_row(Text(f"{len(remainder)} more rows"), "", "", "", *cells)
    between = [f"{duration(s.between / 1e9)} {share(s.between / s.observed):>7}" for s in profile.profiled]
    table.add_section()
    table.add_row(Text("between the nodes"), "", "", "", *between)
    table.add_row(Text("whole call"), "", "", "", *(duration(s.observed / 1e9) for s in profile.profiled))
    return table


def _add_row(table: Table, profile: Profile, row: Row, least: float, indent: str = "") -> None:
    systems = profile.profiled
    cells = [Text(_cell(row.cells.get(s.label), both=profile.loss is not None and row.label != WHOLE)) for s in systems]
    operators = " ".join(dict.fromkeys(row.operators))
    table.add_row(Text(indent + row.label), Text(indent + operators), _flops(row, profile.loss), count(row.bytes), *cells)
    for member in row.members.values():
        if member.share >= least:
            _add_row(table, profile, member, least, indent + "  ")


def _flops(row: Row, loss: str | None) -> str:
    return " | ".join(
        count(None if work is None else work.flops) for work in ((row.work,) if loss is None else (row.work, row.backward))
    )


def _cell(cell: Cell | None, *, both: bool) -> str:
    if cell is None:
        return ""
    if cell.state == "absent":
        return "not run"
    times = duration(cell.ns / 1e9)
    if both:
        times = " | ".join(duration(ns / 1e9) if ns else "–" for ns in (cell.forward, cell.backward))
    mark = "*" if cell.state == "fused" else ""
    return f"{mark}{times} {share(cell.share):>7}"


def _sum(system: SystemProfile, rows: list[Row]) -> str:
    cells = [row.cells[system.label] for row in rows if system.label in row.cells]
    return f"{duration(sum(c.ns for c in cells) / 1e9)} {share(sum(c.share for c in cells)):>7}"


def count(value: int | None) -> str:
    """A number of operations or bytes.

    Example:
        >>> count(1290), count(2_500_000), count(None)
        ('1290', '2.50 M', '–')
    """
    if value is None:
        return "–"
    scale, unit = next(((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")) if value >= s), (1, ""))
    return str(value) if not unit else f"{significant(value / (1e3 if unit == 'k' else scale))} {unit}"


def _remarks(profile: Profile) -> Iterator[str]:
    """How each system was observed, what is fused, what was not run, what failed."""
    if profile.interrupted:
        count, total = len(profile.profiled), len(profile.systems)
        yield f"partial: interrupted; {count} of {total} systems were profiled"
    if not profile.nodes:
        yield f"{profile.network} has no nodes: its outputs are its inputs or constants; no node has a time"
    if any(cell.state == "fused" for row in profile.rows for cell in row.cells.values()):
        yield "* runs the nodes of the row as one; those under it are told apart by the others"
    if profile.profiled and profile.nodes:
        yield (
            f"times are medians over {profile.repeat} observed calls, and the whole is what they add up to; "
            "FLOP and bytes are by the operators' definitions and shapes (– where one is unknown)"
        )
        yield _apart(profile)
    if profile.loss is not None:
        yield "FLOP of the way back are those of the network that `differentiate` derives, whatever a framework does instead"
    if profile.in_process:
        yield "profiled in one process: the systems could disturb each other, and memory is that of all of them"
    for system in profile.systems:
        if system.error is not None:
            yield f"{system.label}: {' '.join(system.error.split())}"
            continue
        yield f"{system.label}: {system.how}"
        reasons: dict[str, list[str]] = {}
        for name, reason in system.absent.items():
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
            yield f"{system.label}: {len(names)} nodes not run ({reason}): {shown}"


def _apart(profile: Profile) -> str:
    """What is no FLOP, of all nodes together."""
    parts = [part for node in profile.nodes for part in (node.work, node.backward) if part is not None]
    total = sum(parts, Work())
    return (
        "a FLOP is an addition, subtraction, multiplication or division of elements; apart from these are "
        f"{count(total.special)} elementary functions and {count(total.comparisons)} comparisons"
    )


def _overheads(profile: Profile) -> Table:
    table = Table(title=Text("overheads"), title_justify="left", pad_edge=False)
    table.add_column("")
    for system in profile.profiled:
        table.add_column(Text(system.label), justify="right")
    for label, cells in _overhead_rows(profile.profiled, profile.loss):
        table.add_row(label, *cells)
    return table


def _overhead_rows(systems: list[SystemProfile], loss: str | None) -> Iterator[tuple[str, list[str]]]:
    yield "a call that nobody observes", [duration(s.plain / 1e9) for s in systems]
    yield "what being observed costs", [f"{significant(s.cost)} ×" for s in systems]
    if any(s.walk_ns is not None for s in systems):
        yield (
            "  of that the stamps, beside the same walk",
            ["–" if s.stamps_cost is None else f"{significant(s.stamps_cost)} ×" for s in systems],
        )
    yield "observed: whole calls, their median", [duration(median(s.observed_ns) / 1e9) for s in systems]
    yield "observed: in nodes", [f"{duration(s.in_nodes / 1e9)} {share(s.in_nodes / s.observed)}" for s in systems]
    yield "observed: between nodes", [f"{duration(s.between / 1e9)} {share(s.between / s.observed)}" for s in systems]
    if any(s.inside_ns is not None for s in systems):
        inside = [None if s.inside_ns is None else median(s.inside_ns) for s in systems]
        yield "observed: inside the runtime, as it says itself", [duration(_seconds(i)) for i in inside]
        yield "observed: Python around it", [duration(_seconds(s.around)) for s in systems]
    yield "forward, the framework's own arrays", [duration(median(s.native_ns) / 1e9) for s in systems]
    yield "forward, from and to NumPy, checked", [duration(median(s.numpy_ns) / 1e9) for s in systems]
    yield "import", [duration(_seconds(s.import_ns)) for s in systems]
    yield "preparation", [duration(_seconds(s.prepare_ns)) for s in systems]
    first = "first call" if loss is None else "first call, which derives or traces what gradients need"
    yield first, [duration(_seconds(s.first_call_ns)) for s in systems]


def _seconds(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e9


def _memory(profile: Profile) -> Table:
    needs = profile.needs
    left_out = f"; {needs.unknown} values of unknown size left out" if needs.unknown else ""
    at = f" (at {needs.at})" if needs.at else ""
    title = (
        f"memory · by shapes: parameters {grown(needs.parameters)}, activations at most {grown(needs.peak)} at once{at}, "
        f"{grown(needs.all_activations)} in all{left_out}"
    )
    table = Table(title=Text(title), title_justify="left", pad_edge=False)
    table.add_column("resident memory of the system's own process")
    systems = [s for s in profile.profiled if s.memory is not None]
    for system in systems:
        table.add_column(Text(system.label), justify="right")
    memories = [s.memory for s in systems if s.memory is not None]
    table.add_row("added by importing the framework", *(grown(m.imported - m.before) for m in memories))
    table.add_row("added by preparing the network", *(grown(m.prepared - m.imported) for m in memories))
    table.add_row(
        "added by the first call, at its peak", *(grown(None if m.peak is None else m.peak - m.prepared) for m in memories)
    )
    table.add_row("added by the first call, kept after it", *(grown(m.called - m.prepared) for m in memories))
    if any(m.allocator_peak is not None for m in memories):
        table.add_row("handed out by the framework's own allocator, peak", *(grown(m.allocator_peak) for m in memories))
    return table


def grown(value: int | None) -> str:
    """A difference of bytes, which may be negative: a process can give memory back.

    Example:
        >>> grown(2_500_000), grown(-4096), grown(None)
        ('2.500 MB', '-4 KiB', '–')
    """
    return "–" if value is None else in_bytes(value)


def _kernels(profile: Profile) -> Iterator[str]:
    for system in profile.profiled:
        for node, kernels in system.kernels.items():
            yield f"{system.label}: {node}: " + ", ".join(f"{k} {duration(ns / 1e9)}" for k, ns in kernels.items())
