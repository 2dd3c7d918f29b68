"""What a profile holds, as plain data that can be written and read again, and as tables in a terminal; figures are
derived on reading."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console
from rich.table import Table
from rich.text import Text

from deep_bench.measure.units import duration, in_bytes, share, significant
from deep_bench.operators.cost import Work
from deep_bench.records.fields import LONGEST_NS, Count, NotNegative, Time
from deep_bench.records.store import read_model, replace
from deep_bench.records.table import columns, print_line, print_table


def median(ns: Sequence[int]) -> float:
    """The median, or 0 of nothing."""
    return float(np.median(ns)) if len(ns) else 0.0


Call = Annotated[int, Field(ge=1, le=LONGEST_NS)]
"""The time of a whole call, in nanoseconds."""


class _ProfileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class Piece(_ProfileModel):
    """One piece of a framework's work; see `deep_bench.events.NodeTime`."""

    nodes: list[str]
    ns: list[Time]
    what: str
    direction: Literal["forward", "backward"] = "forward"
    whole: bool = False


class Memory(_ProfileModel):
    """Bytes of the process: measured in the life of one worker, by its resident set.

    Args:
        before: When it began.
        imported: When the framework was imported.
        prepared: When the network was ready.
        called: After the first call.
        peak: The most within the first call; ``None`` where the system does not tell it for a call.
        allocator_peak: The most that the framework's own allocator had handed out, where it tells.
    """

    before: Count
    imported: Count
    prepared: Count
    called: Count
    peak: Count | None = None
    allocator_peak: Count | None = None


class SystemProfile(_ProfileModel):
    """One framework's part of a profile; times in nanoseconds, one for each call.

    Args:
        label: The system.
        framework: Its name in the registry.
        facts: What the adapter says of itself.
        error: Why there is no profile.
        how: How it was observed.
        pieces: What it spends its time on.
        observed_ns: The whole of each observed call.
        plain_ns: Calls that nobody observed, in turn with those.
        walk_ns: See `deep_bench.events.NodeProfile`.
        inside_ns: The same.
        absent: Node to the reason why no piece covers it.
        kernels: The device's kernels under each node.
        native_ns: Calls of ``forward`` on the framework's own arrays, in turn with …
        numpy_ns: … calls from and to NumPy arrays, checks included.
        import_ns: To import the framework.
        prepare_ns: To make the network ready.
        first_call_ns: The first call.
        memory: What the process held.
    """

    label: str
    framework: str
    facts: dict[str, str] = {}
    error: str | None = None
    how: str = ""
    pieces: list[Piece] = []
    observed_ns: list[Call] = []
    plain_ns: list[Call] = []
    walk_ns: list[Time] | None = None
    inside_ns: list[Time] | None = None
    absent: dict[str, str] = {}
    kernels: dict[str, dict[str, NotNegative]] = {}
    native_ns: list[Call] = []
    numpy_ns: list[Call] = []
    import_ns: Time | None = None
    prepare_ns: Time | None = None
    first_call_ns: Time | None = None
    memory: Memory | None = None

    @property
    def in_nodes(self) -> float:
        """Nanoseconds of all pieces, each its median over the observed calls."""
        return sum(map(median, (piece.ns for piece in self.pieces)))

    @property
    def between(self) -> float:
        """Nanoseconds of an observed call that are in no piece, median: dispatch, stamps, Python."""
        return median(self.outside_ns)

    @property
    def outside_ns(self) -> list[int]:
        """What of each observed call is in no piece."""
        inside = np.sum([piece.ns for piece in self.pieces], axis=0) if self.pieces else 0
        durations: list[int] = (np.array(self.observed_ns) - inside).tolist()
        return durations

    @property
    def observed(self) -> float:
        """Nanoseconds that the medians of an observed call's parts add up to: what shares are of.

        A call that was preempted, in whatever part of it, moves neither this nor any share.
        """
        return self.in_nodes + self.between

    @property
    def around(self) -> float | None:
        """Nanoseconds of an observed call outside what the runtime says of itself: Python; median."""
        return None if self.inside_ns is None else float(np.median(np.subtract(self.observed_ns, self.inside_ns)))

    @property
    def plain(self) -> float:
        """Nanoseconds of a call that nobody observes: the median."""
        return median(self.plain_ns)

    @property
    def cost(self) -> float:
        """What being observed costs: the median observed call over the median plain one."""
        return median(self.observed_ns) / self.plain

    @property
    def stamps_cost(self) -> float | None:
        """What the stamps alone cost, where observed calls go a way of their own."""
        return None if self.walk_ns is None else median(self.observed_ns) / median(self.walk_ns)


class NodeFacts(_ProfileModel):
    """What a node asks for, whoever runs it; ``None`` where a shape or a rule is missing.

    Args:
        name: The node.
        operator: Its operator.
        work: Arithmetic on the way forward.
        bytes: What it must at least read and write.
        backward: Arithmetic of the derived network's nodes for its gradients.
    """

    name: str
    operator: str
    work: Work | None
    bytes: Count | None
    backward: Work | None = None


class Needs(_ProfileModel):
    """The memory that the network needs by its shapes; see `deep_bench.network.profiling.Liveness`."""

    parameters: Count
    inputs: Count
    peak: Count
    at: str
    all_activations: Count
    unknown: Count


class Profile(_ProfileModel):
    """Where the time of a network goes, in several frameworks.

    Args:
        network: Its name.
        sha256: Of the network as it was given.
        sizes: How its open dimensions were fixed.
        inputs: Where its inputs come from.
        loss: The output that was differentiated, if any.
        repeat: Calls of each kind.
        nodes: Of the outermost graph, in order.
        needs: Memory, computed.
        systems: In the order asked for.
        in_process: Whether all of them lived in one process.
        interrupted: Whether Ctrl-C ended it: systems that were not reached say so as their error.
        schema_version: Of this form.
    """

    schema_version: Literal[1] = 1
    network: str
    sha256: str
    sizes: dict[str, Count]
    inputs: str
    loss: str | None
    repeat: Count
    nodes: list[NodeFacts]
    needs: Needs
    systems: list[SystemProfile]
    in_process: bool = False
    interrupted: bool = False

    def __getitem__(self, label: str) -> SystemProfile:
        """The part of one system."""
        return next(system for system in self.systems if system.label == label)

    @property
    def ok(self) -> bool:
        """Whether every system could be profiled."""
        return all(system.error is None for system in self.systems)

    @property
    def profiled(self) -> list[SystemProfile]:
        """The systems that could be profiled."""
        return [system for system in self.systems if system.error is None]

    @cached_property
    def rows(self) -> list[ProfileRow]:
        """The systems side by side: one row for each node, or for nodes that one of the systems runs as one."""

        return rows(self)

    def save(self, path: str | Path) -> Path:
        """Write it as JSON, all raw samples included; a file that is there is replaced in one go."""
        path = Path(path)
        replace(path, lambda temporary: temporary.write_text(self.model_dump_json(indent=1), encoding="utf-8"))
        return path

    @classmethod
    def load(cls, path: str | Path) -> Profile:
        """Read what `save` wrote.

        Raises:
            InvalidRecord: It is no profile.
        """
        return read_model(Path(path), cls, "a profile that `deep-bench profile --json` wrote")

    def table(self, top: int | None = 20) -> str:
        """The profile as text: the nodes that take the most time, overheads, and memory."""

        return as_text(self, top)

    def __str__(self) -> str:
        return self.table()


T = TypeVar("T", int, Work)

CONVERSIONS = "(layouts and copies)"
WHOLE = "(whole, not told apart)"


@dataclass
class ProfileCell:
    """What one system spends on a row, in an observed call.

    Args:
        forward: Nanoseconds on the way forward.
        backward: Nanoseconds on the way back.
        share: Of the observed whole.
        ran_as: What the system ran for it, by its own names.
        state: *told apart*: piece by piece; *fused*: several nodes as one; *absent*: nothing was run, ``reason`` says why.
        reason: Why nothing was run.
    """

    forward: float = 0.0
    backward: float = 0.0
    share: float = 0.0
    ran_as: list[str] = field(default_factory=list)
    state: str = "told apart"
    reason: str = ""

    @property
    def ns(self) -> float:
        """Nanoseconds on both ways."""
        return self.forward + self.backward


@dataclass
class ProfileRow:
    """Nodes that some system runs as one, or a single node.

    Args:
        nodes: Names, in the order of the file; none for work that belongs to no node.
        label: What to call it.
        operators: Of the nodes.
        work: Arithmetic of all of them; ``None`` if that of one is unknown.
        bytes: What they read and write, node by node; the same.
        backward: Arithmetic of what is derived for their gradients; the same.
        cells: By system; a system without a piece here has none.
        members: Where there are several nodes: the row of each, for the systems that tell it apart.
    """

    nodes: tuple[str, ...]
    label: str
    operators: tuple[str, ...]
    work: Work | None
    bytes: int | None
    backward: Work | None = None
    cells: dict[str, ProfileCell] = field(default_factory=dict)
    members: dict[str, ProfileRow] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The largest share that it has of any system's whole."""
        return max((cell.share for cell in self.cells.values()), default=0.0)


def rows(profile: Profile) -> list[ProfileRow]:
    """The rows of a profile, in the order of the file; work of no node comes last."""
    place = _groups(profile)
    facts = {node.name: node for node in profile.nodes}
    members: dict[str, list[str]] = {}
    for name, first in place.items():
        members.setdefault(first, []).append(name)
    by_name = {first: _row(names, facts) for first, names in members.items()}
    for label in (CONVERSIONS, WHOLE):
        by_name[label] = ProfileRow((), label, (), None, None)
    for system in profile.profiled:
        for piece in system.pieces:
            key = WHOLE if piece.whole else place[piece.nodes[0]] if piece.nodes else CONVERSIONS
            _add(by_name[key], system, piece)
        for name, reason in system.absent.items():
            row = by_name[place[name]]
            if system.label not in row.cells:
                row.cells[system.label] = ProfileCell(state="absent", reason=reason)
    return [row for row in by_name.values() if row.nodes or row.cells]


def _groups(profile: Profile) -> dict[str, str]:
    """Each node to the first of those that it is in one row with."""
    order = [node.name for node in profile.nodes]
    inner = [n for s in profile.profiled for p in s.pieces if not p.whole for n in p.nodes if n not in order]
    place = {name: name for name in dict.fromkeys([*order, *inner])}
    rank = {name: position for position, name in enumerate(place)}

    def root(name: str) -> str:
        while place[name] != name:
            name = place[name]
        return name

    for piece in (p for s in profile.profiled for p in s.pieces if p.direction == "forward" and not p.whole):
        roots = sorted({root(name) for name in piece.nodes}, key=rank.__getitem__)
        for other_root in roots[1:]:
            place[other_root] = roots[0]
    return {name: root(name) for name in place}


def _row(names: list[str], facts: Mapping[str, NodeFacts]) -> ProfileRow:
    nodes = [facts.get(name) for name in names]
    telling = [n for n, node in zip(names, nodes, strict=True) if node is None or node.operator != "Identity"] or names
    label = f"{telling[0]} … {telling[-1]}" if len(telling) > 2 else " + ".join(telling)
    return ProfileRow(
        tuple(names),
        label,
        tuple("in a subgraph" if node is None else node.operator for node in nodes),
        _total((None if node is None else node.work for node in nodes), Work()),
        _total((None if node is None else node.bytes for node in nodes), 0),
        _total((None if node is None else node.backward for node in nodes), Work()),
        members={name: _row([name], facts) for name in names} if len(names) > 1 else {},
    )


def _total(parts: Iterable[T | None], zero: T) -> T | None:
    for part in parts:
        if part is None:
            return None
        zero = zero + part
    return zero


def _add(row: ProfileRow, system: SystemProfile, piece: Piece) -> None:
    if len(piece.nodes) == 1 and piece.nodes[0] in row.members:
        _add(row.members[piece.nodes[0]], system, piece)
    cell = row.cells.setdefault(system.label, ProfileCell())
    ns = median(piece.ns)
    if piece.direction == "forward":
        cell.forward += ns
    else:
        cell.backward += ns
    cell.share = cell.ns / system.observed
    if piece.direction == "forward" and piece.what not in cell.ran_as:
        cell.ran_as.append(piece.what)
    if len(piece.nodes) > 1 and piece.direction == "forward":
        cell.state = "fused"
    elif cell.state == "absent":
        cell.state = "told apart"


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
    table = Table(title=Text("overheads"), title_justify="left", pad_edge=False)
    table.add_column("")
    for system in profile.profiled:
        table.add_column(Text(system.label), justify="right")
    for label, cells in _overhead_rows(profile.profiled, profile.loss):
        table.add_row(label, *cells)
    print_table(console, table)
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


def _add_row(table: Table, profile: Profile, row: ProfileRow, least: float, indent: str = "") -> None:
    systems = profile.profiled
    cells = [Text(_cell(row.cells.get(s.label), both=profile.loss is not None and row.label != WHOLE)) for s in systems]
    operators = " ".join(dict.fromkeys(row.operators))
    table.add_row(Text(indent + row.label), Text(indent + operators), _flops(row, profile.loss), count(row.bytes), *cells)
    for member in row.members.values():
        if member.share >= least:
            _add_row(table, profile, member, least, indent + "  ")


def _flops(row: ProfileRow, loss: str | None) -> str:
    return " | ".join(
        count(None if work is None else work.flops) for work in ((row.work,) if loss is None else (row.work, row.backward))
    )


def _cell(cell: ProfileCell | None, *, both: bool) -> str:
    if cell is None:
        return ""
    if cell.state == "absent":
        return "not run"
    times = duration(cell.ns / 1e9)
    if both:
        times = " | ".join(duration(ns / 1e9) if ns else "–" for ns in (cell.forward, cell.backward))
    mark = "*" if cell.state == "fused" else ""
    return f"{mark}{times} {share(cell.share):>7}"


def _sum(system: SystemProfile, rows: list[ProfileRow]) -> str:
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
